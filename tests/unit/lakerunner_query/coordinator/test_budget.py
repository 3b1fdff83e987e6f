"""A query that takes too much from the object store is refused, with the number and what to narrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import LOG_LINES
from lakerunner_query.coordinator.locate import Locator
from lakerunner_query.coordinator.merge import RowMerge
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.fairness import Admission
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.protocol.units import UnitReport
from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Lake, Line


class Fetching:
    """Answers every unit three times over, each time for 60 bytes and 2 requests."""

    count = 1

    async def run(self, units: Iterable[object], *_: object, **__: object) -> AsyncGenerator[Any, None]:
        for _unit in units:
            for _ in range(3):
                yield ROWS.empty_table(), UnitReport(bytes_fetched=60, requests=2)


def ask(folder: Path, limits: Limits) -> RowMerge:
    lake = Lake(folder)
    lake.add_org("acme", "key")
    lake.write("acme", [Line(SECOND_NS, "one")])

    async def run() -> RowMerge:
        locator = Locator(cast("Any", lake.index))
        engine = Engine(locator, cast("Any", Fetching()), Admission(1), limits)
        try:
            request = LogLinesRequest("acme", BASE, BASE + 60 * SECOND_NS, 10)
            return await engine.collect(await engine.prepare(LOG_LINES, '{service_name="web"}', request))
        finally:
            locator.close()

    return asyncio.run(run())


def test_what_was_fetched_is_added_up(tmp_path: Path) -> None:
    found = ask(tmp_path, Limits(60.0, max_rows=10, max_fetch_bytes=180, max_fetch_requests=6))
    assert (found.bytes_fetched, found.requests) == (180, 6)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (
            Limits(60.0, max_rows=10, max_fetch_bytes=100),
            "took 120 bytes from the object store, more than 100",
        ),
        (Limits(60.0, max_rows=10, max_fetch_requests=5), "took 6 requests from the object store"),
    ],
)
def test_beyond_the_budget_a_query_is_refused(tmp_path: Path, limits: Limits, words: str) -> None:
    with pytest.raises(LimitExceededError, match=words) as error:
        ask(tmp_path, limits)
    assert "narrow" in error.value.message
