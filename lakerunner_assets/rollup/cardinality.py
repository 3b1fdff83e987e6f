"""Series and label values are counted per metric, by hour and by day.

    series                            hourly                      (estimates)
    up{instance="a", job="x"}    →    up  ''        2
    up{instance="b", job="x"}         up  instance  2
                                      up  job       1

Memory is bounded by metrics times labels (2 KB each at most), not by series.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import hll_sketch, hll_union  # type: ignore[import-untyped]

from lakerunner_assets.rollup.label_values import distinct_series, distinct_values
from lakerunner_assets.segments.encoding import METRIC_LEVEL
from lakerunner_assets.segments.file import Content, write_file
from lakerunner_assets.segments.order import MAX_GROUP_BYTES, MAX_GROUP_ROWS
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake.cardinality import (
    FORM,
    LOG_REGISTERS,
    SCHEMA,
    SERIES,
    SORT_ORDER,
    SORT_VERSION,
    check_rows,
    deserialize,
    settle,
)
from resources.lake.columns import CHQ_TIMESTAMP
from resources.lake.frequency import CARDINALITY_DATASET, DAY, HOUR
from resources.lake.segment_file import FORMAT_VERSION, SegmentFacts
from resources.lake.series import NAME_FIELD
from resources.lake.terms import terms_of

NS_PER_MS = 1_000_000
_MOST_BYTES = (1 << 31) - 1

Key = tuple[str, str]
"""Metric name and label."""


def hour_rows(tables: Iterable[pa.Table], end_ms: int) -> pa.Table:
    """Count the hour that ends then from the series tables of its segments.

    A series may be in several of them.
    """
    sketches: dict[Key, hll_sketch] = {}
    for table in tables:
        for metric, ids in distinct_series(table):
            _feed(sketches, (metric, SERIES), ids)
        for metric, label, values in distinct_values(table):
            _feed(sketches, (metric, label), values)
    return _rows(sketches.items(), end_ms, HOUR)


def day_rows(tables: Iterable[pa.Table], end_ms: int) -> pa.Table:
    """Merge the rows of the hours of the day that ends then."""
    unions: dict[Key, hll_union] = {}
    for table in tables:
        names, labels, sketches = (
            table.column(name).to_pylist() for name in ("metric_name", "label", "sketch")
        )
        for name, label, sketch in zip(names, labels, sketches, strict=True):
            union = unions.get((name, label))
            if union is None:
                union = unions[name, label] = hll_union(LOG_REGISTERS)
            union.update(deserialize(sketch))
    return _rows(((key, union.get_result(FORM)) for key, union in unions.items()), end_ms, DAY)


def write(table: pa.Table, path: Path, identity: SegmentIdentity) -> WrittenSegment | None:
    """Write the rows as a segment; without rows write nothing."""
    if table.num_rows == 0:
        return None
    if identity.dataset != CARDINALITY_DATASET:
        raise ValueError(
            f"segment {identity.segment_id}: {identity.dataset!r}, expected {CARDINALITY_DATASET!r}"
        )
    table = check_rows(table)
    names = set(table.column("metric_name").unique().to_pylist())
    size = max(1, min(MAX_GROUP_ROWS, MAX_GROUP_BYTES * table.num_rows // table.nbytes))
    content = Content(
        _encode_names(table),
        np.arange(table.num_rows),
        [(start, min(start + size, table.num_rows)) for start in range(0, table.num_rows, size)],
        (),
        b"",
        b"",
        METRIC_LEVEL,
    )
    return write_file(
        path,
        content,
        _facts(table, identity),
        terms=terms_of({NAME_FIELD: names}),
        label_names=(),  # of labels that rows can be matched by, and these have none
        metric_names=tuple(sorted(names)),
    )


def _feed(sketches: dict[Key, hll_sketch], key: Key, items: list[int] | list[str]) -> None:
    sketch = sketches.get(key)
    if sketch is None:
        sketch = sketches[key] = hll_sketch(LOG_REGISTERS, FORM)
    deque(map(sketch.update, items), 0)


def _rows(found: Iterable[tuple[Key, hll_sketch]], end_ms: int, frequency_ms: int) -> pa.Table:
    by_key = {key: settle(sketch) for key, sketch in found}
    keys = sorted(by_key)
    sketches = [by_key[key].serialize_compact() for key in keys]
    if sum(map(len, sketches)) > _MOST_BYTES:
        raise ValueError(f"cardinality of {len(keys)} metrics and labels: more than {_MOST_BYTES} bytes")
    columns = [
        [name for name, _ in keys],
        [label for _, label in keys],
        [end_ms] * len(keys),
        [frequency_ms] * len(keys),
        [by_key[key].get_estimate() for key in keys],
        sketches,
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def _encode_names(table: pa.Table) -> pa.Table:
    """Encode names as dictionaries, since they repeat."""
    for index, name in enumerate(("metric_name", "label")):
        table = table.set_column(index, name, table.column(name).dictionary_encode())
    return table


def _facts(table: pa.Table, identity: SegmentIdentity) -> SegmentFacts:
    ends, widths = table.column(CHQ_TIMESTAMP), table.column("frequency_ms")
    return SegmentFacts(
        **asdict(identity),
        format_version=FORMAT_VERSION,
        sort_version=SORT_VERSION,
        sort_order=SORT_ORDER,
        source_objects=(),
        rows=table.num_rows,
        min_ns=(pc.min(pc.subtract(ends, widths)).as_py() + 1) * NS_PER_MS,
        max_ns=pc.max(ends).as_py() * NS_PER_MS,
        series_offset=0,
        series_length=0,
        bloom_offset=0,
        bloom_length=0,
    )
