"""Queries with several selectors over a real index in which segments are merged all the time."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from lakerunner_query.coordinator.languages import LOG_SAMPLES, STREAM_SIZES
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.names import StreamsRequest
from lakerunner_query.syntax import Matcher, MatchOp
from resources.index.postgres import PostgresIndex
from resources.lake.timecut import SECOND_NS
from tests.support.query.in_process import InProcess, compact, engine_over
from tests.support.query.lake import BASE, Lake, Line

pytestmark = pytest.mark.integration
SERVICES = ("web", "db", "mq", "api")
END_NS = BASE + 600 * SECOND_NS
ROUNDS = 40


def test_counts_stay_the_same_while_segments_are_merged(
    tmp_path: Path, postgres_index: PostgresIndex
) -> None:
    lake = Lake(tmp_path / "lake", postgres_index)
    postgres_index.create_organisation("acme")
    lines = [Line((n + 1) * SECOND_NS, f"line {n}", service) for n in range(20) for service in SERVICES]
    segment = lake.write("acme", lines)
    engine = engine_over(postgres_index, InProcess(lake.folder, tmp_path / "worker"))
    stop, merges = threading.Event(), []

    def merge_on() -> None:
        newest, number = segment, 0
        while not stop.is_set():
            number += 1
            newest = compact(lake, newest, number)
            merges.append(newest)

    text = " + ".join(f'sum(count_over_time({{service_name="{one}"}}[10m]))' for one in SERVICES)
    selectors = tuple((Matcher("service_name", MatchOp.EQUAL, one),) for one in SERVICES)

    async def ask() -> tuple[Any, Any]:
        prepared = await engine.prepare(LOG_SAMPLES, text, LogSamplesRequest("acme", END_NS, END_NS))
        found = await engine.collect(prepared)
        sizes = await engine.ask(STREAM_SIZES, StreamsRequest("acme", BASE, END_NS, selectors))
        return [one.floats for one in found.series], (sizes.rows, sizes.streams)

    expected = asyncio.run(ask())
    merging = threading.Thread(target=merge_on)
    merging.start()
    try:
        found = [asyncio.run(ask()) for _ in range(ROUNDS)]
    finally:
        stop.set()
        merging.join()
    assert merges
    assert [one for one in found if one != expected] == []
