"""TraceQL metrics are answered from derived metrics where that is provably the same, and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.random_rewrites import Spans, Tally, run
from lakerunner_query.plan.rewrite import COST, ActiveRule
from lakerunner_query.plan.rewrite_traceql import GUARDS, rewrite_traceql
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.units import TraceMetricsUnit
from lakerunner_query.rules.documents import DerivedMetric
from lakerunner_query.traceql.lang.parser import parse_metrics
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR
from tests.support.query.rewriting.lake import ORG, without
from tests.support.query.rewriting.spans import SpanLake, spans

UNPRICED = without(COST.name, GUARDS)
STEP = 60 * SECOND_NS


def metric(select: str, *keep: str, value: str = "", source: Signal = Signal.TRACES) -> DerivedMetric:
    return DerivedMetric("derived", source, select, keep, value)


FAILED = metric("{ status = error }", "resource.service.name", "name", "duration")
TOOK = metric("{ kind = server } | { span.a = 1 }", "name", value="duration")


def rewrite(text: str, *metrics: DerivedMetric) -> tuple[str, list[str]]:
    """Return the rewritten text, and the names of the guards that refuse."""
    request = TraceMetricsRequest(ORG, HOUR, STEP, 5)
    rules = [ActiveRule(number, 1, one) for number, one in enumerate(metrics)]
    found = rewrite_traceql(parse_metrics(text), request, rules)
    assert found is not None
    shown = "" if found.expr is None else to_text(found.expr)
    return shown, [one.guard for one in found.decisions if one.guard]


def counted(selected: str, number: int = 0, kind: str = "count") -> str:
    return f'label_replace({selected}, "__part__", "{number} {kind}", "__part__", "")'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            '{ error = status && resource.service.name = "web" } | rate() by (name)',
            counted('sum by (name) (sum_over_time(derived{resource_service_name="web"}[1m]))'),
        ),
        (
            '{ status = error && name != "a" } | count_over_time() | topk(2)',
            counted('sum(sum_over_time(derived{name!="",name!="a"}[1m]))'),
        ),
        (
            "{ span.a = 1 && kind = server } | max_over_time(duration)",
            f"({counted('sum(sum_over_time(derived_count[1m]))')} or "
            f"{counted('max(max_over_time(derived_max[1m]))', kind='value')})",
        ),
    ],
)
def test_functions_become_windows_of_derived_metrics(query: str, expected: str) -> None:
    metrics = [TOOK] if "kind" in query else [FAILED]
    assert rewrite(query, *metrics) == (expected, [])


@pytest.mark.parametrize(
    ("query", "guard"),
    [
        ("{ status = ok } | rate()", "pipeline"),
        ("{ status = error } >> { } | rate()", "pipeline"),
        ("{ status = error && kind = server } | rate()", "matchers"),
        ('{ status = error && name =~ "a.*" } | rate()', "matchers"),
        ("{ status = error && duration > 1s } | rate()", "matchers"),
        ("{ status = error } | rate() by (kind)", "grouping"),
        ("{ status = error } | rate() by (duration)", "grouping"),
        ("{ status = error } | sum_over_time(duration)", "function"),
        ("{ status = error } | quantile_over_time(duration, 0.5)", "function"),
        ("{ status = error } | compare({ kind = server })", "function"),
    ],
)
def test_guards_refuse(query: str, guard: str) -> None:
    assert rewrite(query, FAILED) == ("", [guard])


@dataclass(frozen=True)
class Example:
    """Question that is answered wrongly without one guard."""

    rule: DerivedMetric
    query: str
    step_ns: int = STEP
    is_late: bool = False


WEB = '{ resource.service.name = "web" }'
EXAMPLES: Mapping[str, Example] = {
    "source": Example(metric(WEB, source=Signal.LOGS), f"{WEB} | rate()"),
    "pipeline": Example(metric(WEB), "{ } | rate()"),
    "matchers": Example(metric("{ }"), f"{WEB} | rate()"),
    "grouping": Example(metric(WEB, "name"), f"{WEB} | rate() by (kind)"),
    "function": Example(metric(WEB, value="span.size"), f"{WEB} | rate()"),
    "window": Example(metric(WEB), f"{WEB} | rate()", step_ns=15 * SECOND_NS),
    "coverage": Example(metric(WEB), f"{WEB} | rate()", is_late=True),
}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SpanLake]:
    made = SpanLake(tmp_path)
    made.write(spans(random.Random(1), 400, 0), HOUR)
    yield made
    made.close()


@pytest.mark.parametrize("name", [guard.name for guard in GUARDS if guard.name != COST.name])
def test_every_guard_is_needed(lake: SpanLake, name: str) -> None:
    example = EXAMPLES[name]
    lake.put(example.rule)
    lake.derive()
    if example.is_late:
        lake.write(spans(random.Random(2), 100, 0), HOUR)
    times = HOUR + 600 * SECOND_NS, HOUR + 2400 * SECOND_NS, example.step_ns
    expected = lake.ask(example.query, *times, rewrite=False)
    refused = lake.ask(example.query, *times, guards=UNPRICED)
    assert not refused.served
    assert any(f"derived, {name}: " in line for line in refused.lines), refused.lines
    assert not refused.differs(expected)
    found = lake.ask(example.query, *times, guards=without(name, UNPRICED))
    assert found.served
    assert found.differs(expected), f"without the guard {name} nothing goes wrong: is it needed?"


def test_steps_that_read_an_hour_that_is_not_derived_are_answered_from_spans(lake: SpanLake) -> None:
    lake.write(spans(random.Random(3), 200, 1), HOUR + HOUR_NS)
    lake.put(metric("{ }", "name", value="span.size"))
    lake.derive([HOUR])
    edge = HOUR + HOUR_NS
    for function in ("sum", "min", "max", "avg"):
        asked = f"{{ }} | {function}_over_time(span.size) by (name)"
        times = (edge - 1200 * SECOND_NS, edge + 1200 * SECOND_NS, 2 * STEP)
        expected = lake.ask(asked, *times, rewrite=False)
        found = lake.ask(asked, *times, guards=UNPRICED)
        assert (found.served, found.differs(expected)) == (11, "")


@pytest.mark.parametrize("most", [0, 1, 10, 10_000])
def test_exemplars_are_read_until_there_are_enough(lake: SpanLake, most: int) -> None:
    lake.put(metric("{ }", "name"))
    lake.derive()
    times = HOUR + 600 * SECOND_NS, HOUR + 2400 * SECOND_NS, STEP
    expected = lake.ask("{ } | rate() by (name)", *times, rewrite=False, exemplars=most)
    lake.workers.units.clear()
    found = lake.ask("{ } | rate() by (name)", *times, guards=UNPRICED, exemplars=most)
    assert (found.served, found.differs(expected)) == (31, "")
    units = [one for one in lake.workers.units if isinstance(one, TraceMetricsUnit)]
    assert all(one.is_for_exemplars for one in units)
    if most == 10_000:
        assert units[-1].window.above == b""
        assert [one.window.above for one in units[:-1]] == [one.window.least for one in units[1:]]
    else:
        assert (most > 0) <= len(units) < 4 * max(1, most)


def test_functions_that_no_rule_serves_are_counted_over_spans(lake: SpanLake) -> None:
    lake.put(metric("{ }", "name"))
    lake.derive()
    asked = "({ } | rate() by (name)) / ({ } | quantile_over_time(duration, 0.5) by (name))"
    times = HOUR + 600 * SECOND_NS, HOUR + 2400 * SECOND_NS, STEP
    lake.workers.units.clear()
    found = lake.ask(asked, *times, guards=UNPRICED)
    units = [one for one in lake.workers.units if isinstance(one, TraceMetricsUnit)]
    assert [one.functions for one in units] == [(1,)] * len(units)
    assert found.lines[-1] == "steps from derived metrics: 0, in part: 31, from records: 0"
    assert not found.differs(lake.ask(asked, *times, rewrite=False))


def test_random_questions_are_answered_alike(tmp_path: Path) -> None:
    tally = Tally()
    for seed in (5, 6):
        run(seed, 40, tmp_path / str(seed), Spans, tally=tally)
    assert not tally.wrong, tally.wrong[0]
    assert tally.share > 0.1, tally.text()
