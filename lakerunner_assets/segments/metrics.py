"""Writes one metric segment: a Parquet file sorted by series and time, with its series table inside.

Rows in (any order, several tables):                 rows out (sorted, one file):

    metric_name  labels  timestamp  value            row  metric_name  labels  timestamp  value
    up           b       12:00:15   1                  0  cpu          a       12:00:00   0.25
    cpu          a       12:00:15   0.5                1  cpu          a       12:00:15   0.5
    cpu          a       12:00:00   0.25               2  up           b       12:00:15   1

                                                     series table: cpu{a} rows [0, 2), up{b} rows [2, 3)

Nothing is deduplicated here: which of two samples of one millisecond counts is a rule of reading. Equal
inputs give equal bytes, so a retried task writes the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.encoding import METRIC_LEVEL
from lakerunner_assets.segments.file import Content, write_file
from lakerunner_assets.segments.metric_columns import checked, in_order
from lakerunner_assets.segments.metric_encoding import metric_encodings
from lakerunner_assets.segments.metric_index import bloom_columns, derived_names, index_terms
from lakerunner_assets.segments.metric_kernels import FIRST_MS, LAST_MS, ROWS, TID
from lakerunner_assets.segments.metric_values import SplitValues, split
from lakerunner_assets.segments.series_order import SeriesRuns, row_groups, row_order, series_runs
from lakerunner_assets.segments.unify import unify
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import series
from resources.lake.metric_values import VALUE_SQL, VALUE_SQL_KEY
from resources.lake.segment_file import FORMAT_VERSION, METRIC_SORT_ORDER, METRIC_SORT_VERSION, SegmentFacts

VALUE_COLUMN, SERIES_COLUMN = "chq_value", "chq_series"


def write_metric_segment(tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> WrittenSegment:
    """Write the rows of decoded tables as one segment; there must be at least one row."""
    filled = [checked(table) for table in tables if table.num_rows]
    if not filled:
        raise ValueError(f"segment {identity.segment_id}: no rows; an empty segment is never written")
    unified = unify(filled)
    table = unified.table
    runs = series_runs(table)
    order = row_order(table, runs)
    bytes_per_row = table.nbytes / table.num_rows
    table, split_values = _stored(table, runs, order)
    names, derived_labels = derived_names(table)
    content = Content(
        table,
        order,
        row_groups(runs.starts, table.num_rows, bytes_per_row),
        unified.label_map,
        series.encode(_series_table(runs, split_values)),
        token_bloom.build(bloom_columns(table, runs.labels)).to_bytes(),
        METRIC_LEVEL,
        metric_encodings(table),
        {VALUE_SQL_KEY: VALUE_SQL.encode()},
    )
    return write_file(
        path,
        content,
        _facts(table, runs, identity),
        terms=index_terms({*names, *runs.names}, runs.labels, derived_labels),
        label_names=tuple(sorted({n for labels in runs.labels for n, _ in labels} | derived_labels)),
        metric_names=tuple(sorted(set(runs.names))),
    )


def _stored(table: pa.Table, runs: SeriesRuns, order: np.ndarray) -> tuple[pa.Table, SplitValues]:
    """The columns of the file: values split in four, without the label sets."""
    found = (
        table.column(VALUE_COLUMN).chunk(0)
        if VALUE_COLUMN in table.column_names
        else pa.nulls(table.num_rows, pa.float64())
    )
    values = split(found, runs.codes, order, int(runs.codes.max()) + 1)
    columns = {name: table.column(name) for name in table.column_names}
    columns = {name: columns[name] for name in in_order(list(columns)) if name != SERIES_COLUMN}
    place = list(columns).index("chq_timestamp") + 1
    columns.pop(VALUE_COLUMN, None)
    items = list(columns.items())
    return pa.table(dict([*items[:place], *values.columns.items(), *items[place:]])), values


def _series_table(runs: SeriesRuns, values: SplitValues) -> pa.Table:
    numbers = {
        "tid": runs.facts[:, TID],
        "row": runs.starts,
        "rows": runs.facts[:, ROWS],
        "first_ms": runs.facts[:, FIRST_MS],
        "last_ms": runs.facts[:, LAST_MS],
        "base": values.base[runs.code_of_run],
        "exponent": values.exponent[runs.code_of_run],
    }
    return series.build(runs.labels, numbers)


def _facts(table: pa.Table, runs: SeriesRuns, identity: SegmentIdentity) -> SegmentFacts:
    min_ns, max_ns = runs.bounds_ns
    return SegmentFacts(
        **asdict(identity),
        format_version=FORMAT_VERSION,
        sort_version=METRIC_SORT_VERSION,
        sort_order=METRIC_SORT_ORDER,
        source_objects=tuple(np.unique(table.column("chq_object").to_numpy()).tolist()),
        rows=table.num_rows,
        min_ns=min_ns,
        max_ns=max_ns,
        series_offset=0,
        series_length=0,
        bloom_offset=0,
        bloom_length=0,
    )
