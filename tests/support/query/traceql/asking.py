"""One question is asked over HTTP and of the oracle, and the answers are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.plan import traceql as plan
from lakerunner_query.traceql.lang.ast import MetricsCompare
from lakerunner_query.traceql.lang.parser import parse
from lakerunner_query.worker.spans import search
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.support.cooking_lake import Lake, lake_in
from tests.support.query.in_process import InProcess, engine_over
from tests.support.query.lake import TOKEN, start_workers
from tests.support.query.traceql import oracle
from tests.support.query.traceql.answers import (
    compare_difference,
    read_search,
    read_series,
    search_difference,
    series_difference,
)
from tests.support.query.traceql.oracle_fields import Trace, whole_traces
from tests.support.query.traceql.oracle_metrics import Steps, metrics
from tests.support.query.traceql.random_queries import Queries, Question
from tests.support.query.traceql.random_traces import Span, Traces, fill


@dataclass
class World:
    """Spans, stored for several organisations, for each of them cut in another way."""

    seed: str
    spans: list[Span]
    traces: list[Trace]
    orgs: list[str] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)
    """The way in which the spans of each organisation are cut."""


def build_world(lake: Lake, seed: str, traces: int, cuts: int) -> World:
    spans = Traces(seed).spans(traces)
    world = World(seed, spans, whole_traces(spans))
    for number in range(cuts):
        org = f"w{seed}-{number}".replace(":", "-")
        lake.index.create_organisation(org)
        lake.index.create_api_key(org, "read", org, hashlib.sha256(org.encode()).digest(), None)
        world.orgs.append(org)
        world.cuts.append(fill(lake, org, spans, f"{seed} {number}"))
    return world


class Asker:
    """The API over one lake."""

    def __init__(self, http: TestClient[Litestar]) -> None:
        self.http = http

    def difference(self, world: World, number: int, question: Question) -> str:
        """Ask one of the organisations; return what is wrong with the answer, empty for nothing."""
        answer = self._ask(world.orgs[number], question)
        if isinstance(answer, str):
            return answer
        return compare(question, world.traces, answer)

    def _ask(self, org: str, question: Question) -> dict[str, Any] | str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "ROWS_PER_UNIT", question.rows_per_unit)
            patch.setattr(plan, "ROWS_PER_WINDOW", 2 * question.rows_per_unit)
            patch.setattr(plan, "FIRST_ROWS", question.first_rows)
            patch.setattr(plan, "ROWS_PER_FOUND", 0)
            patch.setattr(search, "SMALL_WINDOW", question.rows_per_unit // 2)
            answer = self.http.get(
                f"/tempo/api/{_PATHS[question.kind]}",
                params=_parameters(question),
                headers={"x-cardinalhq-api-key": org, "accept-encoding": "identity"},
            )
        if answer.status_code != 200:
            return f"status {answer.status_code}: {answer.text[:300]}"
        found: dict[str, Any] = answer.json()
        return found


_PATHS = {"search": "search", "range": "metrics/query_range", "instant": "metrics/query"}


def _parameters(question: Question) -> dict[str, str | int]:
    times = {"start": question.start_ns // SECOND_NS, "end": question.end_ns // SECOND_NS}
    if question.kind == "search":
        return {"q": question.text, **times, "limit": question.limit, "spss": question.spans_per_set}
    if question.kind == "range":
        return {"q": question.text, **times, "step": f"{question.step_ns / SECOND_NS}s"}
    return {"q": question.text, **times}


def compare(question: Question, traces: Sequence[Trace], body: dict[str, Any]) -> str:
    """Say what is wrong with an answer, by what the oracle finds in whole traces."""
    query = parse(question.text)
    if question.kind == "search":
        wanted = oracle.search(
            traces, query, question.start_ns, question.end_ns, question.limit, question.spans_per_set
        )
        return search_difference(read_search(body), wanted)
    steps = steps_of(question)
    series = metrics(traces, query, steps)
    found = read_series(body, steps.times_ms()[0] if question.kind == "instant" else None)
    if isinstance(query.body, MetricsCompare):
        return compare_difference(found, series, query.body.limit)
    spans = (span for trace in traces for span in trace.spans)
    if not found and all(steps.of(span.start_ns) is None for span in spans):
        return ""  # without spans in the range there are no series, or zeros if a segment reaches over it
    return series_difference(found, series)


def steps_of(question: Question) -> Steps:
    """Return the times of a metrics query: multiples of the step that enclose the range."""
    width = question.end_ns - question.start_ns
    if question.kind == "instant":
        return Steps(question.end_ns, width, 1)
    step = question.step_ns
    first, last = question.start_ns // step * step, -(-question.end_ns // step) * step
    return Steps(first, step, (last - first) // step + 1)


@contextmanager
def served(folder: Path, workers: int = 2) -> Iterator[tuple[Lake, Asker]]:
    """Serve an empty lake through workers of their own."""
    lake = lake_in(folder / "lake")
    data = folder / "data"
    data.mkdir()
    for stack in start_workers(data, folder / "lake" / "lake", workers):
        with TestClient(create_app(stack.settings, lake.index)) as http:
            yield lake, Asker(http)


@contextmanager
def served_here(folder: Path) -> Iterator[tuple[Lake, Asker]]:
    """Serve an empty lake with the readers of workers in this process."""
    lake = lake_in(folder / "lake")
    with TestClient(create_app(Settings(data_dir=folder, internal_token=TOKEN), lake.index)) as http:
        workers = InProcess(folder / "lake" / "lake", folder)
        http.app.state.services = replace(http.app.state.services, engine=engine_over(lake.index, workers))
        yield lake, Asker(http)


def question_of(world: World, number: int) -> Question:
    return Queries(f"{world.seed} {number}", world.spans).question()
