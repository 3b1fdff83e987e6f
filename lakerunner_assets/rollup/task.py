"""A Spark task fetches segments, rolls them up and puts the result into the lake.

Of hours and days it also writes how many series and label values each metric had. A segment that cannot be
read fails this partition only, by name.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from lakerunner_assets.lake_files import fetch_segments, put_segment
from lakerunner_assets.rollup import cardinality
from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.rollup.checks import totals
from lakerunner_assets.rollup.parts import RollupSegment
from lakerunner_assets.rollup.units import RollAnswer, RollFault, RollUnit, decode_unit, encode, roll_id
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_assets.task_results import SegmentAnswer
from resources.lake import series
from resources.lake.cardinality import read
from resources.lake.frequency import AS_SENT, CARDINALITY_DATASET, DAY, HOUR, rollup_of
from resources.lake.layout import segment_key
from resources.lake.timecut import DAY_NS, hour_of_day
from resources.objects.client import ObjectStore
from resources.objects.errors import NotFoundError, StoreError
from resources.objects.store import open_store
from resources.settings import Settings

COLLECTOR = "all"
"""Collector of all rollups: a series may come in through several."""
NS_PER_MS = 1_000_000


def roll(payload: bytes) -> bytes:
    """Roll up one encoded unit; return an encoded answer."""
    unit = decode_unit(payload)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="lakerunner-roll-") as folder:
            segments, unequal = Round(unit, Path(folder)).run()
    except NotFoundError as error:
        return encode(RollAnswer(unit.batch_id, fault=RollFault.GONE, error=str(error)))
    except StoreError as error:
        return encode(RollAnswer(unit.batch_id, fault=RollFault.STORE, error=str(error)))
    except (ValueError, OSError, pa.ArrowException) as error:
        return encode(RollAnswer(unit.batch_id, fault=RollFault.SOURCE, error=str(error)))
    seconds = time.monotonic() - started
    return encode(RollAnswer(unit.batch_id, tuple(segments), seconds=seconds, unequal=unequal))


class Round:
    """One partition, in a folder of its own."""

    def __init__(self, unit: RollUnit, folder: Path) -> None:
        self._unit = unit
        self._folder = folder
        self._lake: ObjectStore = open_store(unit.lake_url, Settings.load())
        self._dataset = rollup_of(unit.target_ms).dataset

    def run(self) -> tuple[list[SegmentAnswer], str]:
        """Return the segments, and their difference from the sources, if any."""
        unit = self._unit
        sources = fetch_segments(self._lake, unit.sources, self._folder)
        written = roll_up(
            RollupRequest(
                sources=sources,
                source_ms=unit.source_ms,
                target_ms=unit.target_ms,
                start_ns=unit.start_ns,
                width_ns=unit.width_ns,
                folder=self._folder,
                org=unit.org,
                collector=COLLECTOR,
                dataset=self._dataset,
                target_bytes=unit.target_bytes,
                memory_bytes=unit.memory_bytes,
                name=lambda part: roll_id(unit, self._dataset, part),
            )
        )
        unequal = self._compare(sources, written) if unit.source_ms != AS_SENT else ""
        side = self._cardinality(written) if unit.target_ms in (HOUR, DAY) and written else []
        mine = [self._put(self._dataset, each.part, each.path, each.facts) for each in written]
        return [*mine, *side], unequal

    def _compare(self, sources: Sequence[Path], written: Sequence[RollupSegment]) -> str:
        """Compare rollups with their sources; of samples one per millisecond counts, so they are not
        compared.
        """
        start, end = self._unit.start_ns, self._unit.start_ns + self._unit.width_ns
        below, mine = totals(sources, start, end), totals([each.path for each in written], start, end)
        return "" if mine.agrees(below) else f"{mine} built from {below}"

    def _cardinality(self, written: tuple[RollupSegment, ...]) -> list[SegmentAnswer]:
        end_ms = (self._unit.start_ns + self._unit.width_ns) // NS_PER_MS
        if self._unit.target_ms == DAY:
            hours = fetch_segments(self._lake, self._unit.side, self._folder)
            counted = cardinality.day_rows((read(path) for path in hours), end_ms)
        else:
            counted = cardinality.hour_rows((_series_table(each) for each in written), end_ms)
        identity = SegmentIdentity(
            self._unit.org,
            COLLECTOR,
            CARDINALITY_DATASET,
            self._unit.start_ns,
            roll_id(self._unit, CARDINALITY_DATASET, 0),
        )
        path = self._folder / "cardinality.parquet"
        facts = cardinality.write(counted, path, identity)
        return [] if facts is None else [self._put(CARDINALITY_DATASET, 0, path, facts)]

    def _put(self, dataset: str, part: int, path: Path, facts: WrittenSegment) -> SegmentAnswer:
        unit = self._unit
        name = roll_id(unit, dataset, part)
        hour = None if unit.width_ns >= DAY_NS else hour_of_day(unit.start_ns)
        key = segment_key(unit.org, COLLECTOR, dataset, unit.start_ns, hour, name)
        put_segment(self._lake, key, path)
        path.unlink()
        return SegmentAnswer(unit.batch_id, name, key, COLLECTOR, dataset, unit.start_ns, facts)


def _series_table(written: RollupSegment) -> pa.Table:
    with written.path.open("rb") as file:
        file.seek(written.facts.series_offset)
        return series.read_table(file.read(written.facts.series_length), written.facts.rows)
