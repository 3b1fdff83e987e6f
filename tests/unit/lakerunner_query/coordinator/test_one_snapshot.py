"""A query sees the index at one moment, whatever is published while it is planned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.languages import (
    EXEMPLARS,
    LOG_SAMPLES,
    PROMQL,
    SERIES,
    STREAM_SIZES,
    STREAM_VOLUMES,
    STREAMS,
)
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.names import SeriesRequest, StreamsRequest
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.protocol.units import SeriesSelector
from lakerunner_query.syntax import Matcher, MatchOp
from resources.index.types import Segment
from resources.lake.timecut import SECOND_NS
from tests.support.query.in_process import InProcess, Interrupted, compact, engine_over
from tests.support.query.lake import BASE, Lake, Line
from tests.support.query.metric_lake import BASE_MS, labels, write_samples

MINUTE = 60_000
END_NS = BASE + 600 * SECOND_NS
SERVICES = ("web", "db", "mq")
Ask = Callable[[Engine], Coroutine[Any, Any, Any]]


def equal(name: str, value: str) -> Matcher:
    return Matcher(name, MatchOp.EQUAL, value)


def log_samples(engine: Engine) -> Coroutine[Any, Any, Any]:
    text = " + ".join(f'sum(count_over_time({{service_name="{one}"}}[10m]))' for one in SERVICES)
    return ask_text(engine, LOG_SAMPLES, text, LogSamplesRequest("acme", END_NS, END_NS))


def frames_of_logs(engine: Engine) -> Coroutine[Any, Any, Any]:
    text = " + ".join(
        f'sum(sum_over_time({{service_name="{one}"}} | regexp "(?P<n>1)" | unwrap n [10m]))'
        for one in SERVICES
    )
    return ask_text(engine, LOG_SAMPLES, text, LogSamplesRequest("acme", END_NS, END_NS))


def promql(engine: Engine) -> Coroutine[Any, Any, Any]:
    text = "sum(count_over_time(a[10m])) + sum(count_over_time(b[10m]))"
    return ask_text(engine, PROMQL, text, PromQLRequest("acme", BASE_MS, BASE_MS + 10 * MINUTE))


async def ask_text(engine: Engine, language: Any, text: str, request: Any) -> Any:
    found = await engine.collect(await engine.prepare(language, text, request))
    return found.series


def streams(language: Any) -> Ask:
    selectors = tuple((equal("service_name", one),) for one in SERVICES)

    def ask(engine: Engine) -> Coroutine[Any, Any, Any]:
        return engine.ask(language, StreamsRequest("acme", BASE, END_NS, selectors))

    return ask


def series(language: Any) -> Ask:
    selectors = tuple(
        SeriesSelector((equal("__name__", one),), BASE_MS, BASE_MS + 10 * MINUTE) for one in "ab"
    )

    def ask(engine: Engine) -> Coroutine[Any, Any, Any]:
        return engine.ask(language, SeriesRequest("acme", BASE_MS, BASE_MS + 10 * MINUTE, selectors))

    return ask


QUESTIONS: dict[str, Ask] = {
    "logql-counts": log_samples,
    "logql-rows": frames_of_logs,
    "promql": promql,
    "volumes": streams(STREAM_VOLUMES),
    "sizes": streams(STREAM_SIZES),
    "streams": streams(STREAMS),
    "series": series(SERIES),
    "exemplars": series(EXEMPLARS),
}


def filled(folder: Path) -> tuple[Lake, list[Segment]]:
    lake = Lake(folder)
    logs = [
        Line((number + 1) * SECOND_NS, f"line {number}", service)
        for number in range(30)
        for service in SERVICES
    ]
    samples = {
        labels(name, pod=str(pod)): [(n * 1000, 1.0) for n in range(1, 40)] for name in "ab" for pod in (1, 2)
    }
    return lake, [lake.write("acme", logs), write_samples(lake, "acme", samples)]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_compaction_between_two_reads_changes_no_answer(name: str, tmp_path: Path) -> None:
    lake, segments = filled(tmp_path / "lake")
    dispatcher, ask = InProcess(lake.folder, tmp_path / "worker"), QUESTIONS[name]

    def happen() -> None:
        for segment in segments:
            compact(lake, segment)

    expected = asyncio.run(ask(engine_over(lake.index, dispatcher)))
    assert asyncio.run(ask(engine_over(Interrupted(lake.index, happen), dispatcher))) == expected
    assert asyncio.run(ask(engine_over(lake.index, dispatcher))) == expected, "compaction happened"
