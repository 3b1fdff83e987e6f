"""What a metric query over logs reads, how it can be answered, and how its steps are cut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lakerunner_query.logql.lang.ast import LogQuery, SampleExpr
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.plan.logql_samples import COUNTED, ROW_BY_ROW, LogReads, log_reads, ways
from lakerunner_query.plan.slices import LogSliceSizes, cut_log_steps, overlapping_segments
from resources.index.types import Segment

S = 1_000_000_000


def samples(text: str) -> SampleExpr:
    expr = parse_expr(text)
    assert not isinstance(expr, LogQuery)
    return expr


def segment(start_ns: int, end_ns: int, rows: int = 1000) -> Segment:
    return cast("Segment", SimpleNamespace(min_ns=start_ns, max_ns=end_ns, rows=rows))


@pytest.mark.parametrize(
    ("text", "stretches"),
    [
        ('rate({a="b"}[10s])', [(90, 160)]),
        ('sum(rate({a="b"}[10s] offset 5s))', [(85, 155)]),
        ('rate({a="b"}[10s]) / rate({a="b"}[30s])', [(70, 160)]),
        ('rate({a="b"}[10s]) / rate({a="b"} |= "x" [30s])', [(90, 160), (70, 160)]),
        ('label_replace(rate({a="b"}[10s]), "x", "$1", "a", "(.*)")', [(90, 160)]),
        ("vector(1) + 1", []),
    ],
)
def test_stretches_of_time(text: str, stretches: list[tuple[int, int]]) -> None:
    found = log_reads(samples(text), LogSteps(100 * S, 10 * S, 7))
    assert [(read.from_ns, read.to_ns) for read in found] == [(a * S, b * S) for a, b in stretches]


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ('sum by (a) (count_over_time({a="b"}[1m]))', COUNTED),
        ('sum(rate({a="b"} |= "x" != "y" | c="d" [1m]))', COUNTED),
        ('sum(bytes_rate({a="b"}[1m]))', COUNTED),
        ('count_over_time({a="b"}[1m])', ROW_BY_ROW),  # by all labels there are
        ('sum without (a) (rate({a="b"}[1m]))', ROW_BY_ROW),
        ('sum by (a) (count_over_time({a="b"} | json [1m]))', ROW_BY_ROW),
        ('sum by (a) (count_over_time({a="b"} |> "x <_>" [1m]))', ROW_BY_ROW),
        ('sum by (a) (count_over_time({a="b"} | c > 5 [1m]))', ROW_BY_ROW),
        ('sum(sum_over_time({a="b"} | unwrap c [1m]))', ROW_BY_ROW),
        ('max by (a) (count_over_time({a="b"}[1m]))', ROW_BY_ROW),
    ],
)
def test_ways_to_answer(text: str, way: str) -> None:
    assert [found for found, _ in ways(samples(text))] == [way]


def test_steps_are_cut_for_workers_and_not_within_windows() -> None:
    steps = LogSteps(60 * S, 60 * S, 60)
    sizes = LogSliceSizes(rows=1000, at_least=100)
    query = cast("LogQuery", None)
    narrow = [(LogReads(query, 0, 3600 * S), [segment(0, 3600 * S, 4000)])]
    parts = cut_log_steps(steps, narrow, 2, sizes)
    assert len(parts) >= 4
    assert sum(part.steps.count for part in parts) == 60
    assert parts[0].steps.start_ns == steps.start_ns
    assert parts[-1].steps.end_ns == steps.end_ns
    wide = [(LogReads(query, -86_400 * S, 3600 * S), [segment(0, 3600 * S, 4000)])]
    assert len(cut_log_steps(steps, wide, 1, sizes)) <= 2  # at a steady border, not four times
    few = [(LogReads(query, 0, 3600 * S), [segment(0, 3600 * S, 50)])]
    assert len(cut_log_steps(steps, few, 2, sizes)) == 1


def test_a_part_needs_the_segments_of_its_windows_only() -> None:
    query = cast("LogQuery", None)
    before, inside, behind = segment(0, 10), segment(11, 20), segment(21, 30)
    assert overlapping_segments([LogReads(query, 10, 20)], [[before, inside, behind]]) == [[inside]]
    wider = [LogReads(query, 9, 21), LogReads(query, 10, 20)]
    assert overlapping_segments(wider, [[before, inside, behind], [before]]) == [[before, inside, behind], []]
