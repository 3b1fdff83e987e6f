"""Rollup segments are written row group by row group: memory does not bound their size.

Rows are kept until a row group or the memory is full. A segment whose rows all fit in memory has exactly the
columns in which something stands; a larger one has all columns that could be needed, because they are fixed
when the first row group is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.decode.naming import attribute_of
from lakerunner_assets.rollup.buckets import NS_PER_MS
from lakerunner_assets.rollup.encoding import SKETCH_LEVEL
from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.encoding import METRIC_LEVEL, Encodings, compact_dictionaries
from lakerunner_assets.segments.file import insert_blocks
from lakerunner_assets.segments.metrics import bloom_columns, derived_names, index_terms
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.arrays import Int32s, Int64s
from resources.lake import rollup_columns as rollup
from resources.lake import series
from resources.lake.columns import CHQ_METRIC_TYPE, CHQ_TID
from resources.lake.segment_file import (
    FORMAT_VERSION,
    METRIC_SORT_ORDER,
    METRIC_SORT_VERSION,
    MappedColumn,
    SegmentFacts,
    file_metadata,
)
from resources.lake.streams import Labels

SORT_ORDER = METRIC_SORT_ORDER[:4]
_FRONT = ("metric_name", CHQ_TID, rollup.TIMESTAMP)
_REQUIRED = frozenset({*_FRONT, CHQ_METRIC_TYPE, rollup.COUNT})


@dataclass(slots=True)
class _Runs:
    """The series of the segment so far: a row per series and row group."""

    codes: list[Int32s] = field(default_factory=list)
    columns: list[Int64s] = field(default_factory=list)
    """Rows of tid, rows, first ms, last ms."""

    def add(self, table: pa.Table, codes: Int32s) -> None:
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        ends = np.append(starts[1:], len(codes))
        times = table.column(rollup.TIMESTAMP).to_numpy()
        tids = table.column(CHQ_TID).to_numpy()[starts]
        self.codes.append(codes[starts])
        self.columns.append(np.stack([tids, ends - starts, times[starts], times[ends - 1]]))

    def by_series(self) -> tuple[Int32s, Int64s]:
        """Return one entry per series, also of those in several row groups."""
        codes, columns = np.concatenate(self.codes), np.concatenate(self.columns, axis=1)
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
        last = np.append(starts[1:], len(codes)) - 1
        tid, rows, first_ms, last_ms = columns
        joined = [tid[starts], np.add.reduceat(rows, starts), first_ms[starts], last_ms[last]]
        return codes[starts], np.stack(joined)


class SegmentWriter:
    """One file; it is removed if it is not finished."""

    def __init__(self, path: Path, schema: pa.Schema, encodings: Encodings) -> None:
        self.path = path
        self._schema = _as_stored(schema, encodings)
        self._label_map = label_map(schema)
        options = encodings.writer_options(self._schema, {}, METRIC_LEVEL)
        if rollup.SKETCH in self._schema.names:
            options["compression_level"][rollup.SKETCH] = SKETCH_LEVEL
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(self._sink, self._schema, **options)
        self._runs = _Runs()
        self._groups = 0
        self._finished = False
        self._kinds: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            self._writer.close()
            self._sink.close()
            self.path.unlink(missing_ok=True)

    @property
    def bytes(self) -> int:
        return int(self._sink.tell())

    @property
    def columns(self) -> Sequence[str]:
        return tuple(self._schema.names)

    def write(self, table: pa.Table, codes: Int32s) -> None:
        """Write one row group."""
        columns = [_cast(table.column(f.name), f.type) for f in self._schema]
        group = pa.Table.from_arrays(columns, schema=self._schema)
        self._writer.write_table(compact_dictionaries(group), row_group_size=len(codes))
        self._runs.add(table, codes)
        self._groups += 1
        pairs = table.select([CHQ_METRIC_TYPE, "metric_name"])
        kinds = pairs.group_by(pairs.column_names).aggregate([]).to_pylist()
        self._kinds |= {(row[CHQ_METRIC_TYPE], row["metric_name"]) for row in kinds}

    def finish(self, identity: SegmentIdentity, width_ms: int, labels_of: Sequence[str]) -> WrittenSegment:
        """Write the series table, the bloom and the footer; `labels_of` is by code."""
        codes, (tid, rows, first_ms, last_ms) = self._runs.by_series()
        labels = label_sets([labels_of[code] for code in codes.tolist()])
        none = np.zeros(len(tid), np.int64)
        numbers = {
            "tid": tid, "row": np.cumsum(rows) - rows, "rows": rows, "first_ms": first_ms, "last_ms": last_ms,
            "base": none, "exponent": none,
        }  # fmt: skip
        table = series.encode(series.build(labels, numbers))
        bloom = token_bloom.build(bloom_columns(pa.table({}), labels)).to_bytes()
        facts = SegmentFacts(
            **asdict(identity),
            format_version=FORMAT_VERSION,
            sort_version=METRIC_SORT_VERSION,
            sort_order=SORT_ORDER,
            source_objects=(),
            rows=int(rows.sum()),
            min_ns=(int(first_ms.min()) - width_ms + 1) * NS_PER_MS,
            max_ns=int(last_ms.max()) * NS_PER_MS,
            series_offset=0,
            series_length=0,
            bloom_offset=0,
            bloom_length=0,
        )
        self._writer.add_key_value_metadata(file_metadata(facts, self._label_map))
        self._writer.close()
        self._sink.close()
        facts = insert_blocks(self.path, facts, table, bloom)
        self._finished = True
        return self._written(facts, labels)

    def _written(self, facts: SegmentFacts, labels: Sequence[Labels]) -> WrittenSegment:
        stored = {name for _, name in self._kinds}
        kinds = sorted(self._kinds)
        pairs = {CHQ_METRIC_TYPE: [kind for kind, _ in kinds], "metric_name": [name for _, name in kinds]}
        names, derived_labels = derived_names(pa.table(pairs))
        return WrittenSegment(
            rows=facts.rows,
            bytes=self.path.stat().st_size,
            min_ns=facts.min_ns,
            max_ns=facts.max_ns,
            format_version=facts.format_version,
            sort_version=facts.sort_version,
            terms=index_terms({*names, *stored}, labels, derived_labels),
            label_names=tuple(sorted({n for each in labels for n, _ in each} | derived_labels)),
            metric_names=tuple(sorted(stored)),
            series_offset=facts.series_offset,
            series_length=facts.series_length,
            bloom_offset=facts.bloom_offset,
            bloom_length=facts.bloom_length,
            object_ids=(),
            row_groups=self._groups,
        )


def label_sets(texts: Sequence[str]) -> tuple[Labels, ...]:
    """Decode all texts at once: a JSON document per series costs several times as much."""
    whole = "[" + ",".join(texts) + "]"
    return tuple(msgspec.json.decode(whole, type=list[tuple[tuple[str, str], ...]]))


def label_map(schema: pa.Schema) -> tuple[MappedColumn, ...]:
    """Map the flat columns to their attributes."""
    found = ((each.name, attribute_of(each)) for each in schema)
    return tuple(MappedColumn(name, a.scope, a.key, a.kind) for name, a in found if a is not None)


def in_file_order(names: Sequence[str]) -> list[str]:
    """Sort columns: the series, the statistics, what belongs to the series."""
    rank = {name: place for place, name in enumerate((*_FRONT, *rollup.STORED, CHQ_METRIC_TYPE))}
    return sorted(names, key=lambda name: rank.get(name, len(rank)))


def _as_stored(schema: pa.Schema, encodings: Encodings) -> pa.Schema:
    """Keep texts as codes where a dictionary is written; make others plain."""
    fields = []
    for each in schema:
        kind = each.type
        if pa.types.is_dictionary(kind):
            coded = each.name in encodings.dictionary
            kind = pa.dictionary(pa.int32(), pa.string()) if coded else pa.string()
        fields.append(pa.field(each.name, kind, nullable=each.name not in _REQUIRED))
    return pa.schema(fields)


def _cast(whole: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    column = whole.chunk(0) if whole.num_chunks == 1 else whole.combine_chunks()
    return column if column.type == kind else column.cast(kind)
