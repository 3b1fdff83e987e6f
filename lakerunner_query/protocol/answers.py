"""Answers travel from workers to the coordinator as MessagePack, one kind per unit.

Decoders are made with this module, by one thread. Threads that decode a type for the first time at the same
moment may find it half described, which ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import Literal

import msgspec

from lakerunner_query.promql.context import Annotation, Extreme, MonotonicityFix
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.protocol.units import Missing, UnitReport


class LinePattern(msgspec.Struct, frozen=True):
    """A pattern of lines of one level, with their number by bucket."""

    text: str
    """Text in which `<_>` stands for what differs."""
    level: str
    counts: tuple[tuple[int, int], ...]
    """Buckets, by their number since 1970, with their lines."""


class PatternsAnswer(msgspec.Struct, frozen=True):
    """The answer to a `PatternsUnit`."""

    patterns: tuple[LinePattern, ...] = ()
    report: UnitReport = UnitReport()


def encode_patterns_answer(answer: PatternsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_PATTERNS_ANSWER = msgspec.msgpack.Decoder(PatternsAnswer)


def decode_patterns_answer(body: bytes) -> PatternsAnswer:
    return _PATTERNS_ANSWER.decode(body)


Pairs = tuple[tuple[str, str], ...]


class Volume(msgspec.Struct, frozen=True):
    """Bytes of a group of streams in one bucket, named by its number since 1970."""

    labels: Pairs
    bucket: int
    size: float


class StreamsAnswer(msgspec.Struct, frozen=True):
    """The answer to a `StreamsUnit`.

    Rows and bytes are shares: a stream that reaches beyond the range counts for the part of its time that
    lies inside, and a stream's bytes are its segment's by its part of the rows.
    """

    series: tuple[Pairs, ...] = ()
    values: dict[str, tuple[str, ...]] = {}
    """Values by label; a question for names leaves the values out."""
    stream_ids: bytes = b""
    """64-bit ids, for counting streams that several workers found."""
    chunks: int = 0
    """Runs of one stream in one segment."""
    rows: float = 0.0
    size: float = 0.0
    """Bytes, as a share of the segments."""
    volumes: tuple[Volume, ...] = ()
    truncated: bool = False
    report: UnitReport = UnitReport()


def encode_streams_answer(answer: StreamsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_STREAMS_ANSWER = msgspec.msgpack.Decoder(StreamsAnswer)


def decode_streams_answer(body: bytes) -> StreamsAnswer:
    return _STREAMS_ANSWER.decode(body)


LATE_MS = 600_000
"""Time by which a data point may be later than its exemplars, which are measured before it."""


class MetricFact(msgspec.Struct, frozen=True, order=True):
    """One description that a metric was sent with."""

    name: str
    type: str
    """Type, as in Prometheus: `counter`, `gauge`, `histogram`, ..."""
    unit: str
    description: str
    temporality: str = ""
    """`cumulative` or `delta`, where samples say so."""


class MetadataAnswer(msgspec.Struct, frozen=True):
    """The answer to a `MetadataUnit`."""

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
    """The answer to an `ExemplarUnit`."""

    series: tuple[SeriesExemplars, ...] = ()
    report: UnitReport = UnitReport()


def encode_facts(answer: MetadataAnswer | ExemplarAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_METADATA_ANSWER = msgspec.msgpack.Decoder(MetadataAnswer)


def decode_metadata(body: bytes) -> MetadataAnswer:
    return _METADATA_ANSWER.decode(body)


_EXEMPLAR_ANSWER = msgspec.msgpack.Decoder(ExemplarAnswer)


def decode_exemplars(body: bytes) -> ExemplarAnswer:
    return _EXEMPLAR_ANSWER.decode(body)


Kind = Literal["scalar", "vector", "matrix", "string"]


class RenderedSeries(msgspec.Struct, frozen=True):
    """One series of a slice, its samples rendered."""

    labels: tuple[tuple[str, str], ...]
    drop_name: bool
    floats: bytes
    """Text like `[t,"v"],[t,"v"]`."""
    histograms: bytes
    """Text like `[t,{...}],[t,{...}]`."""
    points: int


class Note(msgspec.Struct, frozen=True):
    """An annotation, rendered with its place in the query; equal ones have the same `key`."""

    kind: Literal["warning", "info"]
    key: str
    text: str
    forced: tuple[float, float, float, int, int, int] | None = None
    """Fields of `promql.context.MonotonicityFix`, which is one message for all slices."""
    place: tuple[int, int] = (0, 0)
    extreme: tuple[float, bool, str] | None = None
    """Fields of `promql.context.Extreme`, of which the most extreme of all slices is said."""


class MetricAnswer(msgspec.Struct, frozen=True):
    """The answer to a `MetricUnit` or a `LogMetricUnit`.

    Samples travel as the text they have in JSON, `[1735689600,"0.5"]`, so that the coordinator joins bytes
    and never numbers. Names that a function dropped are still there: two series that differ in nothing else
    must not be joined before all slices are in.
    """

    kind: Kind
    series: tuple[RenderedSeries, ...]
    string: str = ""
    notes: tuple[Note, ...] = ()
    is_ordered: bool = False
    samples: int = 0
    report: UnitReport = UnitReport()


def encode_metric_answer(answer: MetricAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_METRIC_ANSWER = msgspec.msgpack.Decoder(MetricAnswer)


def decode_metric_answer(body: bytes) -> MetricAnswer:
    return _METRIC_ANSWER.decode(body)


class SeriesAnswer(msgspec.Struct, frozen=True):
    """The answer to a `SeriesUnit`."""

    series: tuple[tuple[tuple[str, str], ...], ...] = ()
    texts: tuple[str, ...] = ()
    """Label names, or values of one label."""
    truncated: bool = False
    report: UnitReport = UnitReport()


def encode_series_answer(answer: SeriesAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_SERIES_ANSWER = msgspec.msgpack.Decoder(SeriesAnswer)


def decode_series_answer(body: bytes) -> SeriesAnswer:
    return _SERIES_ANSWER.decode(body)


class SparseHistogram(msgspec.Struct, frozen=True):
    """A native histogram; each side lists the gaps and lengths of its runs of buckets, then all counts."""

    schema: int
    count: float
    sum: float
    zero_threshold: float
    zero_count: float
    is_gauge: bool
    positive: tuple[tuple[tuple[int, int], ...], tuple[float, ...]]
    negative: tuple[tuple[tuple[int, int], ...], tuple[float, ...]]
    bounds: tuple[float, ...] = ()


class NewestSample(msgspec.Struct, frozen=True):
    labels: Pairs
    time_ms: int
    value: bytes
    """The bytes of the float, little-endian: NaN has payloads."""
    histogram: SparseHistogram | None = None


class EncodedSeries(msgspec.Struct, frozen=True):
    """One series as a message of remote read."""

    labels: Pairs
    messages: tuple[bytes, ...]


class SamplesAnswer(msgspec.Struct, frozen=True):
    """The answer to a `SamplesUnit`."""

    series: tuple[EncodedSeries, ...] = ()
    newest: tuple[NewestSample, ...] = ()
    samples: int = 0
    report: UnitReport = UnitReport()


def encode_samples_answer(answer: SamplesAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_SAMPLES_ANSWER = msgspec.msgpack.Decoder(SamplesAnswer)


def decode_samples_answer(body: bytes) -> SamplesAnswer:
    return _SAMPLES_ANSWER.decode(body)


class Trait(IntFlag):
    """Properties of series that change how other series of the same selector are read."""

    NOTHING = 0
    UNHINTED = 1
    """There are native histograms whose sender says nothing of resets."""
    NATIVE = 2
    """There are native histograms."""
    UNITED = 4
    """There are stored series, and classic ones derived from histograms."""


class ShardPart(msgspec.Struct, frozen=True):
    """One of the parts that `per_series` of plan/promql.py finds."""

    vector: bytes
    notes: tuple[Note, ...] = ()


class ShardAnswer(msgspec.Struct, frozen=True):
    """The answer to a `ShardUnit`.

    Vectors are bytes that the coordinator hands on to the worker that evaluates the rest. The other fields
    are for what only all series together decide: limits, and the order of annotations.
    """

    parts: tuple[ShardPart, ...]
    traits: int = 0
    """Traits of all selectors."""
    series: int = 0
    samples: int = 0
    """Samples of the selector that read the most."""
    opened: tuple[str, ...] = ()
    """Ids of segments whose files were read."""
    report: UnitReport = UnitReport()


def encode_shard_answer(answer: ShardAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


_SHARD_ANSWER = msgspec.msgpack.Decoder(ShardAnswer)


def decode_shard_answer(body: bytes) -> ShardAnswer:
    return _SHARD_ANSWER.decode(body)


def agree(answers: Sequence[ShardAnswer], max_series: int, max_samples: int) -> bool:
    """Tell whether shards say together what one worker would say; a bound of 0 is any number."""
    traits = Trait.NOTHING
    for answer in answers:
        traits |= Trait(answer.traits)
    if Trait.UNITED | Trait.NATIVE in traits:
        return False
    if 0 < max_series < sum(answer.series for answer in answers):
        return False
    if 0 < max_samples < sum(answer.samples for answer in answers):
        return False
    each = zip(*(answer.parts for answer in answers), strict=True)
    return all(notes_together([part.notes for part in parts]) is not None for parts in each)


def notes_together(shards: Sequence[tuple[Note, ...]]) -> tuple[Note, ...] | None:
    """Return annotations in the order in which one worker would find them; None if that is unknown.

    Each shard comes to its annotations in the order of its series. If each says the beginning of what the
    longest says, everything that one says comes behind the same others in all.
    """
    longest = max(shards, key=len, default=())
    return longest if all(longest[: len(notes)] == notes for notes in shards) else None


def report_together(answers: Sequence[ShardAnswer]) -> UnitReport:
    """Add up reports; a segment that several shards opened or missed counts once."""
    missing: dict[str, Missing] = {}
    for answer in answers:
        missing.update((lost.segment_id, lost) for lost in answer.report.missing)
    return UnitReport(
        missing=tuple(missing.values()),
        segments_opened=len({name for answer in answers for name in answer.opened}),
        rows_considered=sum(answer.report.rows_considered for answer in answers),
        bytes_fetched=sum(answer.report.bytes_fetched for answer in answers),
        requests=sum(answer.report.requests for answer in answers),
    )


def annotation(note: Note) -> Annotation:
    """Restore the annotation that evaluation made."""
    message = note.key.removeprefix(f"PromQL {note.kind}: ")
    forced = None if note.forced is None else MonotonicityFix(*note.forced)
    extreme = None if note.extreme is None else Extreme(*note.extreme)
    return Annotation(note.kind, message, Span(*note.place), forced, extreme)
