"""The process behind `lakerunner notifications`: one queue, one pipeline, one thread."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing

from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.queues.azure_queue import open_azure_queue
from lakerunner_ingress.notifications.queues.poll import poll, take
from lakerunner_ingress.notifications.queues.pubsub import open_pubsub
from lakerunner_ingress.notifications.queues.queue import Queue, QueueTelemetry
from lakerunner_ingress.notifications.queues.sqs import open_sqs
from lakerunner_ingress.registry import RegistryCache
from resources.index.contract import IngressIndex
from resources.kafka.producer import Producer
from resources.settings import Settings

log = logging.getLogger(__name__)

OPENERS: dict[str, Callable[[Settings], Queue]] = {
    "sqs": open_sqs,
    "pubsub": open_pubsub,
    "azure-queue": open_azure_queue,
}


def serve(kind: str, settings: Settings, *, once: bool = False) -> int:
    """Until SIGTERM or SIGINT, or for one round: then 1 if a message could not be made durable."""
    from resources.index.postgres import PostgresIndex

    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with (
        closing(OPENERS[kind](settings)) as queue,
        PostgresIndex(settings.require("index_dsn"), max_connections=4, wait_s=3.0) as index,
        closing(Producer(settings.require("kafka_bootstrap"))) as producer,
    ):
        log.info("taking notifications from %s", kind)
        return run(queue, index, producer, stop, once=once)


def run(queue: Queue, index: IngressIndex, producer: Producer, stop: threading.Event, *, once: bool) -> int:
    telemetry = QueueTelemetry(queue.name, index)
    pipeline = Pipeline(index, producer, RegistryCache(index), telemetry)
    if not once:
        poll(queue, pipeline, telemetry, stop)
        return 0
    done = take(queue, pipeline, telemetry, stop)
    telemetry.flush(now=True)
    log.info("%d messages: %s", len(done.fates), dict(Counter(fate.value for _, fate in done.fates)))
    return 1 if done.left_behind else 0
