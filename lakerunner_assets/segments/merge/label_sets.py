"""Streams and series of several segments are put in one order, that of a segment.

Row ranges of the series tables map rows to series; label columns are never read. A series is told from others
by its id and a second hash of its labels; where one id has several label sets, their text decides which comes
first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lakerunner_assets.segments.merge.merge_kernels import label_hashes
from lakerunner_assets.segments.merge.request import SourceError
from lakerunner_assets.segments.merge.source import Source, source_errors
from resources.arrays import Int32s, Int64s
from resources.lake import series, streams
from resources.lake.series import NAME_LABEL
from resources.lake.streams import Labels


@dataclass(frozen=True, slots=True)
class StreamUnion:
    """All streams of several log or span segments, by id, with service ranks."""

    ids: Int64s
    labels: tuple[Labels, ...]
    service_rank: Int64s

    def __len__(self) -> int:
        return len(self.ids)


def stream_union(sources: Sequence[Source]) -> StreamUnion:
    found: dict[int, Labels] = {}
    for source in sources:
        with source_errors(source.path):
            table = streams.decode(source.block)
        for stream in table:
            known = found.setdefault(stream.stream_id, stream.labels)
            if known != stream.labels:
                raise SourceError(
                    source.path,
                    f"stream id {stream.stream_id} of both {known} and {stream.labels}: the hash collided",
                )
    ids = sorted(found)
    services = [dict(found[each]).get("service_name", "") for each in ids]
    place = {name: rank for rank, name in enumerate(sorted(set(services), key=str.encode))}
    return StreamUnion(
        np.array(ids, np.int64),
        tuple(found[each] for each in ids),
        np.array([place[name] for name in services], np.int64),
    )


@dataclass(frozen=True, slots=True)
class LabelSets:
    """Many label sets as a few arrays, without an object per label.

    {__name__="up", job="a"}     offsets 0 2 3     names  0 1 0    of  __name__ job
    {__name__="up"}                                values 0 1 0    of  up a
    """

    offsets: Int64s
    names: Int32s
    values: Int32s
    name_texts: tuple[str, ...]
    value_texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def hashes(self) -> Int64s:
        """Hash each set a second time beside its id: two sets that share both are taken for one."""
        return label_hashes(
            self.offsets, self.names, self.values, _hashes(self.name_texts), _hashes(self.value_texts)
        )

    def metric_names(self) -> Int32s:
        """Return for each set the code of its `__name__` in `value_texts`, -1 without one."""
        found = np.full(len(self), -1, np.int32)
        if NAME_LABEL in self.name_texts:
            entries = np.flatnonzero(self.names == self.name_texts.index(NAME_LABEL))
            found[np.searchsorted(self.offsets, entries, "right") - 1] = self.values[entries]
        return found

    def take(self, rows: Int64s) -> LabelSets:
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return LabelSets(
            offsets, self.names[entries], self.values[entries], self.name_texts, self.value_texts
        )

    def labels(self) -> list[Labels]:
        names, values = self.name_texts, self.value_texts
        pairs = [
            (names[n], values[v]) for n, v in zip(self.names.tolist(), self.values.tolist(), strict=True)
        ]
        borders = self.offsets.tolist()
        return [tuple(pairs[start:end]) for start, end in pairwise(borders)]

    def texts(self) -> pa.StringArray:
        """Write the sets as `streams.labels_to_text` does."""
        opening, closing = (_json_texts(texts) for texts in (self.name_texts, self.value_texts))
        pairs = pc.binary_join_element_wise(
            opening.take(pa.array(self.names)), closing.take(pa.array(self.values)), ","
        )
        pairs = pc.binary_join_element_wise("[", pairs, "]", "")
        lists = pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), pairs)
        return pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")

    def map_array(self) -> pa.MapArray:
        """Build the column of the series table: dictionaries of used texts, in order of use."""
        names, values = (
            pa.array(texts, pa.string()).take(pa.array(codes)).dictionary_encode()
            for texts, codes in ((self.name_texts, self.names), (self.value_texts, self.values))
        )
        return pa.MapArray.from_arrays(pa.array(self.offsets.astype(np.int32)), names, values)

    def values_by_name(self) -> dict[str, set[str]]:
        """Return the values of each label over all sets."""
        width = max(len(self.value_texts), 1)
        pairs = np.unique(self.names.astype(np.int64) * width + self.values)
        found: dict[str, set[str]] = {}
        for name, value in zip((pairs // width).tolist(), (pairs % width).tolist(), strict=True):
            found.setdefault(self.name_texts[name], set()).add(self.value_texts[value])
        return found


def from_map(column: pa.MapArray) -> LabelSets:
    """Read the column `labels` of a series table."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    names, values = column.keys, column.items
    return LabelSets(
        offsets,
        names.indices.to_numpy(),
        values.indices.to_numpy(),
        tuple(names.dictionary.to_pylist()),
        tuple(values.dictionary.to_pylist()),
    )


