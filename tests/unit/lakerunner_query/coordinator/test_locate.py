"""Questions to the index end in time, whatever the index does with the threads that ask."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest

from lakerunner_query.coordinator.locate import LOOKUPS, Locator, Lookup
from lakerunner_query.errors import IndexUnavailableError
from resources.index import postgres
from resources.index.account_types import ApiKey
from resources.index.types import SegmentQuery, Snapshot
from tests.support.patience import PATIENCE_S

LOOKUP = Lookup((SegmentQuery("acme", "logs", 0, 0, 1), None))
KEY = ApiKey("acme", "read", "k")


class Index:
    """An index that hangs in look-ups while it is frozen, and raises what it is told to."""

    def __init__(self) -> None:
        self.thawed = threading.Event()
        self.errors: list[Exception] = []
        self.calls = 0

    def snapshot(self, questions: list[SegmentQuery], *_: object) -> Snapshot:
        self.calls += 1
        self.thawed.wait(PATIENCE_S)
        if self.errors:
            raise self.errors.pop()
        return Snapshot(((),) * len(questions))

    def find_api_key(self, _: bytes) -> ApiKey:
        return KEY


@pytest.fixture
def index() -> Iterator[Index]:
    found = Index()
    yield found
    found.thawed.set()


def run(index: Index, act: Callable[[Locator], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        locator = Locator(cast("Any", index))
        try:
            return await act(locator)
        finally:
            index.thawed.set()
            locator.close()

    return asyncio.run(whole())


async def look_up(locator: Locator, within_s: float) -> str:
    deadline = asyncio.get_running_loop().time() + within_s
    try:
        found = await locator.look_up(LOOKUP, deadline)
    except IndexUnavailableError as error:
        return error.message
    assert found.segments == ((), ())
    return "answered"


def test_queries_leave_a_frozen_index_at_their_deadlines_and_keys_are_still_checked(index: Index) -> None:
    async def act(locator: Locator) -> tuple[list[str], ApiKey | None]:
        asking = asyncio.gather(*(look_up(locator, 0.2) for _ in range(5 * LOOKUPS)))
        await asyncio.sleep(0.05)
        key = await locator.api_key(b"")
        return await asking, key

    answers, key = run(index, act)
    assert {answer.partition(";")[0] for answer in answers} == {"the segment index does not answer"}
    assert key == KEY
    assert index.calls == LOOKUPS, "what waited for a thread was dropped"


def test_an_index_that_thaws_answers_again(index: Index) -> None:
    async def act(locator: Locator) -> list[str]:
        await asyncio.gather(*(look_up(locator, 0.05) for _ in range(2 * LOOKUPS)))
        index.thawed.set()
        return await asyncio.gather(*(look_up(locator, PATIENCE_S) for _ in range(2 * LOOKUPS)))

    assert run(index, act) == ["answered"] * 2 * LOOKUPS


def test_a_lost_connection_is_asked_again_once_and_a_late_answer_is_not(index: Index) -> None:
    index.thawed.set()
    lost, late = postgres.IndexUnavailableError("closed"), postgres.IndexTimeoutError("no answer for 10 s")
    for errors, calls, outcome in (
        ([lost], 2, "answered"),
        ([lost, lost], 2, "the segment index"),
        ([late], 1, "the segment index"),
    ):
        index.errors, index.calls = list(errors), 0
        assert run(index, lambda locator: look_up(locator, PATIENCE_S)).startswith(outcome)
        assert index.calls == calls


def test_a_query_that_contradicts_itself_asks_nothing(index: Index) -> None:
    found = run(index, lambda locator: locator.look_up(Lookup((None, None)), 0.0))
    assert (found, index.calls) == (Snapshot(((), ())), 0)
