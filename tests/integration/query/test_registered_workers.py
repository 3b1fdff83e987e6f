"""A worker that registers is found by its lease, and gone when it ends or falls silent."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from lakerunner_query.coordinator.workers import WorkerFinder
from resources.index.worker_leases import beat, live_workers, withdraw
from tests.support.frozen import frozen
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import Lake, WorkerProcess, free_port, worker_settings

pytestmark = pytest.mark.integration


def test_a_worker_registers_once_it_is_ready_and_withdraws_when_it_ends(
    tmp_path: Path, index_dsn: str
) -> None:
    lake, port = Lake(tmp_path / "lake"), free_port()
    url = f"http://127.0.0.1:{port}"
    settings = replace(
        worker_settings(tmp_path / "data", lake.folder, port), index_dsn=index_dsn,
        worker_advertise_url=url + "/", worker_lease_s=1.5,
    )  # fmt: skip
    worker = WorkerProcess(settings)
    try:
        wait_for(lambda: live_workers(index_dsn, 1e6) == (url,), "the lease")
        worker.wait_ready()
        worker.process.send_signal(signal.SIGTERM)
        worker.process.wait(PATIENCE_S)
        assert live_workers(index_dsn, 1e6) == ()
    finally:
        worker.kill()


def test_leases_run_out_and_the_last_workers_stay_while_the_index_is_away(index_dsn: str) -> None:
    beat(index_dsn, "http://a")
    beat(index_dsn, "http://b")
    assert live_workers(index_dsn, 1e6) == ("http://a", "http://b")
    assert live_workers(index_dsn, 0.0) == ()
    seen: list[tuple[str, ...]] = []
    finder = WorkerFinder(("index://",), seen.append, index_dsn, lease_s=1e6)

    async def look() -> None:
        await finder.look()
        with frozen(index_dsn):
            await finder.look()
        withdraw(index_dsn, "http://a")
        await finder.look()

    asyncio.run(look())
    assert seen == [("http://a", "http://b")], "one that left is kept for the length of a lease"
