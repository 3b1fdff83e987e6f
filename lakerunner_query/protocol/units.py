"""What travels between coordinator and worker: a unit of work, and the answer as one Arrow stream.

Units are tagged JSON, so that further kinds (metric slices, span scans) are further tags of one endpoint.
An answer is a table of finished fragments in the final order, with its report in the schema's metadata.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec
import pyarrow as pa

from lakerunner_query.syntax import Matcher
from resources.index.types import Segment

TOKEN_HEADER = "x-lakerunner-internal-token"  # noqa: S105 -- the name of a header, not a secret
REPORT = b"lakerunner.report"

ROWS = pa.schema(
    [
        ("tsns", pa.int64()),
        ("labels", pa.dictionary(pa.int32(), pa.string())),  # JSON object, keys sorted
        ("line", pa.string()),
        ("metadata", pa.string()),  # JSON object, keys sorted
        ("parsed", pa.string()),  # JSON object, keys sorted: labels that stages made
        ("object", pa.int64()),
        ("position", pa.int64()),
    ]
)


class SegmentRef(msgspec.Struct, frozen=True):
    """As much of an index row as a worker needs."""

    segment_id: str
    key: str
    bytes: int
    min_ns: int
    max_ns: int
    series_offset: int
    series_length: int
    rows: int = 0
    bloom_offset: int = 0
    bloom_length: int = 0
    """Of the token bloom; 0: there is none."""


class LogUnit(msgspec.Struct, frozen=True, tag="logs"):
    """Rows of `[start_ns, end_ns)` in these segments, first or last `limit`."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    text: str
    """The whole query: selector and pipeline."""
    start_ns: int
    end_ns: int
    limit: int
    reverse: bool
    distinct: bool
    now_ns: int = 0
    """Of the whole query: what templates call `now`."""


class LogMetricUnit(msgspec.Struct, frozen=True, tag="log-metrics"):
    """Some steps of a metric query over logs: the whole expression, over all segments that it may need."""

    affinity: str
    text: str
    start_ns: int
    step_ns: int
    """0: an instant query."""
    steps: int
    segments: tuple[SegmentRef, ...]
    now_ns: int
    """Of the whole query: what templates call `now`."""
    turn: int = 0
    """Which of the workers in the order of the affinity: parts of one query go to different ones."""
    max_series: int = 0
    """0: any number."""


class RollupRef(msgspec.Struct, frozen=True):
    """Segments of one frequency, and the beginnings (ns) of the partitions that may be used."""

    frequency_ms: int
    starts: tuple[int, ...]
    segments: tuple[SegmentRef, ...]


class MetricUnit(msgspec.Struct, frozen=True, tag="metrics"):
    """Some steps of a PromQL query: the whole expression, over all segments that it may need for them."""

    affinity: str
    text: str
    start_ms: int
    end_ms: int
    step_ms: int
    """Of the whole query, which `start()`, `range()` and the like tell; a step of 0: an instant query."""
    first_ms: int
    steps: int
    """What is to be computed here."""
    lookback_ms: int
    segments: tuple[SegmentRef, ...]
    turn: int = 0
    """Which of the workers in the order of the affinity: parts of one query go to different ones."""
    rollups: tuple[RollupRef, ...] = ()
    features: tuple[str, ...] = ()
    max_series: int = 0
    max_samples: int = 0
    """Of one selector; 0: any number."""
    start_timestamps: bool = False
    given: tuple[bytes, ...] = ()
    """Answers of all shards of the series: what is left is what stands above the parts they are of."""


class ShardUnit(msgspec.Struct, frozen=True, tag="shard"):
    """The parts of a PromQL query that are of single series, for one shard of them."""

    of: MetricUnit
    number: int
    count: int

    @property
    def affinity(self) -> str:
        return self.of.affinity

    @property
    def turn(self) -> int:
        return self.number


class SeriesSelector(msgspec.Struct, frozen=True):
    """Series that satisfy all matchers and have samples in `(from_ms, to_ms]`."""

    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int


class SeriesUnit(msgspec.Struct, frozen=True, tag="series"):
    """Which series there are, from series tables alone; an empty `label` asks for whole label sets."""

    affinity: str
    selections: tuple[SeriesSelector, ...]
    segments: tuple[SegmentRef, ...]
    want: Literal["series", "names", "values"]
    label: str = ""
    limit: int = 0
    """At most so many; 0: all."""


StreamsWanted = Literal["series", "names", "values", "sizes", "volumes"]


class StreamsUnit(msgspec.Struct, frozen=True, tag="streams"):
    """What stream tables say in `[start_ns, end_ns)` of the streams that satisfy any of the selections."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    selections: tuple[tuple[Matcher, ...], ...]
    start_ns: int
    end_ns: int
    want: StreamsWanted
    labels: tuple[str, ...] = ()
    """Of `values` those asked for, of `volumes` those that make a group; none: all."""
    step_ns: int = 0
    """Of `volumes`: the width of buckets; 0: one for all."""
    limit: int = 0
    """Of `series` and `names`: at most so many; 0: all."""


class PatternsUnit(msgspec.Struct, frozen=True, tag="patterns"):
    """How many lines of which shape there are in `[start_ns, end_ns)`, by buckets of `step_ns`."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    step_ns: int
    limit: int
    """At most so many shapes, the most frequent ones."""


class MetadataUnit(msgspec.Struct, frozen=True, tag="metadata"):
    """What metrics of these names say of themselves; no names: all."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    names: tuple[str, ...] = ()


class ExemplarUnit(msgspec.Struct, frozen=True, tag="exemplars"):
    """Exemplars of the series that satisfy any of the selections, taken in `(from_ms, to_ms]`."""

    affinity: str
    selections: tuple[SeriesSelector, ...]
    segments: tuple[SegmentRef, ...]


Unit = (
    LogUnit
    | LogMetricUnit
    | MetricUnit
    | ShardUnit
    | SeriesUnit
    | StreamsUnit
    | PatternsUnit
    | MetadataUnit
    | ExemplarUnit
)


class Missing(msgspec.Struct, frozen=True):
    """A segment that could not be read, and why: the answer is partial."""

    segment_id: str
    reason: str


class UnitReport(msgspec.Struct, frozen=True):
    missing: tuple[Missing, ...] = ()
    segments_opened: int = 0
    segments_skipped: int = 0
    """No stream in them is wanted."""
    segments_without_words: int = 0
    """Their token blooms say so."""
    row_groups: int = 0
    row_groups_read: int = 0
    """As far as their statistics tell which are worth it."""
    rows_considered: int = 0
    bytes_considered: int = 0
    bytes_fetched: int = 0
    rollup_rows: dict[int, int] = {}
    """Rows read of rollups, by frequency."""
    truncated: bool = False


def segment_ref(segment: Segment) -> SegmentRef:
    return SegmentRef(
        segment.segment_id,
        segment.key,
        segment.bytes,
        segment.min_ns,
        segment.max_ns,
        segment.series_offset,
        segment.series_length,
        segment.rows,
        segment.bloom_offset,
        segment.bloom_length,
    )


def encode_answer(rows: pa.Table, report: UnitReport) -> bytes:
    schema = ROWS.with_metadata({REPORT: msgspec.json.encode(report)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(rows.cast(ROWS).unify_dictionaries().replace_schema_metadata(schema.metadata))
    return cast("bytes", sink.getvalue().to_pybytes())


def decode_answer(body: bytes) -> tuple[pa.Table, UnitReport]:
    table = pa.ipc.open_stream(body).read_all()
    return table, msgspec.json.decode(table.schema.metadata[REPORT], type=UnitReport)
