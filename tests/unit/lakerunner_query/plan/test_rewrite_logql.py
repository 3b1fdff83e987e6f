"""LogQL is answered from derived metrics where that is provably the same, and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.random_rewrites import Tally, run
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.normal_form import normal_form
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.rewrite import (
    COST,
    ActiveRule,
    Case,
    Evidence,
    Leaf,
    LeafTimes,
    covered_steps,
    refusal,
    runs,
    without_short_runs,
)
from lakerunner_query.plan.rewrite_logql import GUARDS, pieces_of, rewrite_logql
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.query.lake import BASE, Line
from tests.support.query.rewriting.lake import ORG, UNPRICED, RuleLake, without

ERRORS = DerivedMetric("errors", Signal.LOGS, '{service_name=~".+"} |= "error"', ("service_name", "region"))
TOOK = DerivedMetric(
    "took", Signal.LOGS, '{service_name=~".+"} | json', ("service_name", "status"), "duration(took)"
)
SIZES = DerivedMetric("sizes", Signal.LOGS, '{service_name=~".+"}', ("service_name",), LINE_BYTES)
STEPS = LogSteps(BASE + 600 * SECOND_NS, 60 * SECOND_NS, 5)


def rules(*metrics: DerivedMetric) -> list[ActiveRule]:
    return [ActiveRule(number, 1, metric) for number, metric in enumerate(metrics)]


def rewrite(text: str, *metrics: DerivedMetric, steps: LogSteps = STEPS) -> tuple[str, list[str]]:
    """Return the rewritten text, and the names of the guards that refuse."""
    expr = parse_expr(text)
    assert not isinstance(expr, LogQuery)
    found = rewrite_logql(expr, steps, rules(*metrics))
    assert found is not None
    shown = "" if found.expr is None else to_text(found.expr)
    return shown, [one.guard for one in found.decisions if one.guard]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            'sum by (service_name) (rate({service_name="web"} |~ "error" [5m] offset 1h))',
            '(sum by (service_name) (sum_over_time(errors{service_name="web"}[5m] offset 1h)) / 300)',
        ),
        (
            'sum(count_over_time({service_name=~".+"} | region="eu" |= "error" [1m])) * -2 > 1',
            '((sum(sum_over_time(errors{region="eu"}[1m])) * (-2)) > 1)',
        ),
        (
            'avg_over_time({service_name="db"} | json | unwrap duration(took) | __error__="" [1m])'
            " by (status)",
            '(sum by (status) (sum_over_time(took{service_name="db"}[1m])) '
            '/ sum by (status) (sum_over_time(took_count{service_name="db"}[1m])))',
        ),
        (
            'max by (status) (max_over_time({service_name="db"} | json | unwrap duration(took) [1m]))',
            'max by (status) (max_over_time(took_max{service_name="db"}[1m]))',
        ),
        (
            'sum by (service_name) (bytes_rate({service_name!=""}[10s]))',
            "(sum by (service_name) (sum_over_time(sizes[10s])) / 10)",
        ),
        (
            'sum(count_over_time({service_name!=""}[10s])) or vector(0)',
            "(sum(sum_over_time(sizes_count[10s])) or vector(0))",
        ),
    ],
)
def test_leaves_become_windows_of_derived_metrics(query: str, expected: str) -> None:
    assert rewrite(query, ERRORS, TOOK, SIZES) == (expected, [])


@pytest.mark.parametrize(
    ("query", "guard"),
    [
        ('sum(count_over_time({k8s_namespace_name="shop"} |= "error" [1m]))', "matchers"),
        ('sum(count_over_time({service_name="web", region="eu"} |= "error" [1m]))', "matchers"),
        ('sum(count_over_time({service_name="web"} |= "error" |= "b" [1m]))', "pipeline"),
        ('sum(count_over_time({service_name="web"} |= "error" | tier="gold" [1m]))', "pipeline"),
        ('sum(count_over_time({service_name="web"} |= "error" | logfmt [1m]))', "pipeline"),
        ('sum(count_over_time({service_name="web"} |= "error" | region > 5 [1m]))', "pipeline"),
        ('sum by (tier) (count_over_time({service_name="web"} |= "error" [1m]))', "grouping"),
        ('sum without (region) (count_over_time({service_name="web"} |= "error" [1m]))', "grouping"),
        ('count_over_time({service_name="web"} |= "error" [1m])', "grouping"),
        ('count by (region) (count_over_time({service_name="web"} |= "error" [1m]))', "grouping"),
        ('sum(bytes_over_time({service_name="web"} |= "error" [1m]))', "function"),
        ('sum(count_over_time({service_name="web"} |= "error" [15s]))', "window"),
        ('sum(count_over_time({service_name="web"} |= "error" [1m] offset 1s))', "window"),
    ],
)
def test_guards_refuse(query: str, guard: str) -> None:
    assert rewrite(query, ERRORS) == ("", [guard])


A, X = 'sum by (a)(count_over_time({a="b"}[1m]))', 'sum by (a)(count_over_time({a="b"} |= "x"[1m]))'


@pytest.mark.parametrize(
    ("query", "records"),
    [
        (f"topk(1, {A}) / on (a) {X}", [X]),
        (f"{A} / topk(1, sum({X}))", [f"topk(1,sum({X}))"]),
        (f"topk(1, {A} / sum({X}))", [X]),
        (f"sort({A}) / sum by (a) ({X})", [X]),
        (f'label_replace({A}, "c", "$1", "a", "(.*)") or {A}', []),
        (f"vector(1) + {A}", []),
    ],
)
def test_pieces_are_served_leaves_and_the_largest_other_parts(query: str, records: list[str]) -> None:
    expr = parse_expr(query)
    assert not isinstance(expr, LogQuery)
    found = rewrite_logql(expr, STEPS, rules(DerivedMetric("m", Signal.LOGS, '{a="b"}', ("a",))))
    assert found is not None
    assert found.is_whole is (not records)
    pieces = pieces_of(expr, found.cases)
    assert [print_query(one.node) for one in pieces if one.case is None] == records
    assert [print_query(one.node) for one in pieces if one.case is not None] == [A]


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ('{a="1", b=~"x"} |= "p" != "q" | c="1"', '{b="x",a="1"} | c="1" != "q" |= "p"', True),
        ('{a="1"} |= "p" or "q"', '{a="1"} |= "q" or "p"', True),
        ('{a="1"} != "p" or "q"', '{a="1"} != "q" != "p"', True),
        ('{a="1", c=~".*"} | x=~".+" and y="2"', '{a="1"} | y="2" | x!=""', True),
        ('{a="1"} | x > 1 | y > 2', '{a="1"} | y > 2 | x > 1', False),
        ('{a="1"} |= "p" |= "q"', '{a="1"} |= "p" or "q"', False),
        ('{a="1"} | x="1" | json', '{a="1"} | json | x="1"', False),
        ('{a="1"} | x > 1 | __error__=""', '{a="1"} | __error__="" | x > 1', False),
    ],
)
def test_selections_are_compared_in_normal_form(left: str, right: str, is_same: bool) -> None:
    forms = [normal_form(one) for one in map(parse_expr, (left, right)) if isinstance(one, LogQuery)]
    assert (forms[0] == forms[1]) is is_same


@given(
    st.integers(-30, 30),
    st.integers(1, 30),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(-20, 20),
    st.integers(-3, 3),
)
def test_steps_touch_the_hours_that_their_windows_read(
    first: int, step: int, count: int, width: int, offset: int, hour: int
) -> None:
    tenth = HOUR_NS // 10
    times = LeafTimes(first * tenth, step * tenth, count, width * tenth, offset * tenth)
    found = covered_steps(times, [hour * HOUR_NS])
    for number in range(count):
        end = (first + number * step - offset) * tenth
        touches = end > hour * HOUR_NS and end - width * tenth < (hour + 1) * HOUR_NS
        assert found[number] != touches


@given(st.lists(st.integers(0, 7), min_size=2, max_size=12))
def test_no_run_has_a_single_step(flags: list[int]) -> None:
    found = without_short_runs(tuple(flags))
    assert all(not left & ~before for left, before in zip(found, flags, strict=True))
    assert all(behind - first >= 2 for first, behind, _ in runs(found))


@dataclass(frozen=True)
class Example:
    """Question that is answered wrongly without one guard."""

    rule: DerivedMetric
    query: str
    late: Sequence[Line] = ()
    """Lines that arrive once the rule was derived."""


def metric(
    select: str, keep: Sequence[str] = (), value: str = "", source: Signal = Signal.LOGS
) -> DerivedMetric:
    return DerivedMetric("derived", source, select, tuple(keep), value)


COUNTED = 'sum(count_over_time({service_name="web"}[1m]))'
EXAMPLES: Mapping[str, Example] = {
    "source": Example(metric('{service_name="web"}', source=Signal.TRACES), COUNTED),
    "matchers": Example(metric('{service_name="web"}'), 'sum(count_over_time({service_name=~"web|db"}[1m]))'),
    "pipeline": Example(metric('{service_name="web"} |= "500"'), COUNTED),
    "grouping": Example(
        metric('{service_name="web"} | json', ["service_name"]),
        'sum by (status) (count_over_time({service_name="web"} | json [1m]))',
    ),
    "function": Example(
        metric('{service_name="web"} | json', [], "took"),
        'sum(count_over_time({service_name="web"} | json [1m]))',
    ),
    "window": Example(metric('{service_name="web"}'), 'sum(count_over_time({service_name="web"}[15s]))'),
    "expression": Example(
        metric('{service_name=~".+"} | json', ["service_name"], "size"),
        'topk(1, sum by (service_name) (sum_over_time({service_name=~".+"} | json | unwrap size [1m])))',
    ),
    "coverage": Example(metric('{service_name="web"}'), COUNTED, [Line(HOUR_NS // 4, "late")]),
}


def some_lines() -> list[Line]:
    """Return lines of which every second is the web's, and every third has no duration."""
    return [
        Line(
            number * 7 * SECOND_NS + 1,
            f'{{"status":"{(200, 500)[number % 2]}"' + ("}" if number % 3 else f',"took":"{number / 8}"}}'),
            ("web", "db", "web")[number % 3],
        )
        for number in range(1, 250)
    ]


