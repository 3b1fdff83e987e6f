"""P12 through the engine: `sum by (x) (rate(m[1h]))`, step 1 h, with the 1 h rollup and without it.

As `benchmarks.tiers.p12` on kernels alone, here with everything between the text of the query and the text of
the answer: parsing, slices, series tables, Parquet, evaluation, rendering, joining. One process, nothing
decoded before.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from benchmarks.promql.fuzz_compare import Likeness, Tolerance, answer_of, likeness
from benchmarks.report import Record
from benchmarks.tiers import p12
from lakerunner_query.api.prometheus import render
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.fairness import Admission
from lakerunner_query.worker.metrics.promql_units import MetricScanner
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from resources.index.types import Partition, Segment, SegmentQuery, Snapshot, TierQuery, TierView
from resources.lake.frequency import AS_SENT, DAY, HOUR, ROLLUPS
from resources.lake.layout import Signal
from resources.lake.segment_file import read_facts
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.objects.store import open_store
from resources.settings import Settings
from tests.golden.engine_lake import ORG, LocalDispatcher, Segments

QUERY = "sum by (x) (rate(m[1h]))"


class Tiers(Segments):
    """An index in which every rollup is current, as far as there is one."""

    def __init__(self, samples: Sequence[Segment], rollups: Sequence[Segment], days: int) -> None:
        super().__init__()
        self.rows = list(samples)
        self._rollups = tuple(rollups)
        start = p12.START_MS * p12.NS_PER_MS
        hours = range(start, start + days * DAY_NS, HOUR_NS)
        frequencies = (AS_SENT, *(r.frequency_ms for r in ROLLUPS if r.partition_ns == HOUR_NS))
        self._partitions = tuple(
            Partition(ORG, Signal.METRICS, frequency, hour, 1, {hour: 1} if frequency else {}, 0)
            for frequency in frequencies
            for hour in hours
        )

    def snapshot(
        self, questions: Sequence[SegmentQuery], _tiers: TierQuery | None = None, _counted: object = None
    ) -> Snapshot:
        """All hold the metric that is asked for."""
        found = (
            tuple(s for s in self.rows if s.min_ns <= one.end_ns and s.max_ns >= one.start_ns)
            for one in questions
        )
        tiers = TierView(self._partitions, self._rollups) if self._rollups else TierView((), ())
        return Snapshot(tuple(found), tiers)


def measure(days: int, series: int) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="lakerunner-p12-") as scratch:
        folder = Path(scratch)
        (folder / "lake").mkdir()
        samples, rollups = p12._lake(folder / "lake", days, series)  # noqa: SLF001
        rows = [_segment(path, AS_SENT) for path in samples]
        rolled = [_segment(path, HOUR) for path in rollups]
        asked = PromQLRequest(ORG, p12.START_MS + 2 * HOUR, p12.START_MS + days * DAY, HOUR)
        _timed(
            folder, Tiers(rows[:1], [], 1), PromQLRequest(ORG, asked.start_ms, asked.start_ms + HOUR, HOUR)
        )
        _timed(folder, Tiers(rows, rolled, days), asked)  # kernels
        raw_seconds, raw = _timed(folder, Tiers(rows, [], days), asked)
        seconds, answer = _timed(folder, Tiers(rows, rolled, days), asked)
        found, why = likeness(answer, raw, Tolerance(1e-9, 1e-9))
        if found is Likeness.DIFFERENT:
            raise RuntimeError(f"the 1 h rollup says something else: {why}")
    ratio = raw_seconds / seconds
    what = "sum by (x) (rate(m[1h])) step 1 h through the engine: CPU from samples / CPU from the rollup"
    counters = {
        "days": days, "series": series,
        "samples_cpu_s": round(raw_seconds, 3), "rollup_cpu_s": round(seconds, 4),
        "points": sum(map(len, raw.series.values())), "load": round(os.getloadavg()[0], 2),
    }  # fmt: skip
    return [
        Record("P12-engine", what, ratio, "times", p12.MUST, p12.AIM, ratio >= p12.MUST, counters=counters)
    ]


def _timed(folder: Path, index: Tiers, asked: PromQLRequest) -> tuple[float, Any]:
    """CPU seconds of one question to an engine that has decoded nothing yet."""
    store = open_store(f"file://{folder}/lake", Settings.load({}))
    opener = MetricOpener(BlockCache(folder / "cache", 1 << 30, store), 1 << 28)
    engine = Engine(
        Locator(cast("Any", index)),
        cast("Dispatcher", LocalDispatcher(MetricScanner(opener), 1)),
        Admission(1),
        Limits(600.0),
    )
    began = time.process_time()

    async def answered() -> Any:
        return await engine.collect(await engine.prepare(PROMQL, QUERY, asked))

    joined = asyncio.run(answered())
    took = time.process_time() - began
    data, _ = render.result(joined, at_ms=None, limit=0, stats=b"")
    return took, answer_of({"data": json.loads(data)})


def _segment(path: Path, frequency_ms: int) -> Segment:
    facts = read_facts(pq.read_metadata(path))
    start = path.stem.rsplit("-", 1)[1]
    hour = (p12.START_MS + int(start) * DAY) * p12.NS_PER_MS
    return Segment(
        path.stem, path.name, ORG, "eu", Signal.METRICS, "metrics", frequency_ms, hour, DAY_NS,
        facts.min_ns, facts.max_ns, facts.rows, path.stat().st_size, 0, "", facts.format_version,
        facts.sort_version, (), (), (), facts.series_offset, facts.series_length, facts.bloom_offset,
        facts.bloom_length,
    )  # fmt: skip
