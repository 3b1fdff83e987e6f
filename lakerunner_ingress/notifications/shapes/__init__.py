"""What the clouds say when an object is new, one file per family; each reads bytes into an `Event`.

`aws` takes S3 event JSON, alone or in an SNS or EventBridge envelope; `gcs` what Pub/Sub carries for Cloud
Storage; `azure` Event Grid and CloudEvents. The same functions serve webhooks and queues.
"""

from collections.abc import Callable

from resources.notifications.events import Event

Shape = Callable[[bytes, str], Event]
"""From the bytes of a message and the name of its source to the event in it, or `MalformedMessageError`."""
