"""Slices of a metric query: how steps are cut, what they read, and how their answers become one."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.coordinator.locate import samples_query
from lakerunner_query.coordinator.merge import SampleMerge, SampleResult
from lakerunner_query.errors import EvaluationError
from lakerunner_query.plan import slices
from lakerunner_query.plan.promql import reads, rollups_for
from lakerunner_query.plan.slices import steady_parts
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.protocol.answers import MetricAnswer, Note, RenderedSeries
from lakerunner_query.protocol.units import Missing, UnitReport
from lakerunner_query.vectors.vector import Steps

HOUR = 3_600_000
A, B = (("__name__", "m"), ("x", "a")), (("__name__", "n"), ("x", "a"))


def series(labels: tuple[tuple[str, str], ...], *times: int, drop: bool = False) -> RenderedSeries:
    return RenderedSeries(labels, drop, b",".join(b'[%d,"1"]' % t for t in times), b"", len(times))


def joined(*answers: tuple[RenderedSeries, ...]) -> SampleResult:
    collector = SampleMerge()
    for answer in answers:
        collector.add(MetricAnswer("vector", answer))
    return collector.result()


def test_the_examples_of_cutting() -> None:
    assert doctest.testmod(slices).failed == 0


@given(st.integers(0, 1000), st.integers(1, 400), st.integers(1, 20))
def test_parts_are_all_steps_once_in_order_and_never_a_single_one_of_many(
    start: int, count: int, parts: int
) -> None:
    steps = Steps(15 * start, 15, count)
    found = list(steady_parts(steps, parts))
    assert [t for part in found for t in part.steps.times_ms.tolist()] == steps.times_ms.tolist()
    assert min(parts, count // 2) - 1 <= len(found) <= 2.25 * parts + 2
    assert count == 1 or min(part.steps.count for part in found) > 1


@given(st.integers(0, 1000), st.integers(40, 400), st.integers(4, 9))
def test_a_query_that_moves_on_is_cut_at_the_same_times(start: int, count: int, parts: int) -> None:
    before = list(steady_parts(Steps(15 * start, 15, count), parts))
    after = list(steady_parts(Steps(15 * start + 15, 15, count), parts))
    assert set(before[2:-2]) <= set(after)  # but those at the ends, of which nothing may be left over


def test_a_series_goes_on_in_the_next_slice() -> None:
    found = joined((series(A, 1, 2),), (series(A, 3),))
    assert [(s.labels, json.loads(b"[" + s.floats + b"]")) for s in found.series] == [
        (A, [[1, "1"], [2, "1"], [3, "1"]])
    ]


def test_names_go_when_all_slices_are_in_and_series_without_them_become_one() -> None:
    found = joined((series(A, 1, drop=True), series(B, 2, drop=True)))
    assert [(s.labels, json.loads(b"[" + s.floats + b"]")) for s in found.series] == [
        ((("x", "a"),), [[1, "1"], [2, "1"]])
    ]


def test_two_samples_of_one_time_are_an_error() -> None:
    with pytest.raises(EvaluationError, match="same labelset"):
        joined((series(A, 1, drop=True),), (series(B, 1, drop=True),))


def test_missing_segments_and_notes_of_all_slices_are_told() -> None:
    collector = SampleMerge()
    note = Note("warning", "PromQL warning: odd", "PromQL warning: odd (1:1)", None, (0, 1))
    for name in ("s1", "s2"):
        report = UnitReport(missing=(Missing(name, "gone"),), rows_considered=5)
        collector.add(MetricAnswer("vector", (), "", (note,), False, 0, report))
    found = collector.result()
    assert sorted(found.missing) == ["s1", "s2"]
    assert [note.render("x") for note in found.annotations] == ["PromQL warning: odd (1:1)"]
    assert found.rows_considered == 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m", {"m": (-300_000, 3 * HOUR)}),
        ("rate(m[1h])", {"m": (-HOUR, 3 * HOUR)}),
        ("rate(m[1h] offset 1h)", {"m": (-2 * HOUR, 2 * HOUR)}),
        ("m @ 60", {"m": (60_000 - 300_000, 60_000)}),
        ("max_over_time(n[2h:1h])", {"n": (-2 * HOUR - HOUR - 300_000, 3 * HOUR)}),
        ("m / rate(m[1h])", {"m": (-HOUR, 3 * HOUR)}),
        ("m smoothed", {"m": (-300_000, 3 * HOUR + 300_000)}),
        ("rate(m[1h] smoothed)", {"m": (-HOUR - 300_000, 3 * HOUR + 300_000)}),
        ("rate(m[1h] anchored)", {"m": (-HOUR - 300_000, 3 * HOUR)}),
        ("a or b", {"a": (-300_000, 3 * HOUR), "b": (-300_000, 3 * HOUR)}),
        ("vector(1)", {}),
    ],
)
def test_what_is_read_covers_every_window(text: str, expected: dict[str, tuple[int, int]]) -> None:
    expr = bind(parse(text), 0, 3 * HOUR, HOUR)
    found = reads(expr, Steps(0, HOUR, 4), 300_000, 60_000)
    assert {read.matchers[0].value: (read.from_ms, read.to_ms) for read in found} == expected


@pytest.mark.parametrize(
    ("text", "before_ms"),
    [
        ("sum(m)", 0),
        ("histogram_count(m)", 300_000),
        ("histogram_sum(sum(rate(m[1h])))", 300_000),
        ("histogram_count(m) + m", 300_000),
        ("histogram_quantile(0.5, m)", 0),
        ("max_over_time(histogram_avg(m)[1h:1m])", 0),
    ],
)
def test_histograms_before_are_looked_up_where_resets_between_two_are_detected(
    text: str, before_ms: int
) -> None:
    expr = bind(parse(text), 0, 3 * HOUR, HOUR)
    (found,) = reads(expr, Steps(0, HOUR, 4), 300_000, 60_000)
    asked = samples_query("o", found)
    assert found.before_ms == before_ms
    assert asked.start_ns == (found.from_ms - before_ms) * 1_000_000 + 1


def test_info_series_are_read_too() -> None:
    expr = bind(parse("info(m)"), 0, HOUR, 60_000)
    found = {read.matchers[0].value for read in reads(expr, Steps(0, 60_000, 61), 300_000, 60_000)}
    assert found == {"m", "target_info"}


@pytest.mark.parametrize(
    ("text", "start", "step", "expected"),
    [
        ("increase(m[1h])", 0, HOUR, {"10s", "1m", "5m", "1h"}),
        ("increase(m[1h])", 60_000, HOUR, {"10s", "1m"}),
        ("rate(m[5m])", 0, 15_000, set()),
        ("rate(m[5m])", 1, HOUR, set()),
        ("rate(m[5m] offset 1s)", 0, HOUR, set()),
        ("rate(m[1h] smoothed)", 0, HOUR, set()),
    ],
)
def test_rollups_are_asked_for_only_where_windows_are_unions_of_their_buckets(
    text: str, start: int, step: int, expected: set[str]
) -> None:
    from resources.lake.frequency import rollup_of

    steps = Steps(start, step, 25)
    expr = bind(parse(text), steps.start_ms, steps.end_ms, step)
    assert {rollup_of(f).label for f in rollups_for(expr, steps, 300_000)} == expected
