"""A source is one segment, read front to back, a few rows at a time.

Whatever is wrong with the file is an error that names it. Pages are read through a small buffer per column,
because thirty files of forty columns do not fit in memory as whole column chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.decode.naming import Attribute
from lakerunner_assets.segments.merge.request import MergeKind, SourceError
from resources.lake.segment_file import (
    FORMAT_VERSION,
    LOG_SORT_ORDER,
    METRIC_SORT_ORDER,
    SPAN_SORT_ORDER,
    SegmentFacts,
    read_facts,
    read_label_map,
)

SORT_ORDERS = {
    MergeKind.LOGS: LOG_SORT_ORDER,
    MergeKind.TRACES: SPAN_SORT_ORDER,
    MergeKind.SAMPLES: METRIC_SORT_ORDER,
    MergeKind.ROLLUP: METRIC_SORT_ORDER[:4],
}
SORT_VERSION = 1

DICTIONARY = "dictionary"
_ENCODINGS = ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
_SMALL_DICTIONARY_BYTES = 64 << 10
_MAX_BATCH_ROWS = 16_384
_MIN_BATCH_ROWS = 64
_MAX_BUFFER, _MIN_BUFFER = 1 << 18, 4096

Key = str | Attribute
"""Content of a column: an attribute, or by its name a column of the format."""


@dataclass(slots=True)
class Leaf:
    """Facts of one Parquet column over all row groups of a footer."""

    values: int = 0
    nulls: int = 0
    encodings: Counter[str] = field(default_factory=Counter)
    """Rows by encoding."""
    small_dictionary: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    facts: SegmentFacts
    schema: pa.Schema
    """Schema of the file, texts plain."""
    keys: dict[str, Key]
    """Content of each column."""
    leaves: dict[str, Leaf]
    bytes_per_row: float
    """Bytes per row of the row group with the largest rows, before compression."""
    largest_group: int
    block: bytes
    """Bytes of the series or stream table."""

    @property
    def rows(self) -> int:
        return self.facts.rows

    def batches(
        self, dictionaries: Sequence[str], budget: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, about `budget` bytes at a time, the texts of `dictionaries` coded."""
        rows = int(min(_MAX_BATCH_ROWS, max(_MIN_BATCH_ROWS, budget / max(self.bytes_per_row, 1) / 2)))
        buffer = min(_MAX_BUFFER, max(_MIN_BUFFER, budget // (2 * len(self.schema))))
        with (
            source_errors(self.path),
            pq.ParquetFile(
                self.path, read_dictionary=list(dictionaries), buffer_size=buffer, pre_buffer=False
            ) as file,
        ):
            yield from file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False)


def open_source(path: Path, kind: MergeKind) -> Source:
    """Read the footer of a segment and check it without reading rows."""
    with source_errors(path), pq.ParquetFile(path) as file:
        metadata = file.metadata
        facts = read_facts(metadata)
        _check(path, facts, metadata, kind)
        with path.open("rb") as raw:
            raw.seek(facts.series_offset)
            table = raw.read(facts.series_length)
        if len(table) != facts.series_length or not table:
            raise SourceError(path, f"expected a series or stream table of {facts.series_length} bytes")
        attributes: dict[str, Key] = {
            column.column: Attribute(column.scope, column.key, column.kind)
            for column in read_label_map(metadata)
        }
        schema = file.schema_arrow.remove_metadata()
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        return Source(
            path,
            facts,
            schema,
            {name: attributes.get(name, name) for name in schema.names},
            _leaves(groups),
            max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0),
            max((group.num_rows for group in groups), default=0),
            table,
        )


@contextmanager
def source_errors(path: Path) -> Iterator[None]:
    """Turn errors of reading into ones that name the file."""
    try:
        yield
    except SourceError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(path, f"not a segment that can be read: {error}") from error


def _check(path: Path, facts: SegmentFacts, metadata: pq.FileMetaData, kind: MergeKind) -> None:
    if (facts.format_version, facts.sort_version) != (FORMAT_VERSION, SORT_VERSION):
        raise SourceError(
            path,
            f"format {facts.format_version}, sort version {facts.sort_version}: "
            f"expected {FORMAT_VERSION} and {SORT_VERSION}",
        )
    if tuple(facts.sort_order) != tuple(SORT_ORDERS[kind]):
        raise SourceError(path, f"sorted by {facts.sort_order}: expected {kind.value}, {SORT_ORDERS[kind]}")
    if metadata.num_rows != facts.rows or not facts.rows:
        raise SourceError(path, f"{metadata.num_rows} rows, its footer promises {facts.rows}, at least one")


def _leaves(groups: Sequence[pq.RowGroupMetaData]) -> dict[str, Leaf]:
    leaves: dict[str, Leaf] = {}
    for group in groups:
        for index in range(group.num_columns):
            chunk = group.column(index)
            leaf = leaves.setdefault(chunk.path_in_schema, Leaf())
            statistics = chunk.statistics
            leaf.values += group.num_rows
            leaf.nulls += statistics.null_count if statistics is not None and statistics.has_null_count else 0
            coded = chunk.has_dictionary_page
            if coded:
                size = chunk.data_page_offset - (chunk.dictionary_page_offset or 0)
                leaf.small_dictionary &= size <= _SMALL_DICTIONARY_BYTES
            elif statistics is None or statistics.null_count < group.num_rows:
                leaf.small_dictionary = False
            found = [name for name in _ENCODINGS if name in chunk.encodings]
            leaf.encodings[DICTIONARY if coded else found[0] if found else "PLAIN"] += group.num_rows
    return leaves
