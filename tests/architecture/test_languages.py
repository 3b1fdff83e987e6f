"""A language is a value: a row that no other file knows of is planned, cut, dispatched, merged and explained.

The toy language counts the bytes of a text's words; its one unit per segment names the segment's key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec
import pytest

from lakerunner_query.coordinator import languages
from lakerunner_query.coordinator.engine import (
    Admission,
    Cut,
    Engine,
    Language,
    Limits,
    PreparedQuery,
    all_at_once,
)
from lakerunner_query.coordinator.explain import explain_segments
from lakerunner_query.coordinator.locate import Locator, Lookup
from lakerunner_query.errors import LimitExceededError, ParseError, QueryTimeoutError
from resources.index.types import CountQuery, Segment, SegmentQuery, Snapshot


@dataclass(frozen=True)
class ToyRequest:
    org: str
    timeout_s: float = 0.0


class ToyUnit(msgspec.Struct, frozen=True, tag="toy"):
    affinity: str
    words: tuple[str, ...]
    key: str


@dataclass
class Sum:
    """Adds up the answers; full at the tenth byte."""

    total: int = 0
    is_small: bool = True

    @property
    def is_full(self) -> bool:
        return self.total >= 10

    def add(self, answer: int) -> int:
        self.total += answer
        return answer

    def result(self) -> int:
        return self.total


def plan(text: str, _request: ToyRequest, limits: Limits) -> tuple[str, ...]:
    if not text.isascii():
        raise ParseError("only ASCII, please")
    if len(text) > limits.max_rows:
        raise LimitExceededError("too long")
    return tuple(text.split())


def lookup(_: tuple[str, ...], request: ToyRequest) -> Lookup:
    return Lookup((SegmentQuery(request.org, "toys", 0, 0, 10),))


def cut(query: PreparedQuery[Any, tuple[str, ...], int, int], _workers: int, _: Limits) -> Cut:
    return all_at_once([ToyUnit("", query.plan, one.key) for one in query.distinct_segments])


def explain(query: PreparedQuery[Any, Any, Any, Any], cut: Cut) -> Iterator[str]:
    yield f"words: {len(query.plan)}"
    yield from explain_segments(query, cut)


TOY: Language[ToyRequest, tuple[str, ...], int, int] = Language(
    name="toy", dataset="toys", plan=plan, lookup=lookup, cut=cut, decode=int, merge=lambda *_: Sum(),
    explain=explain, advice="use fewer words",
)  # fmt: skip


class Index:
    def snapshot(
        self, questions: Sequence[SegmentQuery], _tiers: object, counted: CountQuery | None
    ) -> Snapshot:
        (query,) = questions
        assert (query.org, query.dataset) == ("acme", "toys")
        one = msgspec.convert(dict.fromkeys([field.name for field in fields(Segment)]), dict[str, Any])
        return Snapshot(
            (tuple(Segment(**one | {"segment_id": key, "key": key, "min_ns": 0}) for key in "abc"),),
            live=None if counted is None else 40,
        )


class Workers:
    """Answers the bytes of the words, after a while."""

    count = 2

    def __init__(self, wait_s: float = 0.0) -> None:
        self.done: list[str] = []
        self.is_closed = False
        self._wait_s = wait_s

    async def run(
        self, units: Iterable[ToyUnit], decode: Callable[[bytes], int], *, org: str, ahead: int
    ) -> AsyncGenerator[int, None]:
        assert ahead == 3
        try:
            for unit in units:
                await asyncio.sleep(self._wait_s)
                self.done.append(unit.key)
                yield decode(b"%d" % sum(map(len, unit.words)))
        finally:
            self.is_closed = True


def engine(workers: Workers) -> Engine:
    index: Any = Index()
    dispatcher: Any = workers
    return Engine(Locator(index), dispatcher, Admission(1), Limits(5.0, max_rows=20))


def ask(text: str, workers: Workers, request: ToyRequest = ToyRequest("acme")) -> int:
    async def answer() -> int:
        one = engine(workers)
        return await one.collect(await one.prepare(TOY, text, request))

    return asyncio.run(answer())


def test_a_toy_language_is_answered_in_order_and_stops_when_it_is_full() -> None:
    workers = Workers()
    assert ask("a bc", workers) == 9
    assert workers.done == ["a", "b", "c"]
    workers = Workers()
    assert ask("a bcdef", workers) == 12
    assert workers.done == ["a", "b"]
    assert workers.is_closed


def explained(*, is_explained: bool) -> str:
    async def explanation() -> str:
        one = engine(Workers())
        return one.explain(await one.prepare(TOY, "a bc", ToyRequest("acme"), is_explained=is_explained))

    return asyncio.run(explanation())


def test_it_is_explained_from_the_snapshot_of_the_query() -> None:
    assert explained(is_explained=True) == (
        "words: 2\nsegments: 40 live, 37 pruned by time and terms, 3 may match"
    )
    assert explained(is_explained=False) == ("words: 2\nsegments: 3 may match; the live ones are not counted")


def test_its_errors_and_its_advice_reach_the_caller() -> None:
    with pytest.raises(ParseError, match="only ASCII"):
        ask("é", Workers())
    with pytest.raises(LimitExceededError):
        ask("a" * 21, Workers())
    workers = Workers(wait_s=1.0)
    with pytest.raises(QueryTimeoutError, match=r"no answer after 0\.05 s: use fewer words"):
        ask("a", workers, replace(ToyRequest("acme"), timeout_s=0.05))
    assert workers.is_closed


@pytest.mark.parametrize("language", languages.LANGUAGES, ids=lambda one: one.name)
def test_every_row_of_the_registry_is_complete(language: Language[Any, Any, Any, Any]) -> None:
    assert all(getattr(language, field.name) for field in fields(Language))
    rows = [one for one in vars(languages).values() if isinstance(one, Language)]
    assert {one.name for one in rows} == {one.name for one in languages.LANGUAGES}
    assert len({one.name for one in rows}) == len(rows)