def fractions() -> Iterator[Line]:
    """Yield the same numbers of two services in every minute, in five buckets of one and two of the other."""
    rng = random.Random(5)
    for minute in range(10, 20):
        for number, value in enumerate(rng.random() for _ in range(12)):
            for service, seconds in (("web", 1 + 4 * number), ("db", 1 + number)):
                yield Line((minute * 60 + seconds) * SECOND_NS, f'{{"size":"{value!r}"}}', service)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[RuleLake]:
    made = RuleLake(tmp_path)
    made.lake.write(ORG, [*some_lines(), *fractions()])
    yield made
    made.close()


TIMES = (BASE + 600 * SECOND_NS, BASE + 1200 * SECOND_NS, 60 * SECOND_NS)


@pytest.mark.parametrize("name", [guard.name for guard in GUARDS if guard.name != COST.name])
def test_every_guard_is_needed(lake: RuleLake, name: str) -> None:
    example = EXAMPLES[name]
    lake.put(example.rule)
    lake.derive()
    if example.late:
        lake.lake.write(ORG, example.late)
    expected = lake.ask(example.query, *TIMES, rewrite=False)
    refused = lake.ask(example.query, *TIMES, guards=UNPRICED)
    assert not refused.served
    assert any(f"derived, {name}: " in line for line in refused.lines), refused.lines
    assert not refused.differs(expected)
    found = lake.ask(example.query, *TIMES, guards=without(name, UNPRICED))
    assert found.served
    assert found.differs(expected), f"without the guard {name} nothing goes wrong: is it needed?"


