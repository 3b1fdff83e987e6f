"""A ruler over a small lake in one process, with a clock that the test moves and receivers that listen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import httpx
import msgspec

from lakerunner_query.coordinator.core import QueryCore
from lakerunner_query.coordinator.lakeql import LakeQL
from lakerunner_query.ruler.group import OwnGroup
from lakerunner_query.ruler.process import Ruler
from lakerunner_query.ruler.questions import Questions
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import RuleGroup
from resources.duckdb import DuckLimits, DuckSession
from resources.index.memory import MemoryIndex
from resources.settings import Settings
from tests.support.query.in_process import InProcess, engine_over
from tests.support.query.lake import Lake

Found = TypeVar("Found")


@dataclass
class Heard:
    """A request that a receiver got."""

    at_ms: int
    url: str
    body: Any
    headers: dict[str, str]


@dataclass
class RuledLake:
    """Evaluates all groups of an index at any time, and delivers what follows at once."""

    lake: Lake
    scratch: Path
    settings: Settings
    heard: list[Heard] = field(default_factory=list)
    answers: Callable[[httpx.Request], int] = lambda _: 200
    """Status with which receivers answer."""
    is_real: bool = False
    """True: notifications travel over the network."""
    now_ms: int = 0
    _workers: int = 0

    def __post_init__(self) -> None:
        self.runner = asyncio.Runner()
        self.questions = self.with_cold_workers()
        mock = None if self.is_real else httpx.MockTransport(self._hear)
        self.http = httpx.AsyncClient(transport=mock)
        self.ruler = self.new_ruler()

    def with_cold_workers(self) -> Questions:
        """Ask workers that have nothing in their caches."""
        self._workers += 1
        scratch = self.scratch / str(self._workers)
        engine = engine_over(self.lake.index, InProcess(self.lake.folder, scratch))

        def session() -> DuckSession:
            return DuckSession(DuckLimits(256, 1, scratch / "sql", ()))

        return Questions(cast("QueryCore", _Core(engine, LakeQL(engine, session, 3600))))

    def new_ruler(self) -> Ruler:
        """Make another process, which knows nothing of the first."""
        index = cast("MemoryIndex", self.lake.index)
        return Ruler(self.settings, index, self.questions, self.http, lambda: self.now_ms / 1000)

    def apply(self, org: str, namespace: str, *groups: RuleGroup) -> None:
        self.lake.index.change_rules(org, [put_of(group, namespace) for group in groups], None)

    def run(self, work: Awaitable[Found]) -> Found:
        async def awaited() -> Found:
            return await work

        return self.runner.run(awaited())

    def look(self) -> None:
        """Let the ruler claim its groups; none is evaluated by itself."""

        async def look() -> None:
            await self.ruler.look()
            for task in self.ruler._tasks.values():
                task.cancel()
            await asyncio.gather(*self.ruler._tasks.values(), return_exceptions=True)
            self.ruler._tasks.clear()

        self.run(look())

    def evaluate(self, at_ms: int, delay_s: float = 0.0) -> None:
        """Evaluate every group once, then deliver."""
        self.now_ms = at_ms + round(delay_s * 1000)
        for own in self.ruler.groups.values():
            own.follow()
            assert self.run(self.ruler._evaluate(own, at_ms, delay_s))
        self.deliver()

    def deliver(self) -> None:
        for courier in self.ruler.couriers:
            while self.run(courier.send_some()):
                pass

    def store(self) -> None:
        """Write the series of alerts as raw objects."""
        self.run(self.ruler.store())

    def own(self, name: str) -> OwnGroup:
        return next(one for one in self.ruler.groups.values() if one.group.name == name)

    def close(self) -> None:
        self.run(self.http.aclose())
        self.runner.close()

    def _hear(self, request: httpx.Request) -> httpx.Response:
        status = self.answers(request)
        if status < 300:
            body = msgspec.json.decode(request.content)
            self.heard.append(Heard(self.now_ms, str(request.url), body, dict(request.headers)))
        return httpx.Response(status, text="" if status < 300 else "not now")


@dataclass
class _Core:
    engine: Any
    lakeql: LakeQL
