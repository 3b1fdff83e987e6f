"""What travels between coordinator and worker: a unit of work, and the answer as one Arrow stream.

Units are tagged JSON, so that further kinds (metric slices, span scans) are further tags of one endpoint.
An answer is a table of finished fragments in the final order, with its report in the schema's metadata.
"""

from __future__ import annotations

from typing import cast

import msgspec
import pyarrow as pa

from lakerunner_query.lang.logql.ast import LineFilter
from lakerunner_query.lang.matcher import Matcher
from resources.index.types import Segment

TOKEN_HEADER = "x-lakerunner-internal-token"  # noqa: S105 -- the name of a header, not a secret
REPORT = b"lakerunner.report"

ROWS = pa.schema(
    [
        ("tsns", pa.int64()),
        ("labels", pa.dictionary(pa.int32(), pa.string())),  # JSON object, keys sorted
        ("line", pa.string()),
        ("metadata", pa.string()),  # JSON object, keys sorted
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


class LogUnit(msgspec.Struct, frozen=True, tag="logs"):
    """Rows of `[start_ns, end_ns)` in these segments, first or last `limit`."""

    affinity: str
    segments: tuple[SegmentRef, ...]
    matchers: tuple[Matcher, ...]
    filters: tuple[LineFilter, ...]
    start_ns: int
    end_ns: int
    limit: int
    reverse: bool
    distinct: bool


Unit = LogUnit


class Missing(msgspec.Struct, frozen=True):
    """A segment that could not be read, and why: the answer is partial."""

    segment_id: str
    reason: str


class UnitReport(msgspec.Struct, frozen=True):
    missing: tuple[Missing, ...] = ()
    segments_opened: int = 0
    segments_skipped: int = 0
    rows_considered: int = 0
    bytes_considered: int = 0
    bytes_fetched: int = 0
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
