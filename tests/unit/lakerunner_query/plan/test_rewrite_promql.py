"""PromQL is answered from derived metrics where that is provably the same, and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.random_rewrites import Samples, Tally, run
from lakerunner_query.plan.rewrite import COST, ActiveRule
from lakerunner_query.plan.rewrite_promql import GUARDS, rewrite_promql
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.rules.documents import SAMPLE, DerivedMetric
from lakerunner_query.vectors.vector import Steps
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.query.lake import BASE
from tests.support.query.metric_lake import labels, write_samples
from tests.support.query.rewriting.lake import ORG, without
from tests.support.query.rewriting.samples import SampleLake, write

UNPRICED = without(COST.name, GUARDS)
FIRST_MS, STEP_MS, STEPS = 600_000, 60_000, 5


def metric(select: str, *keep: str, value: str = SAMPLE, source: Signal = Signal.METRICS) -> DerivedMetric:
    return DerivedMetric("derived", source, select, keep, value)


LOAD = metric('load{job="api"}', "pod", "zone")


def rewrite(text: str, *metrics: DerivedMetric) -> tuple[str, list[str]]:
    """Return the rewritten text, and the names of the guards that refuse."""
    steps = Steps(FIRST_MS, STEP_MS, STEPS)
    expr = bind(parse(text), steps.start_ms, steps.end_ms, steps.step_ms)
    found = rewrite_promql(expr, steps, [ActiveRule(n, 1, one) for n, one in enumerate(metrics)])
    assert found is not None
    shown = "" if found.expr is None else to_text(found.expr)
    return shown, [one.guard for one in found.decisions if one.guard]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            'sum by (pod) (sum_over_time(load{zone=~"e.*",job="api"}[5m] offset 1h)) / 2 > 1',
            'sum by (pod) (sum_over_time(derived{zone=~"e.*"}[5m] offset 1h)) / 2 > 1',
        ),
        (
            'sum(sum_over_time(load{job="api"}[5m])) / sum(count_over_time(load{job="api"}[5m]))',
            "sum(sum_over_time(derived[5m])) / sum(sum_over_time(derived_count[5m]))",
        ),
        (
            'abs(max by (zone) (max_over_time(load{job="api",zone=""}[1m])))',
            'abs(max by (zone) (max_over_time(derived_max{zone=""}[1m])))',
        ),
        (
            'sum(sum_over_time(load{job="api"}[5m])) + sum(rate(load[5m])) * max_over_time(load[5m:1m])',
            "sum(sum_over_time(derived[5m])) + sum(rate(load[5m])) * max_over_time(load[5m:1m])",
        ),
        (
            'label_replace(sum by (pod) (sum_over_time(load{job="api"}[5m])), "a", "$1", "pod", "(.*)")',
            'label_replace(sum by (pod) (sum_over_time(derived[5m])), "a", "$1", "pod", "(.*)")',
        ),
    ],
)
def test_leaves_become_windows_of_derived_metrics(query: str, expected: str) -> None:
    assert rewrite(query, LOAD) == (expected, [])


@pytest.mark.parametrize(
    ("query", "guard"),
    [
        ("sum(sum_over_time(load[5m]))", "matchers"),
        ('sum(sum_over_time({job="api"}[5m]))', "matchers"),
        ('sum(sum_over_time(load{job="api",host="a"}[5m]))', "matchers"),
        ('sum by (host) (sum_over_time(load{job="api"}[5m]))', "grouping"),
        ('sum without (pod) (sum_over_time(load{job="api"}[5m]))', "grouping"),
        ('sum(sum_over_time(load{job="api"}[15s]))', "window"),
        ('topk(1, sum by (pod) (sum_over_time(load{job="api"}[5m])))', "expression"),
        ('sort(sum by (pod) (sum_over_time(load{job="api"}[5m])))', "expression"),
        ('count_values("v", sum by (pod) (sum_over_time(load{job="api"}[5m])))', "expression"),
        ('sum(sum_over_time(load{job="api"}[5m])) + derived', "expression"),
    ],
)
def test_guards_refuse(query: str, guard: str) -> None:
    assert rewrite(query, LOAD) == ("", [guard])


@pytest.mark.parametrize(
    "query",
    [
        'sum(rate(load{job="api"}[5m]))',
        'sum_over_time(load{job="api"}[5m])',
        'avg(avg_over_time(load{job="api"}[5m]))',
        'sum(sum_over_time(load{job="api"}[5m] @ 100))',
        'max_over_time(sum(sum_over_time(load{job="api"}[5m]))[1h:1m])',
        "load",
    ],
)
def test_other_expressions_have_no_leaf(query: str) -> None:
    steps = Steps(FIRST_MS, STEP_MS, STEPS)
    expr = bind(parse(query), steps.start_ms, steps.end_ms, steps.step_ms)
    assert rewrite_promql(expr, steps, [ActiveRule(1, 1, LOAD)]) is None


@dataclass(frozen=True)
class Example:
    """Question that is answered wrongly without one guard."""

    rules: Sequence[DerivedMetric]
    query: str = "sum(sum_over_time(load[5m]))"
    is_late: bool = False


EXAMPLES: Mapping[str, Example] = {
    "source": Example([metric("load", source=Signal.LOGS)]),
    "matchers": Example([metric('load{job="api"}')]),
    "grouping": Example([metric("load", "job")], "sum by (pod) (sum_over_time(load[5m]))"),
    "function": Example([metric("load", value="")]),
    "window": Example([metric("load")], "sum(sum_over_time(load[15s]))"),
    "made": Example(
        [DerivedMetric("hot", Signal.METRICS, "temp", (), ""), metric("hot")], "sum(sum_over_time(hot[5m]))"
    ),
    "expression": Example(
        [metric("rare", "pod", value="")], "topk(1, sum by (pod) (count_over_time(rare[1m])))"
    ),
    "coverage": Example([metric("load")], is_late=True),
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SampleLake]:
    made = SampleLake(tmp_path)
    write(made, random.Random(1), 800, 0)
    equal = {labels("rare", job=job, pod=pod): [(900_000, 1.0)] for job, pod in (("a", "z"), ("b", "y"))}
    write_samples(made.lake, ORG, equal)
    yield made
    made.close()


@pytest.mark.parametrize("name", [guard.name for guard in GUARDS if guard.name != COST.name])
def test_every_guard_is_needed(lake: SampleLake, name: str) -> None:
    example = EXAMPLES[name]
    lake.put(*example.rules)
    lake.derive()
    if example.is_late:
        write(lake, random.Random(2), 200, 0)
    times = BASE + 600 * SECOND_NS, BASE + 2400 * SECOND_NS, 60 * SECOND_NS
    expected = lake.ask(example.query, *times, rewrite=False)
    refused = lake.ask(example.query, *times, guards=UNPRICED)
    assert not refused.served
    assert any(f"derived, {name}: " in line for line in refused.lines), refused.lines
    assert not refused.differs(expected)
    found = lake.ask(example.query, *times, guards=without(name, UNPRICED))
    assert found.served
    assert found.differs(expected), f"without the guard {name} nothing goes wrong: is it needed?"


def test_steps_that_read_an_hour_that_is_not_derived_are_answered_from_samples(lake: SampleLake) -> None:
    write(lake, random.Random(3), 400, 1)
    lake.put(metric("load", "job"))
    lake.derive([BASE])
    edge = BASE + HOUR_NS
    times = edge - 600 * SECOND_NS, edge + 600 * SECOND_NS, 60 * SECOND_NS
    expected = lake.ask("sum by (job) (sum_over_time(load[5m]))", *times, rewrite=False)
    found = lake.ask("sum by (job) (sum_over_time(load[5m]))", *times, guards=UNPRICED)
    assert (found.served, found.differs(expected)) == (11, "")


def test_random_questions_are_answered_alike(tmp_path: Path) -> None:
    tally = Tally()
    for seed in (7, 8):
        run(seed, 50, tmp_path / str(seed), Samples, tally=tally)
    assert not tally.wrong, tally.wrong[0]
    assert tally.share > 0.1, tally.text()
