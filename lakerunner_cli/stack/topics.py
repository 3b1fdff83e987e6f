"""Creates the topics of the local broker explicitly: a misspelt name must fail, not make a topic.

Ingest topics carry references to raw objects; `boxer.*` topics carry hints that may be lost.
"""

from __future__ import annotations

import time
from typing import Any

TOPICS = {
    "objstore.ingest.logs": 3,
    "objstore.ingest.metrics": 3,
    "objstore.ingest.traces": 3,
    "boxer.logs.compact": 1,
    "boxer.metrics.compact": 1,
    "boxer.traces.compact": 1,
    "boxer.metrics.rollup": 1,
}
PATIENCE_S = 20.0


def broker_answers(bootstrap: str) -> bool:
    from confluent_kafka import KafkaException

    try:
        return bool(_admin(bootstrap).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def create_topics(bootstrap: str) -> None:
    """Create missing topics; a broker that just restarted gets time to elect its leaders."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    admin, deadline = _admin(bootstrap), time.monotonic() + PATIENCE_S
    while missing := sorted(set(TOPICS) - set(admin.list_topics(timeout=5).topics)):
        wanted = [NewTopic(name, num_partitions=TOPICS[name], replication_factor=1) for name in missing]
        try:
            for future in admin.create_topics(wanted, operation_timeout=5).values():
                future.result(timeout=10)
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"Kafka does not create the topics {missing}: {error}") from error
            time.sleep(0.3)


def _admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
