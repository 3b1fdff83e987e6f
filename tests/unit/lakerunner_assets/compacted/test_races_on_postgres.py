"""Cooking, compaction, rebuilding and carving of the same hours at the same time, on a real index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakerunner_assets.compacted import due
from lakerunner_assets.compacted.due import Scope
from lakerunner_assets.compacted.report import Report
from lakerunner_assets.compacted.run import compact
from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.index.types import PublishConflictError
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.compacted.compacting_lake import CompactingLake
from tests.support.patience import wait_for
from tests.unit.lakerunner_assets.compacted.test_compacting import DAY, payload

HOURS = frozenset({DAY, DAY + HOUR_NS})


@contextmanager
def racing(*acts: Callable[[], object]) -> Iterator[None]:
    """Each again and again, until the block ends; nothing may fail."""
    stop = threading.Event()

    def loop(act: Callable[[], object]) -> None:
        while not stop.is_set():
            act()
            time.sleep(0.01)

    with ThreadPoolExecutor(len(acts)) as pool:
        running = [pool.submit(loop, act) for act in acts]
        try:
            yield
        finally:
            stop.set()
    for each in running:
        each.result()


def compacting(lake: CompactingLake, report: Report) -> None:
    list(compact(lake.run_context(), lake.signal, report, Scope({"acme": HOURS})))


def unless_out_of_date(act: Callable[[], object]) -> None:
    """All plans may have been out of date: allowed, nothing changed."""
    try:
        act()
    except PublishConflictError:
        time.sleep(0.1)


@pytest.mark.integration
@pytest.mark.parametrize("signal", [Signal.LOGS, Signal.METRICS])
def test_no_row_is_lost_or_doubled_whoever_comes_first(
    tmp_path: Path, postgres_index: PostgresIndex, signal: Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "due_rollups", lambda *_: [])  # so that days of metrics are sealed in between
    lake = CompactingLake(tmp_path, signal)
    lake.lake.index = postgres_index  # type: ignore[assignment]
    postgres_index.create_organisation("acme")
    postgres_index.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    for number in range(4):
        lake.cook(f"{number}", _rows(signal, number), DAY)
    reports = [Report(), Report()]
    with racing(
        lambda: compacting(lake, reports[0]),
        lambda: compacting(lake, reports[1]),
        lambda: unless_out_of_date(lambda: lake.rebuild(*HOURS)),
        lambda: unless_out_of_date(lambda: lake.carve(DAY)),
    ):
        for number in range(4, 16):
            lake.cook(f"{number}", _rows(signal, number), DAY)
            time.sleep(0.1)
        wait_for(lambda: any(report.merges for report in reports), "a merge")
        if signal is Signal.METRICS:
            wait_for(lambda: any(report.reasons["seal"] for report in reports), "a sealed day")
    assert not any(report.failed for report in reports)
    found = {(dict(row)["chq_object"], dict(row)["chq_position"]): n for row, n in lake.rows().items()}
    assert set(found.values()) == {1}
    assert len(found) == 16 * 6


def _rows(signal: Signal, number: int) -> bytes:
    return payload(
        signal, number, [DAY + h * HOUR_NS + number * 10**9 + i for h in (0, 1) for i in (1, 2, 3)]
    )
