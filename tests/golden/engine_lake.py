"""The whole path of a metric query without processes: engine, slices, workers, joining; segments on disk.

Units and answers are encoded and decoded as if they travelled.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import pyarrow as pa

from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_query.coordinator.dispatch import Dispatcher
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.promql import SLICE_SIZES, PromQLRequest, cut_promql
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.slices import SampleSliceSizes
from lakerunner_query.protocol.answers import encode_metric_answer, encode_shard_answer
from lakerunner_query.protocol.units import MetricUnit, ShardUnit, Unit
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.promql_units import MetricScanner
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from resources.duckdb import Cancellation
from resources.index.types import CountQuery, Segment, SegmentQuery, Snapshot, TierQuery
from resources.lake import streams
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, cut
from resources.objects.store import open_store
from resources.settings import Settings

Answer = TypeVar("Answer")
NS_PER_MS = 1_000_000
ORG = "acme"


class Segments:
    """As much of an index as a metric query asks."""

    def __init__(self) -> None:
        self.rows: list[Segment] = []

    def snapshot(
        self,
        questions: Sequence[SegmentQuery],
        _tiers: TierQuery | None = None,
        counted: CountQuery | None = None,
    ) -> Snapshot:
        found = tuple(tuple(self._find(question)) for question in questions)
        return Snapshot(found, live=None if counted is None else len(self.rows))

    def _find(self, query: SegmentQuery) -> list[Segment]:
        found = [
            s
            for s in self.rows
            if s.min_ns <= query.end_ns
            and s.max_ns >= query.start_ns
            and all(set(alternatives) & set(s.terms) for alternatives in query.terms)
        ]
        return sorted(found, key=lambda s: (s.min_ns, s.segment_id))


class LocalDispatcher:
    """The contract of `Dispatcher`, without sockets."""

    def __init__(self, scanner: MetricScanner, count: int) -> None:
        self.count = count
        self.units = 0
        self._scanner = scanner

    async def run(
        self, units: Iterable[Unit], decode: Callable[[bytes], Answer], *, org: str, ahead: int = 1
    ) -> AsyncGenerator[Answer, None]:
        del org, ahead
        for unit in units:
            received: Any = msgspec.json.decode(msgspec.json.encode(unit), type=Unit)  # type: ignore[arg-type]
            self.units += 1
            yield decode(self._answer(received))

    def _answer(self, unit: MetricUnit | ShardUnit) -> bytes:
        if isinstance(unit, ShardUnit):
            return encode_shard_answer(self._scanner.shard(unit, Cancellation()))
        assert isinstance(unit, MetricUnit)
        return encode_metric_answer(self._scanner.run(unit, Cancellation()))


class EngineLake:
    """A lake of hour-wide segments, and questions to it."""

    def __init__(self, folder: Path, workers: int = 2, sizes: SampleSliceSizes | None = None) -> None:
        self.index = Segments()
        store = open_store(f"file://{folder}/lake", Settings.load({}))
        opener = MetricOpener(BlockCache(folder / "cache", 1 << 30, store), 1 << 28)
        self.dispatcher = LocalDispatcher(MetricScanner(opener), workers)
        self.engine = Engine(
            Locator(cast("Any", self.index)),
            cast("Dispatcher", self.dispatcher),
            Admission(4),
            Limits(600.0),
        )
        self.language = replace(PROMQL, cut=partial(cut_promql, sizes=sizes or SLICE_SIZES))
        self._folder = folder / "lake"
        self._serial = itertools.count()

    def write(self, series: Sequence[tuple[Labels, np.ndarray, np.ndarray]]) -> None:
        """Float samples: labels, milliseconds, values."""
        hours = sorted({cut(int(t) * NS_PER_MS, HOUR_NS) for _, times, _ in series for t in times})
        for hour in hours:
            low, high = hour // NS_PER_MS, (hour + HOUR_NS) // NS_PER_MS
            parts = [
                (labels, times[inside], values[inside])
                for labels, times, values in series
                if (inside := (times > low) & (times <= high)).any()
            ]
            self.write_table(hour, gauge_table(parts))

    def write_table(self, hour: int, table: pa.Table) -> None:
        """Write a segment of its own."""
        name = f"s{next(self._serial)}"
        key = f"db/{ORG}/golden/{name}.parquet"
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        written = write_metric_segment([table], path, SegmentIdentity(ORG, "golden", "metrics", hour, name))
        self.index.rows.append(_segment(name, key, hour, written))

    def ask(self, text: str, start_ms: int, end_ms: int, step_ms: int = 0) -> SampleResult:
        async def asked() -> SampleResult:
            prepared = await self.engine.prepare(
                self.language, text, PromQLRequest(ORG, start_ms, end_ms, step_ms)
            )
            return await self.engine.collect(prepared)

        return asyncio.run(asked())


def gauge_table(series: Sequence[tuple[Labels, np.ndarray, np.ndarray]]) -> pa.Table:
    """As a decoder hands float samples to the writer."""
    canonical = [streams.canonical(dict(labels)) for labels, _, _ in series]
    sizes = [len(times) for _, times, _ in series]
    rows = sum(sizes)

    def repeated(values: Sequence[object], kind: pa.DataType) -> pa.Array:
        codes = np.repeat(np.arange(len(series), dtype=np.int32), sizes)
        return pa.array(values, kind).take(pa.array(codes))

    return pa.table(
        {
            "metric_name": repeated([dict(labels).get("__name__", "") for labels in canonical], pa.string()),
            "chq_tid": repeated([streams.stream_id(labels) for labels in canonical], pa.int64()),
            "chq_timestamp": pa.array(np.concatenate([times for _, times, _ in series]).astype(np.int64)),
            "chq_metric_type": repeated(["gauge"] * len(series), pa.string()),
            "chq_object": pa.array(np.zeros(rows, np.int64)),
            "chq_position": pa.array(np.arange(rows)),
            "chq_series": repeated([streams.labels_to_text(labels) for labels in canonical], pa.string()),
            "chq_value": pa.array(np.concatenate([v for _, _, v in series]), from_pandas=False),
        }
    )


def _segment(name: str, key: str, hour: int, written: WrittenSegment) -> Segment:
    return Segment(
        segment_id=name, key=key, org=ORG, collector="golden", signal=Signal.METRICS, dataset="metrics",
        frequency_ms=0, hour_ns=hour, width_ns=HOUR_NS, min_ns=written.min_ns, max_ns=written.max_ns,
        rows=written.rows, bytes=written.bytes, level=0, origin="", format_version=written.format_version,
        sort_version=written.sort_version, terms=written.terms, label_names=written.label_names,
        metric_names=written.metric_names, series_offset=written.series_offset,
        series_length=written.series_length, bloom_offset=written.bloom_offset,
        bloom_length=written.bloom_length,
    )  # fmt: skip
