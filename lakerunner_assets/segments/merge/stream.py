"""The rows of several metric segments in one order, for whoever computes from them (rollups).

found = sorted_samples(paths, 256 << 20)
for table, codes in found.chunks():        # codes: each row's place in found.series
    ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from lakerunner_assets.segments.merge.kernels import run_starts
from lakerunner_assets.segments.merge.keys import RollupOrder, SampleOrder
from lakerunner_assets.segments.merge.layout import Layout, layout_of
from lakerunner_assets.segments.merge.request import MergeKind
from lakerunner_assets.segments.merge.rounds import ROUNDS_SHARE, Rounds, Rows, joined_rows
from lakerunner_assets.segments.merge.series_union import SeriesUnion, series_union
from lakerunner_assets.segments.merge.source import Source, opened
from resources.arrays import Int32s


@dataclass(frozen=True, slots=True)
class SortedSeries:
    name: str
    tid: int
    labels: str
    """As `streams.labels_to_text` spells them."""


class SortedSamples:
    """Rows of all sources by series and time, those that are in several sources once."""

    def __init__(self, sources: Sequence[Source], kind: MergeKind, memory_bytes: int) -> None:
        self.sources = tuple(sources)
        self.union: SeriesUnion = series_union(sources)
        """The series as arrays, in the same order as `series`."""
        self.layout: Layout = layout_of(sources, kind)
        self._kind, self._memory = kind, memory_bytes

    @cached_property
    def series(self) -> list[SortedSeries]:
        """All series, in the order of their rows."""
        names = (self.union.names[place] for place in self.union.name.tolist())
        rows = zip(names, self.union.tid.tolist(), self.union.labels.texts().to_pylist(), strict=True)
        return [SortedSeries(*row) for row in rows]

    def chunks(self) -> Iterator[tuple[pa.Table, Int32s]]:
        """Tables in segment order, and the place in `series` of each of their rows.

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
    """Of sample segments: the columns of `metric_columns`, with `chq_value`, and flat attributes."""
    return _opened(sources, MergeKind.SAMPLES, memory_bytes)


def sorted_rollups(sources: Sequence[Path], memory_bytes: int) -> SortedSamples:
    """Of rollup segments: columns as they are stored. Two rows of one series and bucket are an error."""
    return _opened(sources, MergeKind.ROLLUP, memory_bytes)


def _opened(paths: Sequence[Path], kind: MergeKind, memory_bytes: int) -> SortedSamples:
    if not paths:
        raise ValueError("no sources to read")
    return SortedSamples([opened(path, kind) for path in paths], kind, memory_bytes)


def whole_series(rounds: Rounds, most_bytes: int) -> Iterator[Rows]:
    """The same rows, cut between series: the last one of a round waits for the next."""
    held: list[Rows] = []
    for rows in rounds:
        border = int(run_starts(rows.codes)[-1])
        if border or (held and held[0].codes[-1] != rows.codes[0]):
            yield joined_rows([*held, rows.slice(0, border)] if border else held)
            held = []
        held.append(rows.slice(border, len(rows)))
        if sum(each.table.nbytes for each in held) > most_bytes:
            yield joined_rows(held)
            held = []
    if held:
        yield joined_rows(held)
