"""Rows of all sources come in one order, a round at a time.

A round takes from every source what is not behind the smallest last key that waits in a buffer: nothing
that is still to be read can come before it.

    source   waiting       last   taken
    a        1 4 9         9      1 4
    b        2 5 6         6      2 5 6     the smallest last key of a source that goes on
    c        3 8           8      3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.segments.merge.keys import Order, RollupOrder, SampleOrder
from lakerunner_assets.segments.merge.label_sets import SeriesUnion, series_union
from lakerunner_assets.segments.merge.layout import Layout, layout_of
from lakerunner_assets.segments.merge.merge_kernels import Keys, merge_runs, rows_up_to, run_starts
from lakerunner_assets.segments.merge.reader import Batch, Reader
from lakerunner_assets.segments.merge.request import MergeKind, SourceError
from lakerunner_assets.segments.merge.source import Source, open_source
from lakerunner_assets.segments.merge.texts import FULL, Texts
from resources.arrays import Int32s, Int64s

ROUNDS_SHARE = 16
"""Part of the memory for waiting rows: pages, merged rows and row groups need the rest."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in the order of a segment."""

    table: pa.Table
    """One chunk per column."""
    keys: Keys
    codes: Int32s
    """Stream or series of each row, by its place in the union."""
    times: Int64s
    """Event time, ns."""

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, end: int) -> Rows:
        return Rows(
            self.table.slice(start, end - start),
            self.keys[start:end],
            self.codes[start:end],
            self.times[start:end],
        )

    def take(self, chosen: Int64s) -> Rows:
        table = pa.table([_take(c.chunk(0), chosen) for c in self.table.columns], schema=self.table.schema)
        return Rows(table, self.keys[chosen], self.codes[chosen], self.times[chosen])


class Rounds:
    """All rows of the sources, each once."""

    def __init__(
        self, sources: Sequence[Source], layout: Layout, order: Order, memory_bytes: int, unique: bool
    ) -> None:
        """Rows with one key are left out, or an error if `unique`."""
        self.duplicates = 0
        self._columns = layout.columns
        self._schema = pa.schema([column.field for column in layout.columns])
        self._texts = {column.name: Texts() for column in layout.columns if column.is_coded}
        each = max(1, memory_bytes // max(len(sources), 1))
        self._readers = [
            Reader(number, source, layout, self._texts, order, each) for number, source in enumerate(sources)
        ]
        self._unique = unique
        self._last: Keys | None = None

    def __iter__(self) -> Iterator[Rows]:
        while True:
            for reader in self._readers:
                reader.fill()
            active = [reader for reader in self._readers if reader.waiting]
            if not active:
                return
            rows = self._round(active)
            if len(rows):
                yield rows
            del rows
            self._forget()

    def _round(self, active: Sequence[Reader]) -> Rows:
        ends = [reader.waiting[-1].keys[-1:] for reader in active if not reader.is_exhausted]
        bound = min(ends, key=lambda key: tuple(key[0].tolist()), default=None)
        pieces: list[tuple[Batch, int, int]] = []
        borders = [0]
        for reader in active:
            taken = 0
            for batch in list(reader.waiting):
                start, left = batch.start, batch.left
                rows = left if bound is None else rows_up_to(batch.keys[start:], bound)
                if rows:
                    pieces.append((batch, start, start + rows))
                    taken += rows
                    reader.consume(batch, rows)
                if rows < left:
                    break
            borders.append(borders[-1] + taken)
        return self._merge(active, pieces, np.array(borders, np.int64))

    def _merge(
        self, active: Sequence[Reader], pieces: Sequence[tuple[Batch, int, int]], borders: Int64s
    ) -> Rows:
        keys, codes, times = (
            np.concatenate([getattr(batch, name)[start:end] for batch, start, end in pieces])
            for name in ("keys", "codes", "times")
        )
        order, repeated = merge_runs(keys, borders, keys[:0] if self._last is None else self._last)
        if len(repeated) and self._unique:
            raise self._twice(active, keys, borders, int(repeated[0]))
        self.duplicates += len(repeated)
        is_sorted = not len(repeated) and int(np.count_nonzero(np.diff(borders))) == 1
        columns: list[pa.Array] = []
        for place, column in enumerate(self._columns):
            parts = [batch.columns[place].slice(start, end - start) for batch, start, end in pieces]
            if all(part.null_count == len(part) for part in parts):
                whole = pa.nulls(len(order), parts[0].type)
            else:
                whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
                whole = whole if is_sorted else _take(whole, order)
            if column.is_coded:
                whole = pa.DictionaryArray.from_arrays(whole, self._texts[column.name].array(), safe=False)
            columns.append(whole)
        table = pa.Table.from_arrays(columns, schema=self._schema)
        if not is_sorted:
            keys, codes, times = keys[order], codes[order], times[order]
        if len(keys):
            self._last = keys[-1:].copy()
        return Rows(table, keys, codes, times)

    def _twice(self, active: Sequence[Reader], keys: Keys, borders: Int64s, row: int) -> SourceError:
        """Build an error that names the files of two rows with one key."""
        rows = np.flatnonzero((keys == keys[row]).all(axis=1))
        files = [active[int(np.searchsorted(borders, each, "right")) - 1].source.path for each in rows]
        others = sorted({str(path) for path in files[1:]} or {str(files[0])})
        return SourceError(files[0], f"a row of the same series and bucket as one in {', '.join(others)}")

    def _forget(self) -> None:
        """Forget texts that no waiting row has, where there are many."""
        for place, column in enumerate(self._columns):
            if column.is_coded and len(self._texts[column.name]) > FULL:
                texts = self._texts[column.name]
                used = np.zeros(len(texts), np.bool_)
                waiting = [batch for reader in self._readers for batch in reader.waiting]
                for batch in waiting:
                    used[batch.columns[place].drop_null().to_numpy()] = True
                codes = texts.forget(used)
                for batch in waiting:
                    batch.columns[place] = codes.take(batch.columns[place])


def _take(column: pa.Array, order: Int64s) -> pa.Array:
    return pc.take(column, pa.array(order), boundscheck=False)


def concatenate_rows(parts: Sequence[Rows]) -> Rows:
    """Join rows end to end, one chunk per column."""
    if len(parts) == 1:
        return parts[0]
    keys, codes, times = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "codes", "times")
    )
    table = pa.concat_tables([part.table for part in parts]).unify_dictionaries().combine_chunks()
    return Rows(table, keys, codes, times)


