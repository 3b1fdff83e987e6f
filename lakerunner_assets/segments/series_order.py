"""Metric segments are sorted by series and time; this module finds the series and orders rows.

Rows are sorted by metric name, series and time, so the samples of a series lie in one run and their deltas
are small. Between label sets with one id their text decides, so that neither's run is torn.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.segments.order import most_rows
from lakerunner_assets.segments.segment_kernels import (
    MAX_NS,
    MIN_NS,
    NAME,
    ODD_ROW,
    ROWS,
    TID,
    is_ordered,
    radix_sorted,
    series_facts,
)
from resources.arrays import Int32s, Int64s
from resources.lake.columns import CHQ_OBJECT, CHQ_POSITION, CHQ_SERIES, CHQ_TID, CHQ_TIMESTAMP, CHQ_TSNS
from resources.lake.series import NAME_LABEL
from resources.lake.streams import Labels

NS_PER_MS = 1_000_000


class SeriesError(ValueError):
    """A decoded table contradicts itself about a series."""


@dataclass(frozen=True, slots=True)
class SeriesRuns:
    """The series of a table in row order."""

    codes: Int32s
    """Series code of each row of the table."""
    code_of_run: Int64s
    facts: Int64s
    """Facts of each run, in the columns of `segment_kernels`."""
    labels: tuple[Labels, ...]
    names: tuple[str, ...]
    times_ns: Int64s
    """Exact time of each row of the table."""

    @property
    def starts(self) -> Int64s:
        """Row of the file at which each run begins."""
        rows: Int64s = np.concatenate(([0], np.cumsum(self.facts[:, ROWS])[:-1]))
        return rows

    @property
    def bounds_ns(self) -> tuple[int, int]:
        return int(self.facts[:, MIN_NS].min()), int(self.facts[:, MAX_NS].max())


def series_runs(table: pa.Table) -> SeriesRuns:
    """Find one run per label set, by name, id, labels."""
    series, names = (
        encode_texts(table.column(CHQ_SERIES).chunk(0)),
        encode_texts(table.column("metric_name").chunk(0)),
    )
    codes, times_ms, tids = (
        series.indices.to_numpy(),
        table.column(CHQ_TIMESTAMP).to_numpy(),
        table.column(CHQ_TID).to_numpy(),
    )
    times_ns = exact_times(table, times_ms)
    facts = series_facts(codes, tids, names.indices.to_numpy(), times_ms, times_ns, len(series.dictionary))
    present = np.flatnonzero(facts[:, ROWS])
    keys = pa.table(
        {
            "name": names.dictionary.take(pa.array(facts[present, NAME])),
            "tid": pa.array(facts[present, TID]),
            "labels": series.dictionary.take(pa.array(present)),
        }
    )
    ordered = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    keys = keys.take(ordered)
    code_of_run = present[ordered.to_numpy()]
    runs = SeriesRuns(
        codes,
        code_of_run,
        facts[code_of_run],
        _label_sets(keys.column("labels")),
        tuple(keys.column("name").to_pylist()),
        times_ns,
    )
    _check(table, runs)
    return runs


def row_order(table: pa.Table, runs: SeriesRuns) -> Int64s:
    """Return row numbers in segment order."""
    rank = np.zeros(int(runs.code_of_run.max()) + 1, np.int64)
    rank[runs.code_of_run] = np.arange(len(runs.code_of_run))
    times = runs.times_ns if CHQ_TSNS in table.column_names else table.column(CHQ_TIMESTAMP).to_numpy()
    keys = [times, rank[runs.codes]]
    objects, positions = (table.column(name).to_numpy() for name in (CHQ_OBJECT, CHQ_POSITION))
    if not is_ordered(objects, positions):  # rows usually come in this order, and the sort is stable
        keys = [positions, objects, *keys]
    order = np.arange(len(times))
    for key in keys:
        order = radix_sorted(order, key.view(np.uint64) - key.min().view(np.uint64))
    return order


def row_groups(starts: Int64s, rows: int, bytes_per_row: float) -> list[tuple[int, int]]:
    """Return (first, behind) of each row group: whole series that fit, a longer series in pieces."""
    limit = most_rows(bytes_per_row)
    groups: list[tuple[int, int]] = []
    start = 0
    while start < rows:
        end = min(start + limit, rows)
        if end < rows:
            border = int(starts[np.searchsorted(starts, end, "right") - 1])
            end = border if border > start else end
        groups.append((start, end))
        start = end
    return groups


def exact_times(table: pa.Table, times_ms: Int64s) -> Int64s:
    """Return times in ns: as sent, else from the millisecond; the two must agree."""
    limit = (2**63 - 1) // NS_PER_MS
    if (beyond := (times_ms > limit) | (times_ms < -limit)).any():
        raise SeriesError(f"{_where(table, beyond)}: {CHQ_TIMESTAMP} outside of 1677 to 2262")
    whole: Int64s = times_ms * NS_PER_MS
    if CHQ_TSNS not in table.column_names:
        return whole
    column = table.column(CHQ_TSNS).chunk(0)
    sent = column.is_valid().to_numpy(zero_copy_only=False)
    exact: Int64s = np.where(sent, column.fill_null(0).to_numpy(), whole)
    if (different := exact // NS_PER_MS != times_ms).any():
        raise SeriesError(
            f"{_where(table, different)}: {CHQ_TSNS} is not in the millisecond of {CHQ_TIMESTAMP}"
        )
    return exact


def encode_texts(column: pa.Array) -> pa.DictionaryArray:
    """Give every text one code: two codes of one label set would be two runs."""
    if not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    once = pc.count_distinct(column.dictionary).as_py() == len(column.dictionary)
    return column if once else column.cast(pa.string()).dictionary_encode()


def _label_sets(texts: pa.ChunkedArray) -> tuple[Labels, ...]:
    """Decode all texts at once: a JSON document per series costs several times as much."""
    whole = "[" + ",".join(texts.to_pylist()) + "]"
    return tuple(msgspec.json.decode(whole, type=list[tuple[tuple[str, str], ...]]))


def _check(table: pa.Table, runs: SeriesRuns) -> None:
    """Check that each label set has one id and one name, its `__name__`."""
    for run, (labels, name) in enumerate(zip(runs.labels, runs.names, strict=True)):
        odd = int(runs.facts[run, ODD_ROW])
        if odd >= 0:
            row = table.slice(odd, 1).select([CHQ_OBJECT, CHQ_POSITION, "metric_name", CHQ_TID])
            raise SeriesError(
                f"series {labels}: expected name {name!r} and id {runs.facts[run, TID]} in all its rows, "
                f"found {row.to_pylist()[0]}"
            )
        if dict(labels).get(NAME_LABEL, "") != name:  # a metric may have an empty name
            raise SeriesError(f"series {labels}: its metric_name is {name!r}, expected that of its labels")


def _where(table: pa.Table, rows: np.ndarray) -> str:
    found = table.slice(int(np.argmax(rows)), 1).select([CHQ_OBJECT, CHQ_POSITION]).to_pylist()[0]
    return f"object {found[CHQ_OBJECT]}, position {found[CHQ_POSITION]}"
