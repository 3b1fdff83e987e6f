"""Is this process alive, and can it still take something in?

Kafka or Postgres alone is enough to accept (the outbox stands in for Kafka, the last registry for Postgres),
so one of them down is `degraded` and answers 200; both down is 503.
"""

from __future__ import annotations

from dataclasses import dataclass

from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.kafka.producer import Producer


@dataclass(frozen=True, slots=True)
class Health:
    status: str
    kafka: str
    postgres: str

    @property
    def http_status(self) -> int:
        return 503 if self.status == "down" else 200


def judge(kafka_error: str, postgres_error: str) -> Health:
    """
    >>> judge("", "").status, judge("x", "").status, judge("x", "y").status
    ('ready', 'degraded', 'down')
    """
    down = sum(bool(error) for error in (kafka_error, postgres_error))
    return Health(("ready", "degraded", "down")[down], kafka_error or "ok", postgres_error or "ok")


def check_postgres(index: IngressIndex) -> str:
    """Empty when the index answers."""
    try:
        index.organisations()
    except IndexUnavailableError:
        return "does not answer"
    return ""


def check_kafka(producer: Producer) -> str:
    """Empty when the broker answers."""
    return "does not answer" if producer.check() else ""
