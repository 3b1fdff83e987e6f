"""Rollups are read where they cost less than samples, as far as the index can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from lakerunner_query.coordinator.engine import NOTHING_TO_DO, Limits, PreparedQuery
from lakerunner_query.coordinator.explain import explain_promql
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.promql import (
    PromQLPlan,
    PromQLRequest,
    cut_promql,
    narrow_rollups,
    rollups_to_read,
)
from lakerunner_query.plan.costs import Choice, choices, functions
from lakerunner_query.plan.promql import Reads, reads
from lakerunner_query.promql.lang.bind import bind
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.vectors.vector import Steps
from lakerunner_query.windows.functions import Function
from resources.index.types import Partition, Segment, TierView
from resources.lake.frequency import AS_SENT, FIVE_MINUTES, HOUR
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS

HOURS = range(8)
STEPS = Steps(HOUR, HOUR, len(HOURS))
"""Steps whose windows of an hour are those hours."""
SAMPLES = 24_000


def segment(frequency_ms: int, hour: int, rows: int, hours: int = 1) -> Segment:
    start = hour * HOUR_NS
    return Segment(
        f"{frequency_ms}-{hour}", "k", "o", "c", Signal.METRICS, "metrics", frequency_ms, start,
        hours * HOUR_NS, start + 1, start + hours * HOUR_NS, rows, rows, 0, "", 1, 1, (), (), (), 0, 0, 0, 0,
    )  # fmt: skip


def tiers(rollup_rows: int, *, files: int = len(HOURS), hours: Sequence[int] = HOURS) -> TierView:
    """Samples, and one rollup of these hours in so many files."""
    partitions = [Partition("o", Signal.METRICS, AS_SENT, h * HOUR_NS, 3, {}, 0) for h in HOURS]
    for frequency in (10_000, 60_000, FIVE_MINUTES):
        partitions += [
            Partition("o", Signal.METRICS, frequency, h * HOUR_NS, 3, {h * HOUR_NS: 3}, 0) for h in hours
        ]
    each = len(HOURS) // files
    rolled = [segment(FIVE_MINUTES, h, rollup_rows * each, each) for h in range(0, len(HOURS), each)]
    return TierView(tuple(partitions), tuple([segment(AS_SENT, h, SAMPLES) for h in HOURS] + rolled))


def compare(text: str, view: TierView, *, matched: Sequence[Segment] | None = None) -> Choice:
    """Return the choice between samples and the rollup of five minutes."""
    expr = bind(parse(text), STEPS.start_ms, STEPS.end_ms, HOUR)
    mine = [one for one in view.segments if one.frequency_ms == AS_SENT] if matched is None else matched
    loads = [(read, mine) for read in reads(expr, STEPS, 300_000, 60_000)]
    return next(one for one in choices(expr, loads, view) if one.rollup.frequency_ms == FIVE_MINUTES)


def test_the_rows_decide() -> None:
    assert compare("rate(m[1h])", tiers(SAMPLES // 60)).is_read
    assert not compare("rate(m[1h])", tiers(SAMPLES // 4)).is_read


def test_a_function_of_few_columns_reads_rollups_that_a_rate_does_not() -> None:
    view = tiers(SAMPLES // 15)
    assert compare("count_over_time(m[1h])", view).is_read
    assert not compare("rate(m[1h])", view).is_read


def test_files_cost_too() -> None:
    rows = SAMPLES // 18
    assert compare("rate(m[1h])", tiers(rows, files=1)).is_read
    assert not compare("rate(m[1h])", tiers(rows)).is_read


def test_a_metric_in_few_segments_is_few_rows_of_the_rollup_too() -> None:
    few = [segment(AS_SENT, hour, SAMPLES // 10) for hour in HOURS]
    whole, part = compare("rate(m[1h])", tiers(1000)), compare("rate(m[1h])", tiers(1000), matched=few)
    assert (whole.rollup.rows, part.rollup.rows) == (8000, 800)
    assert part.samples.rows == len(HOURS) * SAMPLES // 10


def test_samples_that_are_gone_are_not_read() -> None:
    view = tiers(SAMPLES)
    assert not compare("rate(m[1h])", view).is_read
    first = replace(view.partitions[0], expired=True)
    assert compare("rate(m[1h])", replace(view, partitions=(first, *view.partitions[1:]))).is_read
    only = tuple(one for one in view.segments if one.frequency_ms != AS_SENT)
    assert compare("rate(m[1h])", replace(view, segments=only)).is_read


def test_the_time_that_a_rollup_covers_counts() -> None:
    half = compare("rate(m[1h])", tiers(100, hours=HOURS[:4]))
    assert half.starts == tuple(hour * HOUR_NS for hour in HOURS[:4])
    assert half.samples.rows == pytest.approx(4 * SAMPLES, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m", [Function.INSTANT]),
        ("sum(rate(m[1h])) / avg_over_time(n[1h])", [Function.RATE, Function.AVG]),
        ("absent_over_time(m[1h])", [Function.PRESENT]),
        ("quantile_over_time(0.5, m[1h])", []),
        ("abs(m)", [Function.INSTANT]),
    ],
)
def test_functions_that_rollups_answer(text: str, expected: list[Function]) -> None:
    assert list(functions(parse(text))) == expected


def prepared(view: TierView) -> PreparedQuery[Any, Any, Any, Any]:
    expr = bind(parse("rate(m[1h])"), STEPS.start_ms, STEPS.end_ms, HOUR)
    read = reads(expr, STEPS, 300_000, 60_000)
    request = PromQLRequest("o", STEPS.start_ms, STEPS.end_ms, HOUR)
    mine = tuple(one for one in view.segments if one.frequency_ms == AS_SENT)
    plan = PromQLPlan(expr, STEPS, read, (FIVE_MINUTES,))
    return PreparedQuery(cast("Any", PROMQL), "rate(m[1h])", request, plan, (mine,), view, 0.0, 60.0, 0)


def test_an_explanation_names_both_estimates() -> None:
    query = prepared(tiers(SAMPLES // 60))
    cut = cut_promql(query, 1, Limits(60.0))
    lines = [line for line in explain_promql(query, cut) if line.startswith("rollup 300000 ms")]
    assert lines == [
        "rollup 300000 ms: 8 files, 3200 rows of 11 columns, 10.3 ms, "
        "samples: 8 files, 192000 rows of 2 columns, 11.9 ms: read"
    ]
    dear = prepared(tiers(SAMPLES // 4))
    assert any(line.endswith(": not read") for line in explain_promql(dear, NOTHING_TO_DO))


def test_slices_get_the_rollups_of_their_time() -> None:
    found = rollups_to_read(prepared(tiers(SAMPLES // 60)))
    assert [one.frequency_ms for one in found][-1] == FIVE_MINUTES
    narrowed = narrow_rollups(found, [Reads((), 5 * HOUR, 6 * HOUR)])
    assert narrowed[-1].starts == (5 * HOUR_NS,)
    assert [one.segment_id for one in narrowed[-1].segments] == [f"{FIVE_MINUTES}-5"]