def concatenate(parts: Sequence[LabelSets]) -> LabelSets:
    """Join the sets of the parts in their order, texts once."""
    name_codes: dict[str, int] = {}
    value_codes: dict[str, int] = {}
    names, values, lengths = [], [], []
    for part in parts:
        names.append(_recode(part.name_texts, part.names, name_codes))
        values.append(_recode(part.value_texts, part.values, value_codes))
        lengths.append(np.diff(part.offsets))
    return LabelSets(
        np.concatenate(([0], np.cumsum(np.concatenate(lengths)))),
        np.concatenate(names),
        np.concatenate(values),
        tuple(name_codes),
        tuple(value_codes),
    )


def _recode(texts: Sequence[str], codes: Int32s, known: dict[str, int]) -> Int32s:
    """Translate codes into those of `known`, which learns new texts."""
    used = np.unique(codes)
    place = np.zeros(len(texts) + 1, np.int32)
    place[used] = [known.setdefault(texts[code], len(known)) for code in used.tolist()]
    return place[codes]


def _hashes(texts: Sequence[str]) -> Int64s:
    return np.array([xxhash.xxh3_64_intdigest(text.encode()) for text in texts], np.uint64).view(np.int64)


def _json_texts(texts: Sequence[str]) -> pa.StringArray:
    return pa.array([json.dumps(text, ensure_ascii=False) for text in texts], pa.string())


@dataclass(frozen=True, slots=True)
class SeriesUnion:
    """All series of several segments, by rank."""

    names: tuple[str, ...]
    """Distinct metric names in order."""
    name: Int32s
    """Place of each series in `names`."""
    tid: Int64s
    labels: LabelSets
    exponent: Int64s
    """Largest exponent of each series in any source."""
    rows: Int64s
    """Rows of each series in all sources together."""
    of_source: tuple[SourceSeries, ...]

    def __len__(self) -> int:
        return len(self.tid)


@dataclass(frozen=True, slots=True)
class SourceSeries:
    rank: Int32s
    """Rank of each series of the source, in its order."""
    borders: Int64s
    """First row of each series, and behind them the number of rows."""

    def ranks(self, start: int, count: int) -> Int32s:
        """Return the ranks of the rows `[start, start + count)`."""
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
    with source_errors(source.path):
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
    """Flag entries with the key of the one before them, in this order."""
    same = np.ones(len(order) - 1, np.bool_)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    return same


def _ties(order: Int64s, same: np.ndarray, hashes: Int64s, tables: Sequence[_Table]) -> Int64s:
    """Rank label texts among series that share name and id."""
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
    """Take label sets by their place over all tables, in this order."""
    table_of = np.searchsorted(ends, chosen, "right")
    by_table = np.argsort(table_of, kind="stable")
    parts = []
    for number in np.unique(table_of).tolist():
        own = chosen[table_of == number]
        parts.append(tables[number].labels.take(own - (ends[number] - len(tables[number].tid))))
    back = np.empty(len(chosen), np.int64)
    back[by_table] = np.arange(len(chosen))
    return concatenate(parts).take(back)
