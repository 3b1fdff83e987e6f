"""Derived metrics that cannot be what they say are refused with the line."""

from __future__ import annotations

import pytest

from lakerunner_query.rules.derived import clashes, doubts_of
from lakerunner_query.rules.documents import DerivedMetric
from lakerunner_query.rules.rule_files import FileForm, read_file
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS

FULL = b"""
materialize:
- metric: shop_errors
  from: logs
  select: '{app="shop"} | json | __error__="" | level="error"'
  keep: [service_name, region]
  value: duration(took)
  since: 2026-01-01
"""
LOGS, SPANS, SAMPLES = Signal.LOGS, Signal.TRACES, Signal.METRICS


def faults(source: Signal, select: str, **more: str) -> list[str]:
    keys = {"metric": "m", "from": source.value, "select": f"'{select}'", **more}
    text = "materialize:\n- " + "\n  ".join(f"{name}: {value}" for name, value in keys.items())
    return [fault.at("f") for fault in read_file(text.encode()).faults]


def test_a_metric_is_read_with_everything_it_may_have() -> None:
    (found,) = read_file(FULL).require().derived
    assert found == DerivedMetric(
        "shop_errors",
        LOGS,
        '{app="shop"} | json | __error__="" | level="error"',
        ("service_name", "region"),
        "duration(took)",
        1_767_225_600 * 10**9,
    )
    assert found.line == 3
    assert found.since_ns is not None
    assert found.since_ns % HOUR_NS == 0


@pytest.mark.parametrize(
    ("source", "select", "more"),
    [
        (LOGS, '{a="b"} |= "x"', {}),
        (LOGS, '{a="b"} | logfmt | level="error" | pattern "<a> <b>"', {"value": "bytes(size)"}),
        (LOGS, '{a="b"} | json | drop __error__', {"value": "line_bytes()"}),
        (LOGS, '{a="b"}', {"value": "'duration(x) | __error__=``'"}),
        (LOGS, '{a="b"} | json | status >= 500 | __error__=""', {}),
        (LOGS, '{a="b"} | line_format "{{.x}}"', {}),
        (SPANS, "{ kind = server } && { name = `x` }", {"keep": "[name, resource.service.name]"}),
        (SPANS, "{ }", {"value": "span.http.size", "keep": "[status]"}),
        (SAMPLES, 'requests_total{job="a"}', {"keep": "[job]", "value": "sample"}),
    ],
)
def test_selections_of_each_signal_are_taken(source: Signal, select: str, more: dict[str, str]) -> None:
    assert faults(source, select, **more) == []


@pytest.mark.parametrize(
    ("source", "select", "more", "message"),
    [
        (LOGS, '{a="b"} | line_format "{{ now | unixEpoch }}"', {}, "reads the clock"),
        (LOGS, 'rate({a="b"}[1m])', {}, "a query for log lines was expected, this one gives samples"),
        (LOGS, '{a="b"', {}, 'f:4: metric "m": parse error at line 1, col 7'),
        (LOGS, '{a="b"}', {"value": "a b"}, "the value 'a b' cannot be unwrapped"),
        (LOGS, '{a="b"}', {"value": "'x [5m]) or vector(1'"}, "cannot be unwrapped"),
        (LOGS, '{a="b"}', {"value": "'x | json'"}, "cannot be unwrapped"),
        (LOGS, '{a="b"}', {"value": "'x [5m]) + sum_over_time({a=\"b\"} | unwrap x'"}, "cannot be unwrapped"),
        (LOGS, '{a="b"}', {"keep": "[a.b]"}, "f:5: metric \"m\": no event can have the label 'a.b'"),
        (LOGS, '{a="b"}', {"keep": "[__error__]"}, "no event can have the label '__error__'"),
        (LOGS, '{a="b"}', {"keep": "[a, b, a]"}, "'a' is kept twice"),
        (LOGS, '{a="b"}', {"keep": "a"}, "f:5: cannot unmarshal !!str `a` into []string"),
        (LOGS, '{a="b"}', {"since": "soon"}, "f:5: since 'soon': expected a date such as 2026-01-01"),
        (LOGS, '{a="b"}', {"owner": "me"}, "f:5: field owner not found in type DerivedMetric"),
        (LOGS, '{a="b"}', {"metric": "a-b"}, "the name of a metric has letters"),
        (LOGS, '{a="b"}', {"from": "events"}, "from 'events': expected one of"),
        (SPANS, "{ } | rate()", {}, "expected a selection of spans"),
        (SPANS, "{ }", {"value": "name +"}, "the value 'name +' cannot be unwrapped"),
        (SPANS, "{ }", {"keep": "[span.a b]"}, "no event can have the label 'span.a b'"),
        (SPANS, "{ }", {"keep": "[span.a.b, span.a_b]"}, "'span.a.b' is kept twice"),
        (SAMPLES, "rate(up[1m])", {}, "expected a selector"),
        (SAMPLES, "up offset 5m", {}, "expected a selector"),
        (SAMPLES, "up", {"value": "duration"}, "of samples it is 'sample'"),
    ],
)
def test_what_cannot_be_derived_is_refused(
    source: Signal, select: str, more: dict[str, str], message: str
) -> None:
    found = faults(source, select, **more)
    assert any(message in one for one in found), found


def test_names_clash_with_each_other_and_with_what_is_there() -> None:
    metrics = [
        DerivedMetric("took", LOGS, "{}", value="took", line=2),
        DerivedMetric("took_count", LOGS, "{}", line=3),
        DerivedMetric("up", LOGS, "{}", line=4),
        DerivedMetric("again", SAMPLES, "took_max", line=5),
    ]
    assert [fault.at("f") for fault in clashes(metrics, {"up": "a metric that was sent"})] == [
        'f:3: metric "took_count": "took" has a series took_count, too',
        'f:4: metric "up": a metric that was sent has the name up',
        'f:5: metric "again": took_max is a derived metric itself',
    ]


def test_the_strict_form_knows_no_derived_metrics() -> None:
    (fault,) = read_file(FULL, FileForm(is_strict=True)).faults
    assert "field materialize not found" in fault.message


@pytest.mark.parametrize(
    ("select", "stage"),
    [
        ('{a="b"} | json', "| json"),
        ('{a="b"} | json | __error__="" | n > 5', "| n>5"),
        ('{a="b"} | logfmt --strict', "| logfmt --strict"),
        ('{a="b"} | unpack | drop __error__="x"', "| unpack"),
        ('{a="b"} | line_format "{{ .x | int }}"', "| line_format"),
        ('{a="b"} | json | n > 5 | __error__=""', ""),
    ],
)
def test_lines_that_can_fail_are_worth_a_warning(select: str, stage: str) -> None:
    assert faults(LOGS, select) == []
    doubts = list(doubts_of(DerivedMetric("m", LOGS, select)))
    assert len(doubts) == bool(stage)
    assert all(f"a line on which `{stage}" in doubt for doubt in doubts)
