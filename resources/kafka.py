"""The door to Kafka, which carries references and hints, never telemetry.

`Producer.send` returns when the broker has the messages; `read_batch` reads a bounded run from offsets that
the caller keeps (Postgres is the truth, there is no group to join). A broker that was recreated, or that
dropped messages, is an event to be shown and not a crash. The parts live in `resources/stream/`.
"""

from resources.stream.producer import Producer
from resources.stream.reader import close_readers, commit_for_lag, read_batch
from resources.stream.values import EventKind, KafkaUnavailableError, Message, ReadBatch, ReadEvent

__all__ = [
    "EventKind",
    "KafkaUnavailableError",
    "Message",
    "Producer",
    "ReadBatch",
    "ReadEvent",
    "close_readers",
    "commit_for_lag",
    "ingest_topic",
    "read_batch",
]


def ingest_topic(signal: str) -> str:
    """Where references to raw objects of a signal travel."""
    return f"objstore.ingest.{signal}"
