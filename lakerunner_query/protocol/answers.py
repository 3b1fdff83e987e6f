"""What a worker answers to a `ShardUnit`, and whether the shards together say what one worker would say.

Vectors travel as bytes that the coordinator does not look into: it hands them to the worker that evaluates
the rest. What it looks at is what only all series together decide: limits, the order of annotations, and
whether histograms are to be read as if somebody spoke of resets.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import Literal

import msgspec

from lakerunner_query.promql.context import Annotation, MonotonicityFix
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.protocol.units import Missing, UnitReport

# << What a worker answers to a `PatternsUnit`: what lines have in common, and how many there are when.


class LinePattern(msgspec.Struct, frozen=True):
    """Lines of one shape and level."""

    text: str
    """`<_>` stands for what differs."""
    level: str
    counts: tuple[tuple[int, int], ...]
    """Bucket, by its number since 1970, and lines."""


class PatternsAnswer(msgspec.Struct, frozen=True):
    patterns: tuple[LinePattern, ...] = ()
    report: UnitReport = UnitReport()


def encode_patterns_answer(answer: PatternsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_patterns_answer(body: bytes) -> PatternsAnswer:
    return msgspec.msgpack.decode(body, type=PatternsAnswer)


# << What a worker answers to a `StreamsUnit`: what stream tables say, before several workers are united.
# <<
# << Rows and bytes are shares: a stream that reaches beyond the range counts for the part of its time
# << that lies
# << inside, and a stream's bytes are its segment's by its part of the rows.

Pairs = tuple[tuple[str, str], ...]


class Volume(msgspec.Struct, frozen=True):
    """Bytes of a group of streams in one bucket, which is told by its number since 1970."""

    labels: Pairs
    bucket: int
    size: float


class StreamsAnswer(msgspec.Struct, frozen=True):
    series: tuple[Pairs, ...] = ()
    values: dict[str, tuple[str, ...]] = {}
    """By label; of `names` without the values."""
    stream_ids: bytes = b""
    """Of `sizes`: 64-bit numbers, to count streams that several workers found."""
    chunks: int = 0
    """Runs of one stream in one segment."""
    rows: float = 0.0
    size: float = 0.0
    """In bytes."""
    volumes: tuple[Volume, ...] = ()
    truncated: bool = False
    report: UnitReport = UnitReport()


def encode_streams_answer(answer: StreamsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_streams_answer(body: bytes) -> StreamsAnswer:
    return msgspec.msgpack.decode(body, type=StreamsAnswer)


# << What workers answer about metrics beside samples: what they are, and their exemplars.

LATE_MS = 600_000
"""A data point tells of measurements since the one before: it may be as much later than its exemplars."""


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


# << What a worker answers to a `MetricUnit`: finished text per series, with what joining slices needs.
# <<
# << Samples travel as the text they have in JSON, `[1735689600,"0.5"]`, so that the coordinator joins
# << bytes and
# << never numbers. Names that a function dropped are still there: two series that differ in nothing else
# << must not
# << be joined before all slices are in.

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
    """Of `promql.context.MonotonicityFix`, which are told together for all slices."""
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


class Trait(IntFlag):
    """Of what a selector found: things that change how other series of it are read."""

    NOTHING = 0
    HINTED = 1
    """Files speak of resets of histograms."""
    UNHINTED = 2
    """There are native histograms, and nobody speaks of their resets."""
    NATIVE = 4
    """There are native histograms."""
    UNITED = 8
    """There are stored series, and classic ones derived from histograms."""


class ShardPart(msgspec.Struct, frozen=True):
    """One of the parts of `plan.shards.per_series`."""

    vector: bytes
    notes: tuple[Note, ...] = ()


class ShardAnswer(msgspec.Struct, frozen=True):
    parts: tuple[ShardPart, ...]
    traits: int = 0
    """All of any selector."""
    series: int = 0
    samples: int = 0
    """The most that one selector had to look at."""
    opened: tuple[str, ...] = ()
    """Segments whose files were read."""
    report: UnitReport = UnitReport()


def encode_shard_answer(answer: ShardAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_shard_answer(body: bytes) -> ShardAnswer:
    return msgspec.msgpack.decode(body, type=ShardAnswer)


def agree(answers: Sequence[ShardAnswer], max_series: int, max_samples: int) -> bool:
    """Whether nothing is in doubt; 0: any number. If something is, one worker has to say it."""
    traits = Trait.NOTHING
    for answer in answers:
        traits |= Trait(answer.traits)
    if Trait.HINTED | Trait.UNHINTED in traits or Trait.UNITED | Trait.NATIVE in traits:
        return False
    if 0 < max_series < sum(answer.series for answer in answers):
        return False
    if 0 < max_samples < sum(answer.samples for answer in answers):
        return False
    each = zip(*(answer.parts for answer in answers), strict=True)
    return all(notes_together([part.notes for part in parts]) is not None for parts in each)


def notes_together(shards: Sequence[tuple[Note, ...]]) -> tuple[Note, ...] | None:
    """Annotations of one part in the order in which one worker comes to them; None where that is not told.

    Each shard comes to its annotations in the order of its series. If each says the beginning of what the
    longest says, everything that one says comes behind the same others in all.
    """
    longest = max(shards, key=len, default=())
    return longest if all(longest[: len(notes)] == notes for notes in shards) else None


def report_together(answers: Sequence[ShardAnswer]) -> UnitReport:
    """As one worker would report it; what is missing or open in several shards is one segment."""
    missing: dict[str, Missing] = {}
    for answer in answers:
        missing.update((lost.segment_id, lost) for lost in answer.report.missing)
    return UnitReport(
        missing=tuple(missing.values()),
        segments_opened=len({name for answer in answers for name in answer.opened}),
        rows_considered=sum(answer.report.rows_considered for answer in answers),
        bytes_fetched=sum(answer.report.bytes_fetched for answer in answers),
    )


def annotation(note: Note) -> Annotation:
    """As it was when evaluation said it."""
    message = note.key.removeprefix(f"PromQL {note.kind}: ")
    forced = None if note.forced is None else MonotonicityFix(*note.forced)
    return Annotation(note.kind, message, Span(*note.place), forced)
