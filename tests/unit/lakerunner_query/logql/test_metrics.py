"""Whatever way a query is answered, the answer is the same; and what goes wrong is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.metrics.context import LogSteps, Options
from lakerunner_query.logql.metrics.errors import PipelineError
from lakerunner_query.logql.pipeline import Demand
from lakerunner_query.vectors.vector import Scalar, Vector
from tests.golden.log_memory_source import LogMemorySource
from tests.golden.logqltest_script import LogLine
from tests.support.query.logql_metrics.asking import (
    LINES,
    SECOND,
    STEPS,
    CountingSource,
    ask,
    join_results,
    points,
    same,
)

QUERIES = (
    'count_over_time({app=~".+"}[30s])',
    'sum by (app) (rate({app=~".+"} |= "warn" [1m]))',
    'sum(bytes_over_time({app=~".+"}[10s] offset 7s))',
    'max by (pod) (max_over_time({app=~".+"} | logfmt | unwrap v [45s]))',
    'avg_over_time({app=~".+"} | logfmt | unwrap v [20s]) by (app)',
    'quantile_over_time(0.7, {app=~".+"} | logfmt | unwrap v [50s]) without (level, level_extracted)',
    'stddev_over_time({app="web"} | logfmt | unwrap v [50s])',
    'rate_counter({app="web"} | logfmt | unwrap v [50s])',
    'topk(1, sum by (app, pod) (count_over_time({app=~".+"} [40s])))',
    'sum by (app) (count_over_time({app=~".+"}[40s])) / ignoring (app) group_left sum(rate({app="db"}[40s]))',
    'absent_over_time({app="web"} |= "warn" [9s])',
    'sum by (pod) (count_over_time({app="web"}[30s])) > 1 or sum by (pod) (count_over_time({app="db"}[30s]))',
    "vector(3) + 1",
)
COUNTS = (
    'sum by (app) (count_over_time({app=~".+"}[30s]))',
    'sum(rate({app=~".+"} |= "warn" [12s]))',
    'sum by (pod, level) (bytes_over_time({app=~".+"} | level="info" [45s] offset 10s))',
    'sum by (nosuch) (bytes_rate({app="web"}[7s]))',
    'absent_over_time({app="web"} |= "warn" [9s])',
)
PUSHED = (
    ("sum by (pod)", 'count_over_time({app=~".+"}[30s])'),
    ("sum without (pod)", 'bytes_rate({app=~".+"} | logfmt [30s])'),
    ("sum", 'sum_over_time({app=~".+"} | logfmt | unwrap v [30s])'),
    ("sum by (level)", 'rate({app=~".+"} | logfmt | unwrap v [30s])'),
    ("max by (app)", 'max_over_time({app=~".+"} | logfmt | unwrap v [30s])'),
    ("min by (app, v)", 'min_over_time({app=~".+"} | logfmt | unwrap v [30s])'),
    ("min without (pod)", 'min_over_time({app=~".+"} | logfmt | unwrap v [30s])'),
)


@pytest.mark.parametrize("text", QUERIES)
@settings(deadline=None, max_examples=25)
@given(lines=LINES, steps=STEPS, cut=st.integers(1, 4))
def test_answers_of_cut_steps_joined_are_the_whole(
    text: str, lines: list[LogLine], steps: LogSteps, cut: int
) -> None:
    source = LogMemorySource(lines)
    parts = [
        LogSteps(steps.start_ns + at * steps.step_ns, steps.step_ns, min(cut, steps.count - at))
        for at in range(0, steps.count, cut)
    ]
    whole = points(ask(text, source, steps))
    assert same(points(join_results([ask(text, source, part) for part in parts])), whole)


@pytest.mark.parametrize("text", COUNTS)
@settings(deadline=None, max_examples=40)
@given(lines=LINES, steps=STEPS)
def test_buckets_give_what_rows_give(text: str, lines: list[LogLine], steps: LogSteps) -> None:
    counting = CountingSource(lines)
    assert points(ask(text, counting, steps)) == points(ask(text, LogMemorySource(lines), steps))
    assert counting.asked == 1


@pytest.mark.parametrize(("above", "below"), PUSHED)
@settings(deadline=None, max_examples=25)
@given(lines=LINES, steps=STEPS)
def test_grouping_lines_at_once_changes_nothing(
    above: str, below: str, lines: list[LogLine], steps: LogSteps
) -> None:
    source = LogMemorySource(lines)
    later = points(ask(f"{above} ({below} * 1)", source, steps))
    assert same(points(ask(f"{above} ({below})", source, steps)), later)


def demanded(text: str) -> Demand:
    source = CountingSource([], counts=False)
    ask(text, source, at(60))
    (demand,) = source.demands
    return demand


def test_only_labels_of_groups_are_demanded() -> None:
    found = demanded('sum by (app) (count_over_time({job="a"} | json [5m]))')
    assert found == Demand(frozenset({"app"}), line=False)
    found = demanded('max(max_over_time({job="a"} | json | unwrap ms | level="x" [5m]))')
    assert found == Demand(frozenset({"ms", "level"}), line=False)
    assert demanded('max by (app) (count_over_time({job="a"} [5m]))') == Demand(None, line=False)
    assert demanded('bytes_rate({job="a"} [5m])') == Demand(None, line=True)


BROKEN = [LogLine((("app", "a"),), 10 * SECOND, '{"x":'), LogLine((("app", "a"),), 20 * SECOND, '{"x":"1"}')]


def test_an_error_names_all_labels_of_its_line_whatever_was_demanded() -> None:
    with pytest.raises(PipelineError, match="JSONParserErr") as raised:
        ask('sum by (x) (count_over_time({app="a"} | json [1m]))', LogMemorySource(BROKEN), at(30))
    assert 'app="a"' in raised.value.message
    assert raised.value.status == 400


def test_an_error_outside_of_all_windows_fails_nothing() -> None:
    source = LogMemorySource(BROKEN)
    found = points(ask('count_over_time({app="a"} | json [1s])', source, LogSteps(20 * SECOND, 1, 1)))
    assert found == {(("app", "a"), ("x", "1")): [1.0]}
    steps = LogSteps(5 * SECOND, 15 * SECOND, 2)
    assert points(ask('count_over_time({app="a"} | json [1s])', source, steps)) == {
        (("app", "a"), ("x", "1")): [None, 1.0]
    }


def test_more_series_than_allowed_are_refused() -> None:
    lines = [LogLine((("app", "a"), ("n", str(number))), SECOND, "x") for number in range(20)]
    with pytest.raises(LimitExceededError, match="more than 10 series"):
        ask('count_over_time({app="a"}[1m])', LogMemorySource(lines), at(1), Options(max_series=10))
    found = ask('sum(count_over_time({app="a"}[1m]))', LogMemorySource(lines), at(1), Options(max_series=10))
    assert points(found) == {(): [20.0]}


def test_numbers_are_scalars_at_one_time_and_series_over_many() -> None:
    assert isinstance(ask("1 + 1", LogMemorySource(), at(1)).value, Scalar)
    assert points(ask("1 + 1", LogMemorySource(), LogSteps(0, SECOND, 3))) == {(): [2.0, 2.0, 2.0]}


@pytest.mark.parametrize(("text", "order"), [("sort", ["b", "a", "c"]), ("sort_desc", ["c", "a", "b"])])
def test_sorted_series_of_one_time_keep_their_order(text: str, order: list[str]) -> None:
    counts = {"a": 2, "b": 1, "c": 3}
    lines = [LogLine((("app", app),), SECOND, "x") for app, count in counts.items() for _ in range(count)]
    found = ask(f'{text}(count_over_time({{app=~".+"}}[1m])) * 2', LogMemorySource(lines), at(1))
    assert isinstance(found.value, Vector)
    assert found.is_ordered
    assert [dict(labels)["app"] for labels in found.value.labels] == order


def test_the_same_range_is_read_once() -> None:
    source = CountingSource([LogLine((("app", "a"),), SECOND, "x")])
    text = 'sum(count_over_time({app="a"}[1m]))'
    assert points(ask(f"{text} / ({text} + {text})", source, at(1))) == {(): [0.5]}
    assert source.asked == 1


def at(second: int) -> LogSteps:
    return LogSteps(second * SECOND)
