"""What a worker answers to a `MetricUnit`: finished text per series, with what joining slices needs.

Samples travel as the text they have in JSON, `[1735689600,"0.5"]`, so that the coordinator joins bytes and
never numbers. Names that a function dropped are still there: two series that differ in nothing else must not
be joined before all slices are in.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from lakerunner_query.execute.work import UnitReport

Kind = Literal["scalar", "vector", "matrix", "string"]


class RenderedSeries(msgspec.Struct, frozen=True):
    labels: tuple[tuple[str, str], ...]
    drop_name: bool
    floats: bytes
    """`[t,"v"],[t,"v"]`."""
    histograms: bytes
    """`[t,{...}],[t,{...}]`."""
    points: int


class Note(msgspec.Struct, frozen=True):
    """An annotation, its place in the text already told; `key` says which are the same."""

    kind: Literal["warning", "info"]
    key: str
    text: str
    forced: tuple[float, float, float, int, int, int] | None = None
    """Of `evaluate.notes.Forced`, which are told together for all slices."""
    place: tuple[int, int] = (0, 0)


class MetricAnswer(msgspec.Struct, frozen=True):
    kind: Kind
    series: tuple[RenderedSeries, ...]
    string: str = ""
    notes: tuple[Note, ...] = ()
    is_ordered: bool = False
    samples: int = 0
    report: UnitReport = UnitReport()


def encode_metric_answer(answer: MetricAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_metric_answer(body: bytes) -> MetricAnswer:
    return msgspec.msgpack.decode(body, type=MetricAnswer)


class SeriesAnswer(msgspec.Struct, frozen=True):
    series: tuple[tuple[tuple[str, str], ...], ...] = ()
    texts: tuple[str, ...] = ()
    """Names or values."""
    truncated: bool = False
    report: UnitReport = UnitReport()


def encode_series_answer(answer: SeriesAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_series_answer(body: bytes) -> SeriesAnswer:
    return msgspec.msgpack.decode(body, type=SeriesAnswer)
