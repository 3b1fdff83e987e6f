"""Loaded series as segments of a lake: written as ingestion writes them, read as a worker reads them.

No Kafka, Spark or index: what is tested is that samples come back from Parquet exactly.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_query.histogram.model import CUSTOM, Buckets, Histogram
from lakerunner_query.promql.context import SourceAnswer
from lakerunner_query.protocol.units import RollupRef, SegmentRef
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Series
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.metrics.shards import Shard
from lakerunner_query.worker.shared.block_cache import BlockCache
from resources.duckdb import Cancellation
from resources.lake import streams
from resources.lake.frequency import ROLLUPS, Rollup
from resources.lake.timecut import DAY_NS, cut
from resources.objects.store import open_store
from resources.settings import Settings
from tests.golden.memory_source import MemorySource, Sample

NS_PER_MS = 1_000_000
STALE_BITS = 0x7FF0000000000002


@dataclass(slots=True)
class LakeFiles(MemorySource):
    """Segments are written anew when a query finds that something was loaded."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="lakerunner-golden-")))
    width_ns: int = DAY_NS
    """What of a series lies in one segment."""
    with_rollups: bool = False
    served: Counter[int] = field(default_factory=Counter)
    """Rows of rollups that were read, by frequency."""
    _written: int = -1
    _rollups: tuple[RollupRef, ...] = ()
    _segments: tuple[SegmentRef, ...] = ()
    _opener: MetricOpener | None = None

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        with self.source() as source:
            return source.select(matchers, from_ms, to_ms)

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        if not self.with_rollups:
            return None
        with self.source() as source:
            found = source.over_windows(function, matchers, grid)
            self.served.update(source.rollups.reader.rollup_rows)
            return found

    @contextmanager
    def source(self, shard: Shard | None = None) -> Iterator[LakeSource]:
        """All series that are loaded, or a shard of them."""
        state = sum(map(len, self.series.values()))
        if state != self._written:
            self._segments, self._written = self._write(), state
            self._rollups = self._roll_up() if self.with_rollups else ()
        opener = self._opened()
        with opener.open_unit(Cancellation()) as reading:
            numbering = opener.interner.numbers()
            yield LakeSource(reading, self._segments, numbering, self._rollups, starts=True, shard=shard)
            assert not reading.missing, reading.missing

    def _roll_up(self) -> tuple[RollupRef, ...]:
        """All frequencies of all days, each from the one below it; all partitions are current."""
        days = sorted({cut(segment.max_ns, DAY_NS) for segment in self._segments})
        sources = {day: [s for s in self._segments if cut(s.max_ns, DAY_NS) == day] for day in days}
        found: list[RollupRef] = []
        for rollup in ROLLUPS:
            finer, sources = sources, {}
            for day in days:
                sources[day] = self._rolled(rollup, day, finer[day])
            starts = [s for day in days for s in range(day, day + DAY_NS, rollup.partition_ns)]
            segments = tuple(segment for day in days for segment in sources[day])
            found.append(RollupRef(rollup.frequency_ms, tuple(starts), segments))
        return tuple(found)

    def _rolled(self, rollup: Rollup, day: int, sources: Sequence[SegmentRef]) -> list[SegmentRef]:
        folder = self.folder / "lake" / "db"
        serial = len(list(self.folder.rglob("*.parquet")))
        request = RollupRequest(
            [self.folder / "lake" / source.key for source in sources],
            rollup.source_ms, rollup.frequency_ms, day, DAY_NS, folder, "acme", "golden", rollup.dataset,
            1 << 30, 1 << 28, lambda part: f"r{id(self):x}-{serial}-{part}",
        )  # fmt: skip
        return [_ref(made.path.stem, f"db/{made.path.name}", made.facts) for made in roll_up(request)]

    def clear(self) -> None:
        self.series.clear()
        self._written = -1

    def _opened(self) -> MetricOpener:
        if self._opener is None:
            store = open_store(f"file://{self.folder}/lake", Settings.load({}))
            cache = BlockCache(self.folder / "cache", 1 << 30, store)
            self._opener = MetricOpener(cache, 1 << 28)
        return self._opener

    def _write(self) -> tuple[SegmentRef, ...]:
        windows: dict[int, list[tuple[Labels, Sample]]] = {}
        for labels, samples in self.series.items():
            for sample in samples:
                windows.setdefault(cut(sample.time_ms * NS_PER_MS, self.width_ns), []).append(
                    (labels, sample)
                )
        return tuple(self._segment(start, rows) for start, rows in sorted(windows.items()))

    def _segment(self, start_ns: int, rows: list[tuple[Labels, Sample]]) -> SegmentRef:
        name = f"g{id(self):x}-{len(list(self.folder.rglob('*.parquet')))}"
        key = f"db/acme/golden/{name}.parquet"
        path = self.folder / "lake" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        identity = SegmentIdentity("acme", "golden", "metrics", start_ns, name)
        written = write_metric_segment([sample_table(rows)], path, identity)
        return _ref(name, key, written)