@pytest.mark.parametrize(("raw", "derived", "reason"), [(10.0, 20.0, "20 bytes"), (20.0, 10.0, "")])
def test_a_metric_that_is_larger_than_its_records_is_not_read(
    raw: float, derived: float, reason: str
) -> None:
    leaf = Leaf(COUNTED, None, "count_over_time", (), LeafTimes(0, 0, 1, 10 * SECOND_NS), None)
    found = Case(leaf, ActiveRule(1, 1, ERRORS), None, Evidence((), raw, derived))
    guard, told = refusal(found, GUARDS, late=True)
    assert (guard == COST.name) is bool(reason)
    assert reason in told


def test_steps_that_read_an_hour_that_is_not_derived_are_answered_from_records(lake: RuleLake) -> None:
    lake.lake.write(ORG, [Line(HOUR_NS + n * 9 * SECOND_NS, "x", "web") for n in range(1, 200)])
    lake.put(metric('{service_name="web"}'))
    lake.derive([BASE])
    times = (BASE + HOUR_NS - 600 * SECOND_NS, BASE + HOUR_NS + 600 * SECOND_NS, 60 * SECOND_NS)
    expected = lake.ask(COUNTED, *times, rewrite=False)
    found = lake.ask(COUNTED, *times, guards=UNPRICED)
    assert (found.served, found.differs(expected)) == (11, "")
    assert found.lines[-1] == "steps from derived metrics: 11, from records: 10"


@pytest.mark.parametrize(
    "query",
    [
        f'topk(1, sum by (service_name) (rate({{service_name=~".+"}}[1m]))) > bool on () {COUNTED}',
        f'{COUNTED} / on () sum(rate({{service_name=~".+"}} |~ "5.0" [2m]))',
        f'label_replace({COUNTED}, "a", "x", "", "") or sum(rate({{service_name="db"}} | json [1m]))',
    ],
)
def test_parts_are_answered_first_and_the_rest_over_them(lake: RuleLake, query: str) -> None:
    lake.put(metric('{service_name=~".+"}', ["service_name"]))
    lake.derive()
    expected = lake.ask(query, *TIMES, rewrite=False)
    lake.workers.units.clear()
    found = lake.ask(query, *TIMES, guards=UNPRICED)
    assert (found.served, found.differs(expected)) == (11, "")
    *parts, last = lake.workers.units
    assert len(last.given) == len(parts) > 0
    assert not last.segments
    assert expected.points


def test_a_part_that_fails_leaves_the_query_to_records(lake: RuleLake) -> None:
    lake.put(metric('{service_name=~".+"}', ["service_name"]))
    lake.derive()
    query = f'{COUNTED} / sum(sum_over_time({{service_name="web"}} | json | unwrap duration(status) [1m]))'
    found = lake.ask(query, *TIMES, guards=UNPRICED)
    expected = lake.ask(query, *TIMES, rewrite=False)
    assert found.error == expected.error != ""


def test_random_questions_are_answered_alike(tmp_path: Path) -> None:
    tally = Tally()
    for seed in (3, 4):
        run(seed, 40, tmp_path / str(seed), tally=tally)
    assert not tally.wrong, tally.wrong[0]
    assert tally.share > 0.1, tally.text()
