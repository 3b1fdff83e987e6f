"""This module writes one metric segment: a Parquet file sorted by series and time.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.segments import token_bloom
from lakerunner_assets.segments.encoding import METRIC_LEVEL, Encodings
from lakerunner_assets.segments.file import Content, write_file
from lakerunner_assets.segments.metric_columns import check_table, in_order
from lakerunner_assets.segments.metric_values import SplitValues, split
from lakerunner_assets.segments.segment_kernels import FIRST_MS, LAST_MS, ROWS, TID
from lakerunner_assets.segments.series_order import SeriesRuns, row_groups, row_order, series_runs
from lakerunner_assets.segments.unify import unify
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.lake import series
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_HIST_BOUNDS,
    CHQ_HIST_COUNTS,
    CHQ_HIST_NEGATIVE_COUNTS,
    CHQ_HIST_POSITIVE_COUNTS,
    CHQ_HIST_SUM,
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_SERIES,
    CHQ_SUMMARY_QUANTILES,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
    CHQ_VALUE,
)
from resources.lake.metric_values import DOUBLE, SCALED, VALUE_SQL, VALUE_SQL_KEY
from resources.lake.segment_file import FORMAT_VERSION, METRIC_SORT_ORDER, METRIC_SORT_VERSION, SegmentFacts
from resources.lake.series import NAME_FIELD, NAME_LABEL
from resources.lake.streams import Labels
from resources.lake.terms import terms_of, wildcard

ALWAYS_DELTA = frozenset({CHQ_TIMESTAMP, CHQ_TSNS, CHQ_OBJECT, CHQ_POSITION, SCALED})
NEVER_DICTIONARY = frozenset({DOUBLE, CHQ_HIST_SUM})
"""Doubles that hardly ever repeat."""
LISTS = {
    f"{CHQ_HIST_BOUNDS}.list.element": None,
    f"{CHQ_HIST_COUNTS}.list.element": "DELTA_BINARY_PACKED",
    f"{CHQ_HIST_POSITIVE_COUNTS}.list.element": "DELTA_BINARY_PACKED",
    f"{CHQ_HIST_NEGATIVE_COUNTS}.list.element": "DELTA_BINARY_PACKED",
    f"{CHQ_SUMMARY_QUANTILES}.list.element.quantile": None,
    f"{CHQ_SUMMARY_QUANTILES}.list.element.value": "BYTE_STREAM_SPLIT",
    f"{CHQ_EXEMPLARS}.list.element.tsns": "DELTA_BINARY_PACKED",
    f"{CHQ_EXEMPLARS}.list.element.attributes.key_value.key": None,
    "metric_metadata.key_value.key": None,
    "metric_metadata.key_value.value": None,
}
"""Leaves of nested columns; None: a dictionary (bounds are the same in every point of a series)."""
ROWS_PER_ENTRY = 4
"""Fewer rows per distinct value than this do not pay for a dictionary."""


def metric_encodings(table: pa.Table) -> Encodings:
    """Choose an encoding for every column of the table, each in one chunk.

    Rows are sorted by series and time, so times, ids and scaled values are runs of small deltas, and whatever
    belongs to a series (its id, start time, attributes) is one dictionary entry in a long run.
    """
    dictionary: list[str] = []
    by_column: dict[str, str] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(field.type):
            for leaf, encoding in LISTS.items():
                if leaf.startswith(f"{field.name}."):
                    by_column |= {leaf: encoding} if encoding else {}
                    dictionary += [] if encoding else [leaf]
        elif _repeats(field, column.chunk(0)):
            dictionary.append(field.name)
        elif pa.types.is_integer(field.type):
            by_column[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_floating(field.type):
            by_column[field.name] = "BYTE_STREAM_SPLIT"
    return Encodings(tuple(dictionary), by_column)


def _repeats(field: pa.Field, column: pa.Array) -> bool:
    if field.name in ALWAYS_DELTA | NEVER_DICTIONARY or pa.types.is_boolean(field.type):
        return False
    if pa.types.is_dictionary(field.type):
        distinct = len(column.dictionary)
    elif pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        distinct = pc.count_distinct(column).as_py()
    else:
        return False
    return bool(distinct <= max(16, len(column) // ROWS_PER_ENTRY))


DERIVED = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
DERIVED_LABELS = {"histogram": "le", "summary": "quantile"}


def derived_names(table: pa.Table) -> tuple[set[str], set[str]]:
    """Return names and labels that PromQL derives from the rows of the table.

    A classic histogram is one row here and many series in PromQL: `x_bucket`, `x_sum`, `x_count`. A query for
    one of those must find the segment, so derived names are terms like stored ones, and labels that only
    derived series have (`le`, `quantile`) are there by their wildcard.

    By type and not by whether there are buckets: a stale marker has none and ends the derived series too.
    """
    kinds = table.select([CHQ_METRIC_TYPE, "metric_name"]).group_by([CHQ_METRIC_TYPE, "metric_name"])
    names: set[str] = set()
    labels: set[str] = set()
    for row in kinds.aggregate([]).to_pylist():
        for suffix in DERIVED.get(row[CHQ_METRIC_TYPE], ()):
            names.add(row["metric_name"] + suffix)
            labels.add(DERIVED_LABELS[row[CHQ_METRIC_TYPE]])
    return names, labels


def index_terms(
    names: Iterable[str], label_sets: Iterable[Labels], derived_labels: Iterable[str]
) -> tuple[int, ...]:
    """Return index terms of `names`, stored and derived, and of labels; names have the field `NAME_FIELD`."""
    return terms_of_values(names, values_by_label(label_sets), derived_labels)


def values_by_label(label_sets: Iterable[Labels]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for labels in label_sets:
        for name, value in labels:
            found.setdefault(name, set()).add(value)
    return found


def terms_of_values(
    names: Iterable[str], of_labels: Mapping[str, set[str]], derived_labels: Iterable[str]
) -> tuple[int, ...]:
    """Return the same from the values of each label."""
    values: dict[str, set[str]] = {name: found for name, found in of_labels.items() if name != NAME_LABEL}
    # a label called like NAME_FIELD adds to the names, which only widens
    values[NAME_FIELD] = values.get(NAME_FIELD, set()).union(names)
    return tuple(sorted({*terms_of(values), *map(wildcard, derived_labels)}))


def bloom_columns(table: pa.Table, label_sets: Iterable[Labels]) -> Iterator[pa.Array]:
    """Yield label values, and the trace and span ids of exemplars."""
    yield pa.array({value for labels in label_sets for _, value in labels}, pa.string())
    yield from exemplar_ids(table)


def exemplar_ids(table: pa.Table) -> Iterator[pa.Array]:
    if CHQ_EXEMPLARS in table.column_names:
        exemplars = table.column(CHQ_EXEMPLARS).chunk(0).flatten()
        for name in ("trace_id", "span_id"):
            yield pc.struct_field(exemplars, name)


VALUE_COLUMN, SERIES_COLUMN = CHQ_VALUE, CHQ_SERIES


def write_metric_segment(tables: Sequence[pa.Table], path: Path, identity: SegmentIdentity) -> WrittenSegment:
    """Write the rows of decoded tables as one segment; there must be at least one row."""
    filled = [check_table(table) for table in tables if table.num_rows]
    if not filled:
        raise ValueError(f"segment {identity.segment_id}: no rows; an empty segment is never written")
    unified = unify(filled)
    table = unified.table
    runs = series_runs(table)
    order = row_order(table, runs)
    bytes_per_row = table.nbytes / table.num_rows
    table, split_values = _file_columns(table, runs, order)
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


def _file_columns(table: pa.Table, runs: SeriesRuns, order: np.ndarray) -> tuple[pa.Table, SplitValues]:
    """Return the columns of the file: values split in four, no label sets."""
    found = (
        table.column(VALUE_COLUMN).chunk(0)
        if VALUE_COLUMN in table.column_names
        else pa.nulls(table.num_rows, pa.float64())
    )
    values = split(found, runs.codes, order, int(runs.codes.max()) + 1)
    columns = {name: table.column(name) for name in table.column_names}
    columns = {name: columns[name] for name in in_order(list(columns)) if name != SERIES_COLUMN}
    place = list(columns).index(CHQ_TIMESTAMP) + 1
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
        source_objects=tuple(np.unique(table.column(CHQ_OBJECT).to_numpy()).tolist()),
        rows=table.num_rows,
        min_ns=min_ns,
        max_ns=max_ns,
        series_offset=0,
        series_length=0,
        bloom_offset=0,
        bloom_length=0,
    )
