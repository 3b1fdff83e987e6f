"""Metrics of rules from logs say what the raw lines say, whenever and however often these came."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_assets.materialized.run import DeriveReport
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric
from resources.index.rule_types import DropRule, RuleKind
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.materialized.lake import derived_segments
from tests.support.materialized.rules import declare, derive_rules, derived, due_hours, gaps, raw_logs
from tests.support.otlp_logs import otlp_logs

ERRORS = DerivedMetric("errors", Signal.LOGS, '{service_name=~"shop|cart"} |= "error"', ("service_name",))
EVERYTHING = DerivedMetric("lines", Signal.LOGS, '{service_name=~".+"}', ("service_name", "level"))
STATUS = DerivedMetric(
    "status", Signal.LOGS, '{service_name=~".+"} | logfmt | code >= 500', ("service_name", "code")
)
TOOK = DerivedMetric(
    "took", Signal.LOGS, '{service_name=~".+"} | logfmt | took != ""', ("service_name",), "duration(took)"
)
SIZES = DerivedMetric("sizes", Signal.LOGS, '{service_name="shop"} != "debug"', (), LINE_BYTES)
ALL = (ERRORS, EVERYTHING, STATUS, TOOK, SIZES)
TEXTS = {
    "errors": 'sum by (service_name) (count_over_time({service_name=~"shop|cart"} |= "error" [10s]))',
    "lines": 'sum by (service_name, level) (count_over_time({service_name=~".+"} [10s]))',
    "status": 'sum by (service_name, code) (count_over_time({service_name=~".+"} | logfmt '
    "| code >= 500 [10s]))",
    "took": 'sum by (service_name) (sum_over_time({service_name=~".+"} | logfmt | took != "" '
    "| unwrap duration(took) [10s]))",
    "took_count": 'sum by (service_name) (count_over_time({service_name=~".+"} | logfmt | took != "" [10s]))',
    "took_min": 'min by (service_name) (min_over_time({service_name=~".+"} | logfmt | took != "" '
    "| unwrap duration(took) [10s]))",
    "took_max": 'max by (service_name) (max_over_time({service_name=~".+"} | logfmt | took != "" '
    "| unwrap duration(took) [10s]))",
    "sizes": 'sum(bytes_over_time({service_name="shop"} != "debug" [10s]))',
    "sizes_count": 'sum(count_over_time({service_name="shop"} != "debug" [10s]))',
}
WORDS = ("error", "debug", "ok", 'msg="an error"')


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def line(choose: random.Random, hours: int = 1) -> tuple[int, str]:
    at = HOUR + choose.choice((1, 10 * SECOND, 10 * SECOND + 1, choose.randrange(1, HOUR_NS + 1), HOUR_NS))
    took = f" took={choose.randrange(1, 4000)}ms" if choose.random() < 0.7 else ""
    text = f"code={choose.choice((200, 404, 500, 503))}{took} {choose.choice(WORDS)}"
    return at + choose.randrange(hours) * HOUR_NS, text


def arrive(lake: Lake, name: str, lines: list[tuple[int, str]], service: str = "shop") -> None:
    lake.arrive(name, otlp_logs(lines, service))
    lake.cook()


def assert_equal(lake: Lake, hours: int = 1) -> None:
    """Compare every form of every metric with the raw query."""
    for metric, text in TEXTS.items():
        expected, found = raw_logs(lake, text, hours), derived(lake, metric, hours)
        assert found.keys() == expected.keys(), metric
        if metric == "took":
            assert found == pytest.approx(expected, rel=1e-12)
        else:
            assert found == expected, metric


def test_every_form_equals_the_raw_query(lake: Lake) -> None:
    choose = random.Random(1)
    declare(lake, *ALL)
    for number, service in enumerate(("shop", "cart", "web", "shop")):
        arrive(lake, str(number), [line(choose) for _ in range(120)], service)
    report = DeriveReport()
    (done,) = derive_rules(lake, Signal.LOGS, report=report)
    assert_equal(lake)
    assert not report.failed
    assert not report.ineligible
    assert {rule.metric for rule in done.rules} == {one.metric for one in ALL}
    assert len(derived_segments(lake)) == 1  # all rules of the hour in one segment
    assert due_hours(lake, Signal.LOGS) == []
    for one in ALL:
        assert gaps(lake, Signal.LOGS, one.metric) == ()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), steps=st.lists(st.sampled_from("ladr"), min_size=1, max_size=6))
def test_late_repeated_and_rebuilt_hours_equal_the_raw_query(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]
) -> None:
    """Lines arrive late or again, hours are derived between and rebuilt; then what is due is derived."""
    lake, choose = lake_in(tmp_path_factory.mktemp("lake")), random.Random(seed)
    declare(lake, *ALL)
    sent: list[list[tuple[int, str]]] = []
    for number, step in enumerate((*steps, "l")):
        if step == "l" or not sent:
            sent.append([line(choose, 2) for _ in range(20)])
            arrive(lake, f"o{number}", sent[-1], choose.choice(("shop", "cart")))
        elif step == "a":
            arrive(lake, f"again{number}", choose.choice(sent))
        elif step == "d":
            derive_rules(lake, Signal.LOGS, due_hours(lake, Signal.LOGS))
        else:
            lake.rebuild(HOUR)
    derive_rules(lake, Signal.LOGS, due_hours(lake, Signal.LOGS))
    assert due_hours(lake, Signal.LOGS) == []
    assert_equal(lake, 2)


def test_lines_with_errors_keep_the_hour_with_the_raw_query(lake: Lake) -> None:
    declare(lake, TOOK, ERRORS)
    arrive(lake, "o", [(HOUR + 5, "took=1s error"), (HOUR + 6, "took=soon")])
    report = DeriveReport()
    (done,) = derive_rules(lake, Signal.LOGS, report=report)
    by_name = {rule.metric: rule for rule in done.rules}
    assert (by_name["took"].errors, by_name["errors"].errors) == (1, 0)
    assert derived(lake, "took") == {((("service_name", "shop"),), (HOUR + 10 * SECOND) // 10**6): 1.0}
    assert gaps(lake, Signal.LOGS, "took") == (HOUR,)
    assert gaps(lake, Signal.LOGS, "errors") == ()
    assert report.ineligible == [f"acme, took, {HOUR}: 1 events with an error or without a number"]


def test_a_rule_with_too_many_series_has_none_in_that_hour(lake: Lake) -> None:
    lake.settings = replace(lake.settings, derived_max_series=2)
    declare(lake, STATUS, ERRORS, EVERYTHING)
    arrive(lake, "o", [(HOUR + n, f"code={500 + n} error") for n in range(1, 4)])
    report = DeriveReport()
    derive_rules(lake, Signal.LOGS, report=report)
    assert derived(lake, "status") == {}
    assert sum(derived(lake, "errors").values()) == 3
    assert report.ineligible == [f"acme, status, {HOUR}: more than 2 series"]
    assert gaps(lake, Signal.LOGS, "status") == (HOUR,)


def test_an_organisation_may_have_another_limit(lake: Lake) -> None:
    lake.index.put_org_setting("acme", "derived_max_series", 1)
    declare(lake, STATUS)
    arrive(lake, "o", [(HOUR + n, f"code={500 + n}") for n in range(1, 3)])
    report = DeriveReport()
    derive_rules(lake, Signal.LOGS, report=report)
    assert report.ineligible == [f"acme, status, {HOUR}: more than 1 series"]


def test_hours_without_rules_are_not_due(lake: Lake) -> None:
    arrive(lake, "o", [(HOUR + 5, "error")])
    assert lake.index.partitions("acme", Signal.LOGS, 1) == []
    declare(lake, DerivedMetric("spans", Signal.TRACES, "{}"))
    arrive(lake, "p", [(HOUR + 5, "error")])
    assert due_hours(lake, Signal.LOGS) == []


def test_a_new_rule_makes_hours_from_since_due(lake: Lake) -> None:
    arrive(lake, "o", [(HOUR + 5, "error"), (HOUR + HOUR_NS + 5, "error")])
    declare(lake, ERRORS)  # from the hour in which it is added, which is now
    assert due_hours(lake, Signal.LOGS) == []
    declare(lake, DerivedMetric("later", Signal.LOGS, ERRORS.select, since_ns=HOUR + HOUR_NS))
    assert due_hours(lake, Signal.LOGS) == [HOUR + HOUR_NS]
    derive_rules(lake, Signal.LOGS, [HOUR + HOUR_NS])
    assert gaps(lake, Signal.LOGS, "later", 2) == (HOUR,)
    derive_rules(lake, Signal.LOGS, [HOUR])  # a back-fill
    assert gaps(lake, Signal.LOGS, "later", 2) == ()
    assert due_hours(lake, Signal.LOGS) == []


def test_changed_and_deleted_rules_leave_no_samples_behind(lake: Lake) -> None:
    declare(lake, ERRORS, EVERYTHING)
    arrive(lake, "o", [(HOUR + 5, "error"), (HOUR + 6, "fine")])
    derive_rules(lake, Signal.LOGS)
    declare(lake, DerivedMetric("errors", Signal.LOGS, ERRORS.select))
    assert due_hours(lake, Signal.LOGS) == [HOUR]
    assert gaps(lake, Signal.LOGS, "errors") == (HOUR,)
    derive_rules(lake, Signal.LOGS)
    assert list(derived(lake, "errors")) == [((), (HOUR + 10 * SECOND) // 10**6)]
    lake.index.change_rules("acme", [DropRule(RuleKind.DERIVED, "", "errors")], None)
    assert due_hours(lake, Signal.LOGS) == [HOUR]
    derive_rules(lake, Signal.LOGS)
    assert derived(lake, "errors") == {}
    assert sum(derived(lake, "lines").values()) == 2
    lake.index.change_rules("acme", [DropRule(RuleKind.DERIVED, "", "lines")], None)
    derive_rules(lake, Signal.LOGS)
    assert derived_segments(lake) == []
    assert due_hours(lake, Signal.LOGS) == []


def test_a_rule_that_changes_while_an_hour_is_derived_leaves_it_due(lake: Lake) -> None:
    declare(lake, ERRORS)
    arrive(lake, "o", [(HOUR + 5, "error")])
    lake.tasks.before = lambda: declare(lake, EVERYTHING)
    derive_rules(lake, Signal.LOGS)
    lake.tasks.before = bool
    assert due_hours(lake, Signal.LOGS) == [HOUR]
    derive_rules(lake, Signal.LOGS)
    assert due_hours(lake, Signal.LOGS) == []
    assert sum(derived(lake, "lines").values()) == 1


def test_an_hour_that_is_current_is_not_derived_again(lake: Lake) -> None:
    declare(lake, ERRORS)
    arrive(lake, "o", [(HOUR + 5, "error")])
    assert len(derive_rules(lake, Signal.LOGS)) == 1
    report = DeriveReport()
    assert derive_rules(lake, Signal.LOGS, report=report) == []
    assert report.current == 1
    assert len(derive_rules(lake, Signal.LOGS, force=True)) == 1


def test_a_rule_that_cannot_be_evaluated_fails_no_other(lake: Lake) -> None:
    declare(lake, DerivedMetric("wrong", Signal.LOGS, '{service_name="shop"} | nonsense'), ERRORS)
    arrive(lake, "o", [(HOUR + 5, "error")])
    report = DeriveReport()
    derive_rules(lake, Signal.LOGS, report=report)
    assert sum(derived(lake, "errors").values()) == 1
    assert len(report.ineligible) == 1
    assert report.ineligible[0].startswith(f"acme, wrong, {HOUR}: ")
    assert not report.failed
