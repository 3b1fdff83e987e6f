"""Random PromQL: nothing fails by accident, cutting changes nothing, the lake says what memory says.

Where a `prometheus` program is found (benchmarks/README.md), a few hundred queries are asked of it as well.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.ingest.peers import DEFAULT_FOLDER, binary
from benchmarks.promql.fuzz import Tally, run
from benchmarks.promql.fuzz_compare import Answer, Likeness, Point, Tolerance, answer_of, likeness
from benchmarks.promql.fuzz_data import BASE_MS, random_data
from benchmarks.promql.fuzz_lake import INTERNAL, WHOLE, LakeApi
from benchmarks.promql.fuzz_queries import Grammar, Question
from benchmarks.promql.peers import PROMETHEUS
from benchmarks.promql.samples import Sampled
from lakerunner_query.histogram.model import Histogram
from lakerunner_query.histogram.text import json_form
from tests.golden.memory_source import MemorySource, Sample
from tests.golden.promqltest_compare import Outcome
from tests.golden.promqltest_script import Times
from tests.golden.promqltest_stacks import SourceStack

pytestmark = pytest.mark.integration
SEED = 7
QUESTIONS = 80
UNTIL_MS = BASE_MS + 2_400_000
EXACTLY = Tolerance(1e-12, 0.0)
ARBITRARY = ("limitk", "topk", "bottomk", "limit_ratio")
"""Which of equal values is chosen depends on the order of reading."""


@pytest.fixture(scope="module")
def series() -> list[Sampled]:
    cut = [one.between(BASE_MS - 1, UNTIL_MS) for one in random_data(SEED).series]
    return [one for one in cut if len(one.time_ms)]


@pytest.fixture(scope="module")
def sliced(series: list[Sampled], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeApi]:
    with LakeApi(tmp_path_factory.mktemp("sliced"), series) as lake:
        yield lake


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    grammar = Grammar(SEED)
    found = [grammar.question() for _ in range(QUESTIONS)]
    return [
        Question(one.text, min(one.start_ms, UNTIL_MS), min(one.end_ms, UNTIL_MS + 600_000), one.step_ms)
        for one in found
    ]


def test_no_random_query_ends_in_an_internal_error(sliced: LakeApi, questions: list[Question]) -> None:
    answered = 0
    for one in questions:
        found = sliced.ask(one.text, one.start_ms, one.end_ms, one.step_ms)
        assert found.get("errorType") != INTERNAL, f"{one}\n{found['error']}"
        answered += found["status"] == "success" and found["data"]["result"] != []
    assert answered > QUESTIONS // 4  # else nothing was tested


def test_cutting_a_query_into_slices_changes_nothing(
    sliced: LakeApi, series: list[Sampled], questions: list[Question], tmp_path: Path
) -> None:
    with LakeApi(tmp_path, series, WHOLE) as whole:
        for one in questions:
            at = one.text, one.start_ms, one.end_ms, one.step_ms
            mine, theirs = sliced.ask(*at), whole.ask(*at)
            assert mine["status"] == theirs["status"], f"{one}\n{mine}\n{theirs}"
            if mine["status"] == "success":
                found, why = likeness(answer_of(mine), answer_of(theirs), EXACTLY)
                assert found is not Likeness.DIFFERENT, f"{one}\n{why}"


def test_the_lake_says_what_samples_in_memory_say(
    sliced: LakeApi, series: list[Sampled], questions: list[Question]
) -> None:
    memory = SourceStack(_in_memory(series))
    for one in questions:
        if any(word in one.text for word in ARBITRARY):
            continue
        mine = sliced.ask(one.text, one.start_ms, one.end_ms, one.step_ms)
        times = Times(one.start_ms if one.step_ms else one.end_ms, one.end_ms, one.step_ms or 1000)
        theirs = memory.ask(one.text, times, bool(one.step_ms))
        assert (mine["status"] == "error") == (theirs.failure is not None), f"{one}\n{mine}\n{theirs.failure}"
        if theirs.failure is None and theirs.string is None:
            found, why = likeness(answer_of(mine), _answer(theirs, mine["data"]["resultType"], one), EXACTLY)
            assert found is not Likeness.DIFFERENT, f"{one}\n{why}"


def test_prometheus_says_the_same() -> None:
    program = binary(DEFAULT_FOLDER, PROMETHEUS)
    if program is None:
        pytest.skip(f"no {PROMETHEUS} in {DEFAULT_FOLDER}")
    tally, said = Tally(), io.StringIO()
    run(program, SEED, 200, tally, said)
    assert tally.asked == 200
    assert not tally.faults, said.getvalue()


def _in_memory(series: list[Sampled]) -> MemorySource:
    source = MemorySource()
    for one in series:
        histograms = one.histograms or (None,) * len(one.time_ms)
        samples = zip(one.time_ms.tolist(), one.value.tolist(), histograms, strict=True)
        source.series[one.labels] = [Sample(*each) for each in samples]
    return source


def _answer(outcome: Outcome, kind: str, asked: Question) -> Answer:
    if outcome.scalar is not None:
        return Answer(kind, {(): {asked.end_ms / 1000: outcome.scalar}}, ((),))
    found = {row.labels: {time / 1000: _point(point) for time, point in row.points} for row in outcome.rows}
    return Answer(kind, found, tuple(row.labels for row in outcome.rows))


def _point(point: float | Histogram) -> Point:
    if isinstance(point, float):
        return point
    one = {"metric": {}, "histogram": [0, json_form(point)]}
    read = answer_of({"data": {"resultType": "vector", "result": [one]}})
    return read.series[()][0.0]
