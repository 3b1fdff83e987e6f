"""The cooking lake with compaction, and what is in it row by row."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from lakerunner_assets.compacted.carve import carve
from lakerunner_assets.compacted.due import Scope
from lakerunner_assets.compacted.report import Report
from lakerunner_assets.compacted.run import MergeChange, compact
from lakerunner_assets.cooked.rebuild import rebuild
from lakerunner_assets.publish import HourChange
from lakerunner_assets.run_context import RunContext
from lakerunner_assets.segments.metric_values import read_metric_segment
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.segment_file import read_label_map
from resources.lake.timecut import DAY_NS, HOUR_NS
from tests.support.cooking_lake import HOUR, Lake, lake_in

Row = tuple[tuple[str, str], ...]


class CompactingLake:
    def __init__(self, folder: Path, signal: Signal) -> None:
        self.lake: Lake = lake_in(folder)
        self.signal = signal
        self.report = Report()
        self.now_s = time.time()

    @property
    def index(self):  # type: ignore[no-untyped-def]
        return self.lake.index

    def run_context(self) -> RunContext:
        made: RunContext = self.lake.run_context()  # type: ignore[assignment]
        return made

    def cook(self, name: str, data: bytes, hour: int = HOUR) -> list[HourChange]:
        self.lake.arrive(name, data, hour, signal=self.signal)
        return self.lake.cook(self.signal)

    def compact(self, *hours: int) -> list[MergeChange]:
        """These hours, as hours that are over; without any, what is due by itself."""
        scope = Scope({"acme": frozenset(hours)}) if hours else Scope()
        return list(compact(self.run_context(), self.signal, self.report, scope))

    def carve(self, *hours: int) -> frozenset[str]:
        return carve(self.run_context(), self.signal, "acme", 0, self.signal.value, hours, pause_s=0.0)

    def rebuild(self, *hours: int) -> list[HourChange]:
        return list(rebuild(self.lake.run_context(), self.signal, "acme", hours, False, self.lake.report))

    def segments(self) -> list[Segment]:
        start = HOUR // DAY_NS * DAY_NS
        view = self.index.tier_view("acme", self.signal, [0], start - 30 * DAY_NS, start + 30 * DAY_NS)
        return list(view.segments)

    def widths(self) -> list[int]:
        """In hours."""
        return sorted(s.width_ns // HOUR_NS for s in self.segments())

    def rows(self) -> Counter[Row]:
        """Every live row with all it says, attributes under their original names."""
        found: Counter[Row] = Counter()
        for segment in self.segments():
            path = self.lake.folder / "lake" / segment.key
            names = {c.column: f"{c.scope}.{c.key}.{c.kind}" for c in read_label_map(pq.read_metadata(path))}
            table = read_metric_segment(path) if self.signal is Signal.METRICS else pq.read_table(path)
            assert table.num_rows == segment.rows
            for row in table.to_pylist():
                said = ((names.get(k, k), repr(v)) for k, v in row.items() if v is not None)
                found[tuple(sorted(said))] += 1
        return found
