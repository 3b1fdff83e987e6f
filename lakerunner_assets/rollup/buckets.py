"""Rollup rows consist of a series, a bucket and its statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.rollup import bucket_kernels as place
from lakerunner_assets.rollup.bucket_kernels import Buckets, Statistics
from resources.arrays import Int32s
from resources.lake import rollup_columns as rollup
from resources.lake.columns import (
    CHQ_EXEMPLARS,
    CHQ_FLAGS,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_QUARANTINE_REASON,
    CHQ_RESOURCE_DROPPED_ATTRIBUTES,
    CHQ_SCOPE_DROPPED_ATTRIBUTES,
    CHQ_SERIES,
    CHQ_START_TSNS,
    CHQ_SUMMARY_QUANTILES,
    CHQ_TIMESTAMP,
    CHQ_TSNS,
    CHQ_VALUE,
    HIST_PREFIX,
)
from resources.lake.timecut import cut as cut_time

NS_PER_MS = 1_000_000
TEMPORALITY, MIXED = "metric_temporality", "mixed"
_LOOK_ROWS = 1 << 12
STRETCH_ROWS = 1 << 15
"""Rows at a time: a stretch and what becomes of it stay in the caches of a core."""
LEFT_BEHIND = frozenset(
    {
        CHQ_TIMESTAMP, CHQ_TSNS, CHQ_START_TSNS, CHQ_FLAGS, CHQ_OBJECT, CHQ_POSITION,
        CHQ_EXEMPLARS, CHQ_SERIES, CHQ_SUMMARY_QUANTILES, CHQ_RESOURCE_DROPPED_ATTRIBUTES,
        CHQ_SCOPE_DROPPED_ATTRIBUTES, CHQ_QUARANTINE_REASON, *rollup.STORED, *rollup.LOGICAL,
    }
)  # fmt: skip
"""Columns of a sample that are not of its series; those that start like the next ones are others."""
LEFT_BEHIND_PREFIXES = (CHQ_VALUE, HIST_PREFIX)


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows that are used, those of `(start, end]`, and the width of buckets."""

    start_ms: int
    end_ms: int
    width_ms: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Columns of the series, and a flag for buckets of several temporalities."""

    columns: pa.Table
    several: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RollupRows:
    """Rollup rows in order, and the series code of each."""

    table: pa.Table
    codes: Int32s


def whole_buckets(
    chunks: Iterator[tuple[pa.Table, Int32s]], width_ms: int
) -> Iterator[tuple[pa.Table, Int32s]]:
    """Yield the rows of the chunks in stretches that end where a bucket does.

    The rows of a chunk's last bucket wait for the next chunk; only they are copied.
    """
    held: list[tuple[pa.Table, Int32s]] = []
    for table, codes in chunks:
        if table.num_rows == 0:
            continue
        ends = cut_time(table.column(rollup.TIMESTAMP).to_numpy(), width_ms)
        start = 0
        if held:
            last_code, last_end = held[0][1][0], _end(held[0][0], width_ms)
            start = _run(codes, ends, last_code, last_end)
            held.append((table.slice(0, start), codes[:start]))
            if start == table.num_rows:
                continue
            yield _concatenate(held)
            held = []
        border = _last_run(codes, ends)
        for begin, end in _stretches(codes, ends, start, border):
            yield table.slice(begin, end - begin).combine_chunks(), codes[begin:end]
        held.append((table.slice(border), codes[border:]))
    if held:
        yield _concatenate(held)


def _end(table: pa.Table, width_ms: int) -> int:
    first: int = table.column(rollup.TIMESTAMP)[0].as_py()
    return cut_time(first, width_ms)


def _run(codes: Int32s, ends: npt.NDArray[np.int64], code: int, end: int) -> int:
    """Count the leading rows of this series and bucket."""
    for start in range(0, len(codes), _LOOK_ROWS):
        part = slice(start, start + _LOOK_ROWS)
        other = (codes[part] != code) | (ends[part] != end)
        if other.any():
            return start + int(np.argmax(other))
    return len(codes)


def _last_run(codes: Int32s, ends: npt.NDArray[np.int64]) -> int:
    """Return the first row of the last series and bucket."""
    return len(codes) - _run(codes[::-1], ends[::-1], codes[-1], ends[-1])


def _stretches(
    codes: Int32s, ends: npt.NDArray[np.int64], start: int, border: int
) -> Iterator[tuple[int, int]]:
    """Yield the rows of `[start, border)` in pieces, cut where buckets end."""
    while start < border:
        end = min(start + STRETCH_ROWS, border)
        if end < border:
            end += _run(codes[end:border], ends[end:border], codes[end - 1], ends[end - 1])
        yield start, end
        start = end


def _concatenate(held: list[tuple[pa.Table, Int32s]]) -> tuple[pa.Table, Int32s]:
    tables = pa.concat_tables([table for table, _ in held])
    return tables.unify_dictionaries().combine_chunks(), np.concatenate([codes for _, codes in held])


def series_columns(table: pa.Table, buckets: Buckets) -> Identity:
    """Take the columns of the series from the newest row of each bucket.

    The temporality is the newest one sent, since stale markers of remote write have none, or `mixed`.

    The temporality is the newest one said, since stale markers of remote write say none, or `mixed`.
    """
    names = [
        field.name
        for field in table.schema
        if field.name not in LEFT_BEHIND and not field.name.startswith(LEFT_BEHIND_PREFIXES)
    ]
    newest = pa.array(buckets.rows[buckets.starts[1:] - 1])
    found = table.select(names)
    if len(newest) < table.num_rows:  # else each row is a bucket
        found = pa.compute.take(found, newest, boundscheck=False)
    several = np.zeros(len(newest), np.bool_)
    if TEMPORALITY in names:
        column, several = _temporality(table.column(TEMPORALITY).chunk(0), buckets)
        index = found.column_names.index(TEMPORALITY)
        found = found.set_column(index, pa.field(TEMPORALITY, column.type), column)
    return Identity(found, several)


def _temporality(column: pa.Array, buckets: Buckets) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    words = coded.dictionary.cast(pa.string()).to_pylist()
    codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy()
    last, mixed = _newest_codes(codes, buckets)
    last[mixed] = len(words)
    indices = pa.array(last.astype(np.int32), mask=last < 0)
    found = pa.DictionaryArray.from_arrays(indices, pa.array([*words, MIXED], pa.string()))
    # a word has one code, also where the column already had "mixed"
    return found.cast(pa.string()).dictionary_encode(), mixed


def _newest_codes(codes: Int32s, buckets: Buckets) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return the last code of each bucket or -1, and flag buckets with several."""
    if not len(buckets.ends_ms):
        return np.zeros(0, np.int32), np.zeros(0, np.bool_)
    chosen, starts = codes[buckets.rows], buckets.starts[:-1]
    valid = chosen >= 0
    place = np.maximum.reduceat(np.where(valid, np.arange(len(chosen)), -1), starts)
    greatest = np.maximum.reduceat(chosen, starts)
    least = np.minimum.reduceat(np.where(valid, chosen, np.iinfo(np.int32).max), starts)
    has_any = place >= 0
    return np.where(has_any, chosen[place], -1), has_any & (least != greatest)


