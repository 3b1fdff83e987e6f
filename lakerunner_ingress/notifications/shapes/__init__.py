"""Messages of the clouds about new objects, one file per family; each is read into an `Event`.

`aws` takes S3 event JSON, alone or in an SNS or EventBridge envelope; `gcs` messages of Pub/Sub for Cloud
Storage; `azure` Event Grid and CloudEvents. The same functions serve webhooks and queues.
"""

from collections.abc import Callable

from resources.notifications.events import Event

Shape = Callable[[bytes, str], Event]
"""Reader of a message: takes bytes and the name of the source, returns the event or raises
`MalformedMessageError`."""
