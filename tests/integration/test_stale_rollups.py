"""Late rows are published while rollups are built and queries run: no query counts a row too few or too many.

A query here takes, hour by hour, the coarsest rollup that is current in its snapshot, as the planner does.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.index.types import TierView
from resources.lake.currency import current_partitions
from resources.lake.frequency import DAY, ROLLUPS
from resources.lake.layout import Signal
from resources.lake.rollup_columns import filled
from resources.lake.timecut import DAY_NS, HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.patience import PATIENCE_S
from tests.support.rolling_lake import DAY as DAY_START
from tests.support.rolling_lake import FREQUENCIES, arrive, gauge, roll, roll_hours

pytestmark = pytest.mark.integration
HOURS = tuple(HOUR + number * HOUR_NS for number in range(3))
LATE_OBJECTS = 15


@pytest.fixture
def lake(tmp_path: Path, postgres_index: PostgresIndex) -> Lake:
    made = replace(lake_in(tmp_path), index=postgres_index)  # type: ignore[arg-type]
    postgres_index.create_organisation("acme")
    postgres_index.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    return made


def count(lake: Lake, used: Counter[int]) -> int:
    """Samples of the day, from whatever is current at this moment."""
    view = lake.index.tier_view("acme", Signal.METRICS, FREQUENCIES, DAY_START, DAY_START + DAY_NS)
    current = current_partitions(view.partitions)
    if DAY_START in current[DAY]:
        used[DAY] += 1
        return _counted(lake, view, DAY, DAY_START)
    total = 0
    for hour in HOURS:
        frequency = max(f for f in FREQUENCIES[:-1] if hour in current[f])
        used[frequency] += 1
        total += _counted(lake, view, frequency, hour)
    return total


def _counted(lake: Lake, view: TierView, frequency: int, start: int) -> int:
    total = 0
    for segment in view.segments:
        if (segment.frequency_ms, segment.hour_ns) == (frequency, start):
            table = pq.read_table(lake.folder / "lake" / segment.key)
            counts = filled(table).column("chq_rollup_count").to_pylist() if frequency else [table.num_rows]
            total += sum(counts)
    return total


def test_no_query_uses_a_stale_rollup(lake: Lake) -> None:  # noqa: C901 - three threads and what they share
    for number, hour in enumerate(HOURS):
        arrive(lake, f"first{number}", gauge([(hour + s * SECOND, 1.0) for s in range(10, 3600, 10)]), hour)
    lake.cook(Signal.METRICS)
    published = before = count(lake, Counter())
    lock = threading.Lock()
    starting = ending = published
    stop, met = threading.Event(), threading.Event()
    wrong: list[str] = []
    used: Counter[int] = Counter()

    def write() -> None:
        nonlocal starting, ending
        for number in range(LATE_OBJECTS):
            hour = HOURS[number % 3]
            moments = [(hour + (10 * s + 3) * SECOND, 2.0) for s in range(number, 360, 20)]
            arrive(lake, f"late{number}", gauge(moments), hour)
            with lock:
                ending += len(moments)
            lake.cook(Signal.METRICS)
            with lock:
                starting += len(moments)
            if number == LATE_OBJECTS // 2:  # late rows must meet a rollup in use, and some machines are slow
                met.wait(PATIENCE_S)
        stop.set()

    def build() -> None:
        while not stop.is_set():
            roll_hours(lake, *HOURS)
            roll(lake, DAY, DAY_START)

    def query() -> None:
        while not stop.is_set():
            with lock:
                least = starting
            found = count(lake, used)
            if any(rollup.frequency_ms in used for rollup in ROLLUPS):
                met.set()
            with lock:
                most = ending
            if not least <= found <= most:
                wrong.append(f"{found} samples, expected {least} to {most}")

    threads = [threading.Thread(target=each) for each in (write, build, query, query)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert wrong == []
    assert starting == ending > before
    roll_hours(lake, *HOURS)
    roll(lake, DAY, DAY_START)
    final: Counter[int] = Counter()
    assert count(lake, final) == ending
    assert final == {DAY: 1}
    assert met.is_set(), "the race never met a rollup"
