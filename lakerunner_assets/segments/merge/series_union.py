"""The series of several segments in one order: by name, id and label text, as a segment has them.

Row ranges of the series tables say which series a row is of; label columns are never asked. A series is
told from others by its id and a second hash of its labels; where one id has several label sets, their text
decides which comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakerunner_assets.segments.merge.label_sets import LabelSets, from_map, joined
from lakerunner_assets.segments.merge.source import Source, naming
from resources.arrays import Int32s, Int64s
from resources.lake import series


@dataclass(frozen=True, slots=True)
class SeriesUnion:
    """All series, by rank."""

    names: tuple[str, ...]
    """Distinct metric names in order."""
    name: Int32s
    """Of each series, its place in `names`."""
    tid: Int64s
    labels: LabelSets
    exponent: Int64s
    """The largest that a source scaled it by."""
    rows: Int64s
    """In all sources together."""
    of_source: tuple[SourceSeries, ...]

    def __len__(self) -> int:
        return len(self.tid)


@dataclass(frozen=True, slots=True)
class SourceSeries:
    rank: Int32s
    """Of each series of the source, in its order."""
    borders: Int64s
    """First row of each, and behind them the number of rows."""

    def ranks(self, start: int, count: int) -> Int32s:
        """Of the rows `[start, start + count)`."""
        first, last = np.searchsorted(self.borders, [start, start + count - 1], "right") - 1
        borders = np.clip(self.borders[first : last + 2], start, start + count)
        return np.repeat(self.rank[first : last + 1], np.diff(borders))


@dataclass(frozen=True, slots=True)
class _Table:
    tid: Int64s
    name: Int32s
    """Number of the metric name over all sources."""
    hashes: Int64s
    labels: LabelSets
    borders: Int64s
    exponent: Int64s


def series_union(sources: Sequence[Source]) -> SeriesUnion:
    numbers: dict[str, int] = {}
    tables = [_read(source, numbers) for source in sources]
    names = sorted(numbers)  # by code point, which is the order of their bytes
    place = np.empty(len(names), np.int64)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    tid, hashes = (np.concatenate(parts) for parts in zip(*((t.tid, t.hashes) for t in tables), strict=True))
    name = place[np.concatenate([t.name for t in tables])]
    order = np.lexsort((tid, name))
    same = _same(order, name, tid)
    if (same & (hashes[order[1:]] != hashes[order[:-1]])).any():
        tie = _ties(order, same, hashes, tables)
        order = np.lexsort((tie, tid, name))
        same = _same(order, name, tid, tie)
    rank_in_order = np.concatenate(([0], np.cumsum(~same)))
    rank = np.empty(len(order), np.int32)
    rank[order] = rank_in_order
    first = order[np.concatenate(([True], ~same))]
    exponent = np.zeros(len(first), np.int64)
    rows = np.zeros(len(first), np.int64)
    np.maximum.at(exponent, rank, np.concatenate([t.exponent for t in tables]))
    np.add.at(rows, rank, np.concatenate([np.diff(t.borders) for t in tables]))
    ends = np.cumsum([len(t.tid) for t in tables])
    of_source = tuple(
        SourceSeries(ranks, t.borders) for ranks, t in zip(np.split(rank, ends[:-1]), tables, strict=True)
    )
    labels = _labels(first, ends, tables)
    return SeriesUnion(
        tuple(names), name[first].astype(np.int32), tid[first], labels, exponent, rows, of_source
    )


def _read(source: Source, numbers: dict[str, int]) -> _Table:
    with naming(source.path):
        table = series.read_table(source.block, source.rows)
    labels = from_map(table.column("labels").chunk(0))
    codes = labels.metric_names()
    number_of = np.zeros(len(labels.value_texts) + 1, np.int32)
    for code in np.unique(codes).tolist():
        name = labels.value_texts[code] if code >= 0 else ""  # code -1 is the last place
        number_of[code] = numbers.setdefault(name, len(numbers))
    return _Table(
        table.column("tid").to_numpy(),
        number_of[codes],
        labels.hashes(),
        labels,
        np.append(table.column("row").to_numpy(), source.rows),
        table.column("exponent").to_numpy().astype(np.int64),
    )


def _same(order: Int64s, *keys: Int64s) -> np.ndarray:
    """Whether each but the first in this order has the key of the one before it."""
    same = np.ones(len(order) - 1, np.bool_)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    return same


def _ties(order: Int64s, same: np.ndarray, hashes: Int64s, tables: Sequence[_Table]) -> Int64s:
    """For series that share name and id, the place of their label text among those."""
    ends = np.cumsum([len(table.tid) for table in tables])
    tie = np.zeros(len(order), np.int64)
    for group in np.split(order, np.flatnonzero(~same) + 1):
        distinct, where = np.unique(hashes[group], return_inverse=True)
        if len(distinct) > 1:
            chosen = [group[int(np.argmax(where == number))] for number in range(len(distinct))]
            texts = [_labels(np.array([one]), ends, tables).texts()[0].as_py() for one in chosen]
            place = np.empty(len(distinct), np.int64)
            place[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
            tie[group] = place[where]
    return tie


def _labels(chosen: Int64s, ends: Int64s, tables: Sequence[_Table]) -> LabelSets:
    """Label sets by their place over all tables, in this order."""
    table_of = np.searchsorted(ends, chosen, "right")
    by_table = np.argsort(table_of, kind="stable")
    parts = []
    for number in np.unique(table_of).tolist():
        own = chosen[table_of == number]
        parts.append(tables[number].labels.take(own - (ends[number] - len(tables[number].tid))))
    back = np.empty(len(chosen), np.int64)
    back[by_table] = np.arange(len(chosen))
    return joined(parts).take(back)
