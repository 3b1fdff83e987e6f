"""What workers answer about metrics beside samples: what they are, and their exemplars."""

from __future__ import annotations

import msgspec

from lakerunner_query.execute.work import UnitReport

LATE_MS = 600_000
"""A data point tells of measurements since the one before: it may be as much later than its exemplars."""

Pairs = tuple[tuple[str, str], ...]


class MetricFact(msgspec.Struct, frozen=True, order=True):
    """One way in which a metric described itself."""

    name: str
    type: str
    """As in Prometheus: `counter`, `gauge`, `histogram`, ..."""
    unit: str
    description: str


class MetadataAnswer(msgspec.Struct, frozen=True):
    facts: tuple[MetricFact, ...] = ()
    report: UnitReport = UnitReport()


class Exemplar(msgspec.Struct, frozen=True, order=True):
    time_ms: int
    value: float
    labels: Pairs


class SeriesExemplars(msgspec.Struct, frozen=True):
    labels: Pairs
    exemplars: tuple[Exemplar, ...]


class ExemplarAnswer(msgspec.Struct, frozen=True):
    series: tuple[SeriesExemplars, ...] = ()
    report: UnitReport = UnitReport()


def encode_facts(answer: MetadataAnswer | ExemplarAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_metadata(body: bytes) -> MetadataAnswer:
    return msgspec.msgpack.decode(body, type=MetadataAnswer)


def decode_exemplars(body: bytes) -> ExemplarAnswer:
    return msgspec.msgpack.decode(body, type=ExemplarAnswer)