def rollup_rows(
    codes: Int32s,
    buckets: Buckets,
    identity: Identity,
    found: Statistics,
    sketches: pa.Array | None,
    histograms: dict[str, pa.Array],
) -> RollupRows:
    """Build the rows in stored form, without columns that are null everywhere."""
    made = dict(zip(identity.columns.column_names, identity.columns.columns, strict=True))
    stored = {
        **_stored_columns(found),
        **({rollup.SKETCH: sketches} if sketches is not None else {}),
        **histograms,
    }
    made |= {rollup.TIMESTAMP: pa.chunked_array([buckets.ends_ms])}
    made |= {n: pa.chunked_array([c]) for n, c in stored.items() if c.null_count < len(c)}
    fields = [identity.columns.schema.field(name) for name in identity.columns.column_names]
    fields += [pa.field(name, column.type) for name, column in list(made.items())[len(fields) :]]
    table = pa.Table.from_arrays(list(made.values()), schema=pa.schema(fields))
    return RollupRows(table, codes[buckets.rows[buckets.starts[:-1]]])


def _stored_columns(found: Statistics) -> dict[str, pa.Array]:
    doubles, numbers = found
    count = numbers[place.COUNT]
    none = count == 0
    last = doubles[place.LAST].view(np.uint64)
    columns: dict[str, pa.Array] = {rollup.COUNT: pa.array(count)}
    columns[rollup.LAST] = _nullable(doubles[place.LAST], none)
    for name, row in _BY_LAST.items():
        columns[name] = _nullable(doubles[row], none | (doubles[row].view(np.uint64) == last))
    columns[rollup.M2] = _nullable(doubles[place.M2], none | _follows(found))
    for name, row in _ZEROS.items():
        columns[name] = _nullable(doubles[row], none | (doubles[row] == 0))
    for name, row in ((rollup.RESETS, place.RESETS), (rollup.CHANGES, place.CHANGES)):
        columns[name] = _nullable(numbers[row], numbers[row] == 0)
    columns[rollup.PREV] = _nullable(doubles[place.PREV], count < 2)
    columns[rollup.PREV_TS] = _nullable(numbers[place.PREV_TS], count < 2)
    untimed = numbers[place.TIMED] == 0
    columns[rollup.LAST_TS] = _nullable(numbers[place.LAST_TS], untimed)
    same = numbers[place.FIRST_TS] == numbers[place.LAST_TS]
    columns[rollup.FIRST_TS] = _nullable(numbers[place.FIRST_TS], untimed | same)
    stale = numbers[place.LAST_STALE] != 0
    columns[rollup.LAST_STALE] = _nullable(stale, ~stale)
    return columns


_BY_LAST = {
    rollup.SUM: place.SUM,
    rollup.MIN: place.MIN,
    rollup.MAX: place.MAX,
    rollup.FIRST: place.FIRST,
}
_ZEROS = {rollup.SUM_C: place.SUM_C, rollup.RESET_SUM: place.RESET_SUM}
_FOUR_VALUES = {
    rollup.FIRST: place.FIRST, rollup.PREV: place.PREV, rollup.LAST: place.LAST, rollup.SUM: place.SUM,
    rollup.SUM_C: place.SUM_C,
}  # fmt: skip
_NEAR = 1e-9
"""Share that squares of few samples may be off by: more than rounding, less than matters."""


def _follows(found: Statistics) -> npt.NDArray[np.bool_]:
    """Flag buckets whose squared deviations readers get from other columns."""
    doubles, numbers = found
    known = {name: doubles[row] for name, row in _FOUR_VALUES.items()}
    known |= {rollup.COUNT: numbers[place.COUNT], rollup.CHANGES: numbers[place.CHANGES]}
    near: npt.NDArray[np.bool_] = np.equal(doubles[place.M2], 0)
    several = np.flatnonzero(numbers[place.COUNT] > 1)
    if len(several):
        wanted = doubles[place.M2][several]
        few = rollup.squares_of_few({name: column[several] for name, column in known.items()})
        near[several] = np.abs(few - wanted) <= wanted * _NEAR
    return near


def _nullable(values: npt.NDArray[np.generic], missing: npt.NDArray[np.bool_]) -> pa.Array:
    if missing.all():
        return pa.nulls(0)
    return pa.array(values, mask=missing, from_pandas=False)
