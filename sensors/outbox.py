"""The outbox sensor sends waiting notices to Kafka, at least once."""

import dagster as dg

from resources.bindings import Lakerunner
from resources.kafka.producer import Producer
from resources.kafka.reader import KafkaUnavailableError
from resources.settings import Settings

INTERVAL_S = 5
CHUNK = 500
MAX_CHUNKS = 20
_producers: dict[str, Producer] = {}


def producer(settings: Settings) -> Producer:
    """Return the producer of this process: sensors live in the code server, so it survives ticks."""
    bootstrap = settings.require("kafka_bootstrap")
    return _producers.setdefault(bootstrap, Producer(bootstrap))


@dg.sensor(
    name="outbox",
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Sends waiting notices to Kafka; starts no runs.",
)
def outbox_sensor(context: dg.SensorEvaluationContext, lakerunner: Lakerunner) -> dg.SkipReason:
    del context
    sent = 0
    send = producer(lakerunner.settings).send
    try:
        for _ in range(MAX_CHUNKS):
            drained = lakerunner.index.drain_outbox(send, CHUNK)
            sent += drained
            if drained < CHUNK:
                break
    except KafkaUnavailableError as error:
        return dg.SkipReason(f"{sent} notices sent, the rest waits: {error}")
    return dg.SkipReason(f"{sent} notices sent")
