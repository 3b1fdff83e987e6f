"""The samples as a lake: segments as sealing or cooking leaves them, rollups, an index that knows them.

Two organisations have the same segments: `rolled` has rollups of them too, `bare` has none, but has the
counter of many series, which is not rolled up.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.promql.corpus import DAY_MS, END_MS, Floats, Hour
from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from resources.index.postgres import PostgresIndex
from resources.index.types import BatchKind, BatchPlan, BuiltPartition, Publication, Segment
from resources.lake import streams
from resources.lake.frequency import AS_SENT, ROLLUPS, rollup_of
from resources.lake.layout import Signal, segment_key
from resources.lake.timecut import DAY_NS, HOUR_NS, hour_of_day
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample

NS_PER_MS = 1_000_000
ROLLED, BARE = "rolled", "bare"
ORGS = (ROLLED, BARE)
COLLECTOR = "bench"


@dataclass(slots=True)
class LakeWriter:
    """Hours in order in, day-wide segments out once their day is over, hour-wide ones in the last day."""

    folder: Path
    index: PostgresIndex
    rows: int = 0
    bytes: int = 0
    _days: dict[int, list[pa.Table]] = field(default_factory=dict)
    _paths: dict[int, list[Path]] = field(default_factory=dict)
    """By start of the day in ns."""
    _serial: int = 0

    def add(self, hour: Hour) -> None:
        start_ns = hour.start_ms * NS_PER_MS
        for one in hour.many:
            self.write([table_of(one)], start_ns, HOUR_NS, (BARE,))
        tables = [table_of(one) for one in hour.floats]
        if hour.native:
            tables.append(_native_table(hour))
        if END_MS - hour.start_ms <= DAY_MS:
            for table in tables:  # a collector has more than one segment an hour
                self.write([table], start_ns, HOUR_NS)
        else:
            day = start_ns // DAY_NS * DAY_NS
            self._days.setdefault(day, []).extend(tables)
            if hour_of_day(start_ns) == 23:
                self.write(self._days.pop(day), day, DAY_NS)

    def finish(self) -> None:
        for day in sorted(self._days):
            self.write(self._days.pop(day), day, DAY_NS)

    def roll_up(self) -> None:
        """All rollups up to 1 h of `rolled`, each from the one below it."""
        for day, paths in sorted(self._paths.items()):
            sources: Sequence[Path] = paths
            for rollup in ROLLUPS:
                if rollup.partition_ns == HOUR_NS:
                    sources = self._rolled(rollup.frequency_ms, day, sources)

    def _rolled(self, frequency_ms: int, day: int, sources: Sequence[Path]) -> list[Path]:
        """One segment for the whole day, as compaction leaves it; every hour of it is current."""
        rollup = rollup_of(frequency_ms)
        made = roll_up(
            RollupRequest(
                sources, rollup.source_ms, frequency_ms, day, DAY_NS, self.folder / "rolling", ROLLED,
                COLLECTOR, rollup.dataset, 1 << 30, 512 << 20, lambda _: self._name(),
            )
        )  # fmt: skip
        segments, paths = [], []
        for each in made:
            key = segment_key(
                ROLLED, COLLECTOR, rollup.dataset, day, None, each.path.stem.removeprefix("tbl_")
            )
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            each.path.rename(path)
            paths.append(path)
            segments.append(_segment(ROLLED, key, day, DAY_NS, each.facts, rollup.dataset, frequency_ms))
        for place, start in enumerate(range(day, day + DAY_NS, HOUR_NS)):
            plan = BatchPlan(
                BatchKind.ROLLUP, ROLLED, COLLECTOR, Signal.METRICS, start, frequency_ms=frequency_ms
            )
            built = BuiltPartition(start, 0, {start: 1})
            mine = tuple(segments) if place == 0 else ()
            claim = self.index.create_claimed(plan)
            self.index.publish(Publication(claim, mine, frequency_ms=frequency_ms, built=(built,)))
        return paths

    def write(self, tables: list[pa.Table], start_ns: int, width_ns: int, orgs: Sequence[str] = ORGS) -> None:
        """One file, linked for the others."""
        first, rows = Path(), 0
        for org in orgs:
            name = self._name()
            hour = hour_of_day(start_ns) if width_ns == HOUR_NS else None
            key = segment_key(org, COLLECTOR, "metrics", start_ns, hour, name)
            path = self.folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            if not rows:
                identity = SegmentIdentity(org, COLLECTOR, "metrics", start_ns, name)
                written = write_metric_segment(tables, path, identity)
                first, rows = path, written.rows
            else:
                os.link(first, path)
            if org == ROLLED:
                self._paths.setdefault(start_ns // DAY_NS * DAY_NS, []).append(path)
            self._publish(_segment(org, key, start_ns, width_ns, written, "metrics", AS_SENT))
        self.rows, self.bytes = self.rows + written.rows, self.bytes + written.bytes

    def _publish(self, segment: Segment) -> None:
        """Each hour once, whatever there are of segments: version 1 is what rollups are built from."""
        hours = range(segment.hour_ns, segment.hour_ns + segment.width_ns, HOUR_NS)
        seen = self.index.tier_view(
            segment.org, Signal.METRICS, (AS_SENT,), segment.hour_ns, segment.hour_ns + segment.width_ns
        )
        known = {one.start_ns for one in seen.partitions}
        plan = BatchPlan(BatchKind.REBUILD, segment.org, COLLECTOR, Signal.METRICS, segment.hour_ns)
        claim = self.index.create_claimed(plan)
        changed = tuple(hour for hour in hours if hour not in known)
        self.index.publish(Publication(claim, (segment,), hours=changed))

    def _name(self) -> str:
        self._serial += 1
        return f"{self._serial:032x}"


def admit(index: PostgresIndex) -> None:
    """Both organisations, each with a key of its name."""
    for org in (ROLLED, BARE):
        index.create_organisation(org)
        index.create_api_key(org, "read", org, hashlib.sha256(org.encode()).digest(), None)


def table_of(floats: Floats) -> pa.Table:
    """As a decoder hands float samples to the writer."""
    canonical = [streams.canonical(dict(labels)) for labels in floats.labels]
    series, count = floats.value.shape
    codes = np.repeat(np.arange(series, dtype=np.int32), count)

    def coded(texts: Sequence[str], of_row: np.ndarray) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(of_row, pa.int32()), pa.array(texts, pa.string()))

    same = np.zeros(len(codes), np.int32)
    identities = np.array([streams.stream_id(each) for each in canonical], np.int64)
    return pa.table(
        {
            "metric_name": coded([dict(canonical[0])["__name__"]], same),
            "chq_tid": pa.array(identities[codes]),
            "chq_series": coded([streams.labels_to_text(each) for each in canonical], codes),
            "chq_timestamp": pa.array(floats.time_ms.ravel()),
            "chq_value": pa.array(floats.value.ravel()),
            "chq_metric_type": coded(["sum"], same),
            "metric_temporality": coded(["cumulative"], same),
            "chq_object": pa.array(np.full(len(codes), 1)),
            "chq_position": pa.array(np.arange(len(codes))),
        }
    )


def _native_table(hour: Hour) -> pa.Table:
    return sample_table(
        [
            (one.labels, Sample(time, 0.0, histogram))
            for one in hour.native
            for time, histogram in zip(one.time_ms.tolist(), one.histograms or (), strict=True)
        ]
    )


def _segment(
    org: str, key: str, start_ns: int, width_ns: int, written: WrittenSegment, dataset: str, frequency_ms: int
) -> Segment:
    return Segment(
        segment_id=key.rsplit("tbl_", 1)[1].removesuffix(".parquet"), key=key, org=org, collector=COLLECTOR,
        signal=Signal.METRICS, dataset=dataset, frequency_ms=frequency_ms, hour_ns=start_ns,
        width_ns=width_ns, min_ns=written.min_ns, max_ns=written.max_ns, rows=written.rows,
        bytes=written.bytes, level=0, origin="", format_version=written.format_version,
        sort_version=written.sort_version, terms=written.terms, label_names=written.label_names,
        metric_names=written.metric_names, series_offset=written.series_offset,
        series_length=written.series_length, bloom_offset=written.bloom_offset,
        bloom_length=written.bloom_length, settled=True,
    )  # fmt: skip