@dataclass(frozen=True, slots=True)
class SortedSeries:
    name: str
    tid: int
    labels: str
    """Labels as `streams.labels_to_text` writes them."""


class SortedSamples:
    """Rows of several metric segments by series and time, repeated ones once.

    found = sorted_samples(paths, 256 << 20)
    for table, codes in found.chunks():        # codes: each row's place in found.series
        ...
    """

    def __init__(self, sources: Sequence[Source], kind: MergeKind, memory_bytes: int) -> None:
        self.sources = tuple(sources)
        self.union: SeriesUnion = series_union(sources)
        """Series as arrays, in the same order as `series`."""
        self.layout: Layout = layout_of(sources, kind)
        self._kind, self._memory = kind, memory_bytes

    @cached_property
    def series(self) -> list[SortedSeries]:
        """List all series, in the order of their rows."""
        names = (self.union.names[place] for place in self.union.name.tolist())
        rows = zip(names, self.union.tid.tolist(), self.union.labels.texts().to_pylist(), strict=True)
        return [SortedSeries(*row) for row in rows]

    def chunks(self) -> Iterator[tuple[pa.Table, Int32s]]:
        """Yield tables in segment order, and the place in `series` of each of their rows.

        A chunk ends with a series where the series fits into a quarter of the memory; a longer one is cut
        anywhere, so consumers must carry their state from chunk to chunk.
        """
        for rows in whole_series(self._rounds(), self._memory // 4):
            yield rows.table, rows.codes

    def _rounds(self) -> Rounds:
        unique = self._kind is MergeKind.ROLLUP
        order = RollupOrder(self.union) if unique else SampleOrder(self.union)
        return Rounds(self.sources, self.layout, order, self._memory // ROUNDS_SHARE, unique)


def sorted_samples(sources: Sequence[Path], memory_bytes: int) -> SortedSamples:
    """Open sample segments: the columns of `metric_columns`, the value and flat attributes."""
    return _open_sources(sources, MergeKind.SAMPLES, memory_bytes)


def sorted_rollups(sources: Sequence[Path], memory_bytes: int) -> SortedSamples:
    """Open rollup segments, columns as stored; a repeated series and bucket is an error."""
    return _open_sources(sources, MergeKind.ROLLUP, memory_bytes)


def _open_sources(paths: Sequence[Path], kind: MergeKind, memory_bytes: int) -> SortedSamples:
    if not paths:
        raise ValueError("no sources to read")
    return SortedSamples([open_source(path, kind) for path in paths], kind, memory_bytes)


def whole_series(rounds: Rounds, most_bytes: int) -> Iterator[Rows]:
    """Yield the same rows, cut between series: the last one of a round waits for the next."""
    held: list[Rows] = []
    for rows in rounds:
        border = int(run_starts(rows.codes)[-1])
        if border or (held and held[0].codes[-1] != rows.codes[0]):
            yield concatenate_rows([*held, rows.slice(0, border)] if border else held)
            held = []
        held.append(rows.slice(border, len(rows)))
        if sum(each.table.nbytes for each in held) > most_bytes:
            yield concatenate_rows(held)
            held = []
    if held:
        yield concatenate_rows(held)