def _ref(name: str, key: str, written: WrittenSegment) -> SegmentRef:
    return SegmentRef(
        name, key, written.bytes, written.min_ns, written.max_ns,
        written.series_offset, written.series_length, written.rows,
    )  # fmt: skip


def sample_table(rows: Sequence[tuple[Labels, Sample]]) -> pa.Table:
    """As a decoder hands samples to the writer."""
    canonical = [streams.canonical(dict(labels)) for labels, _ in rows]
    samples = [sample for _, sample in rows]
    histograms = [sample.histogram for sample in samples]
    columns = {
        "metric_name": pa.array([dict(labels).get("__name__", "") for labels in canonical]),
        "chq_tid": pa.array([streams.stream_id(labels) for labels in canonical], pa.int64()),
        "chq_timestamp": pa.array([sample.time_ms for sample in samples], pa.int64()),
        "chq_metric_type": pa.array(["gauge" if h is None else "exponential_histogram" for h in histograms]),
        "chq_object": pa.array(np.zeros(len(rows), np.int64)),
        "chq_position": pa.array(np.arange(len(rows))),
        "chq_series": pa.array([streams.labels_to_text(labels) for labels in canonical]),
        "chq_value": _values(samples),
        "chq_start_tsns": pa.array([s.start_ms * NS_PER_MS or None for s in samples], pa.int64()),
    }
    if any(h is not None for h in histograms):
        columns |= _histogram_columns(histograms)
    return pa.table(columns)


def _values(samples: Sequence[Sample]) -> pa.Array:
    numbers = np.array([sample.number for sample in samples], np.float64)
    missing = np.array([sample.histogram is not None for sample in samples], np.bool_)
    return pa.array(numbers, mask=missing, from_pandas=False)


def _histogram_columns(histograms: Sequence[Histogram | None]) -> dict[str, pa.Array]:
    doubles, lists = pa.float64(), pa.list_(pa.float64())

    def each(kind: pa.DataType, what: object) -> pa.Array:
        return pa.array([None if h is None else what(h) for h in histograms], kind)  # type: ignore[operator]

    return {
        "chq_hist_count_float": each(doubles, lambda h: h.count),
        "chq_hist_sum": pa.array(
            np.array([0.0 if h is None else h.sum for h in histograms]),
            mask=np.array([h is None for h in histograms]),
            from_pandas=False,
        ),
        "chq_hist_schema": each(pa.int32(), lambda h: h.schema),
        "chq_hist_bounds": each(lists, lambda h: list(h.bounds) if h.schema == CUSTOM else None),
        "chq_hist_zero_count_float": each(doubles, lambda h: h.zero_count),
        "chq_hist_zero_threshold": each(doubles, lambda h: h.zero_threshold),
        "chq_hist_positive_offset": each(pa.int32(), lambda h: _first(h, h.positive)),
        "chq_hist_positive_counts_float": each(lists, lambda h: _dense(h.positive)),
        "chq_hist_negative_offset": each(pa.int32(), lambda h: _first(h, h.negative)),
        "chq_hist_negative_counts_float": each(lists, lambda h: _dense(h.negative)),
        "chq_hist_reset_hint": each(pa.int32(), lambda h: int(h.hint)),
    }


def _first(histogram: Histogram, side: Buckets) -> int:
    """OpenTelemetry numbers exponential buckets by their lower bound, Prometheus by the upper one."""
    if not side.size:
        return 0
    return int(side.index[0]) - (histogram.schema != CUSTOM)


def _dense(side: Buckets) -> list[float]:
    if not side.size:
        return []
    counts = np.zeros(int(side.index[-1] - side.index[0]) + 1)
    counts[side.index - side.index[0]] = side.count
    return counts.tolist()
