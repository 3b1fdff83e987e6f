"""Metrics of rules from traces and metrics say what TraceQL and PromQL say of the records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakerunner_assets.materialized.run import DeriveReport
from lakerunner_query.rules.documents import INCREASE, SAMPLE, DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.materialized.lake import arrive, derived_segments
from tests.support.materialized.rules import (
    declare,
    derive_rules,
    derived,
    due_hours,
    gaps,
    raw_samples,
    raw_spans,
)
from tests.support.materialized.spans import traces
from tests.support.rolling_lake import arrive as arrive_samples
from tests.support.rolling_lake import gauge

BY = ("resource.service.name", "kind", "status")
FAILED = DerivedMetric("failed", Signal.TRACES, "{ status = error }", BY)
SERVED = DerivedMetric(
    "served", Signal.TRACES, '{ kind = server && name != "b" }', ("name",), value="duration"
)
SPANS = {
    "failed": "{ status = error } | count_over_time() by (resource.service.name, kind, status)",
    "served": '{ kind = server && name != "b" } | sum_over_time(duration) by (name)',
    "served_count": '{ kind = server && name != "b" } | count_over_time() by (name)',
    "served_min": '{ kind = server && name != "b" } | min_over_time(duration) by (name)',
    "served_max": '{ kind = server && name != "b" } | max_over_time(duration) by (name)',
}
LOAD = DerivedMetric("load", Signal.METRICS, '{__name__="level"}', ("service_name",), value=SAMPLE)
SENT = DerivedMetric("sent", Signal.METRICS, '{__name__=~"level|other"}')
SAMPLES = {
    "load": "sum by (service_name) (sum_over_time(level[10s]))",
    "load_count": "sum by (service_name) (count_over_time(level[10s]))",
    "load_min": "min by (service_name) (min_over_time(level[10s]))",
    "load_max": "max by (service_name) (max_over_time(level[10s]))",
    "sent": 'sum(count_over_time({__name__=~"level|other"}[10s]))',
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def assert_spans_equal(lake: Lake) -> None:
    for metric, text in SPANS.items():
        found, expected = derived(lake, metric), raw_spans(lake, text)
        assert found.keys() == expected.keys(), metric
        assert found == pytest.approx(expected, rel=1e-12), metric
        assert found, metric


@pytest.mark.parametrize("slice_rows", [2_000_000, 40])
def test_rules_from_traces_equal_traceql(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, slice_rows: int
) -> None:
    """Spans come late, twice and without parents; the preset is derived beside the rules."""
    monkeypatch.setattr("lakerunner_assets.materialized.span_rules.SLICE_ROWS", slice_rows)
    declare(lake, FAILED, SERVED)
    calls = traces(random.Random(5), 60, HOUR)
    arrive(lake, "first", calls[::2])
    lake.cook(Signal.TRACES)
    derive_rules(lake, Signal.TRACES)
    arrive(lake, "late", calls[1::2])
    lake.cook(Signal.TRACES)
    report = DeriveReport()
    derive_rules(lake, Signal.TRACES, due_hours(lake, Signal.TRACES), report)
    assert_spans_equal(lake)
    assert not report.ineligible
    assert gaps(lake, Signal.TRACES, "failed") == ()
    own = [s.origin for s in derived_segments(lake) if s.hour_ns == HOUR]
    assert sorted(own) == ["derived-traces@2", "span-metrics@1"]


def test_rules_from_traces_do_without_the_preset(lake: Lake) -> None:
    lake.index.put_org_setting("acme", "span_metrics", False)
    declare(lake, FAILED, SERVED)
    arrive(lake, "first", traces(random.Random(6), 40, HOUR))
    lake.cook(Signal.TRACES)
    derive_rules(lake, Signal.TRACES)
    assert_spans_equal(lake)
    assert {s.origin for s in derived_segments(lake)} == {"derived-traces@2"}


def test_rules_about_whole_traces_stand_for_no_query(lake: Lake) -> None:
    declare(lake, DerivedMetric("below", Signal.TRACES, "{ kind = server } >> { kind = client }"))
    arrive(lake, "first", traces(random.Random(7), 40, HOUR))
    lake.cook(Signal.TRACES)
    report = DeriveReport()
    derive_rules(lake, Signal.TRACES, report=report)
    assert sum(derived(lake, "below").values()) > 0
    assert report.ineligible == [f"acme, below, {HOUR}: the rule looks at whole traces"]
    assert gaps(lake, Signal.TRACES, "below") == (HOUR,)


def test_kept_numbers_are_labels_but_stand_for_no_query(lake: Lake) -> None:
    declare(lake, DerivedMetric("ports", Signal.TRACES, "{ }", ("span.network.peer.port",)))
    arrive(lake, "first", traces(random.Random(8), 60, HOUR))
    lake.cook(Signal.TRACES)
    derive_rules(lake, Signal.TRACES)
    labels = {dict(labels).get("span_network_peer_port", "") for labels, _ in derived(lake, "ports")}
    assert labels == {"", "99"}
    assert gaps(lake, Signal.TRACES, "ports") == (HOUR,)


def test_rules_from_metrics_equal_promql(lake: Lake) -> None:
    declare(lake, LOAD, SENT)
    choose = random.Random(3)
    for number, (name, service) in enumerate((("level", "web"), ("level", "db"), ("other", "web"))):
        moments = sorted({HOUR + choose.randrange(1, 3_600_001) * 10**6 for _ in range(300)})
        samples = [(at, choose.random()) for at in [*moments, HOUR + HOUR_NS]]
        arrive_samples(lake, str(number), gauge(samples, name, service))
        lake.cook(Signal.METRICS)
        derive_rules(lake, Signal.METRICS, due_hours(lake, Signal.METRICS))
    arrive_samples(lake, "again", gauge(samples, "other", "web"))
    lake.cook(Signal.METRICS)
    derive_rules(lake, Signal.METRICS, due_hours(lake, Signal.METRICS))
    for metric, text in SAMPLES.items():
        found, expected = derived(lake, metric), raw_samples(lake, text)
        assert found.keys() == expected.keys(), metric
        assert found == pytest.approx(expected, rel=1e-12), metric
    assert due_hours(lake, Signal.METRICS) == []  # what was derived makes nothing due
    assert gaps(lake, Signal.METRICS, "load") == ()


def plain_increases(samples: list[tuple[int, float]], hour: int) -> dict[int, float]:
    """Return the sums of increases by end of the bucket in ms, one sample after the other."""
    found: dict[int, float] = {}
    for place, (at, value) in enumerate(samples):
        before = samples[place - 1] if place else (-(2**62), 0.0)
        grown = value if value < before[1] else value - before[1]
        grown = 0.0 if at - before[0] > 300 * SECOND else grown
        end = -(-at // (10 * SECOND)) * 10_000
        if hour < at <= hour + HOUR_NS:
            found[end] = found.get(end, 0.0) + grown
    return found


@pytest.mark.parametrize("seed", range(3))
def test_increases_cross_hours_and_resets_in_whatever_order_samples_come(lake: Lake, seed: int) -> None:
    """Two counters are sent in parts that come late; the label that tells them apart is dropped."""
    rule = DerivedMetric("grown", Signal.METRICS, "level", value=INCREASE)
    declare(lake, rule)
    choose = random.Random(seed)
    hours, parts, expected = (HOUR, HOUR + HOUR_NS), [], [{}, {}]
    for service in ("web", "db"):
        at, value, samples = HOUR + HOUR_NS - 900 * SECOND, 0.0, []
        while at < HOUR + HOUR_NS + 900 * SECOND:
            value = 0.0 if choose.random() < 0.05 else value + choose.randrange(9)
            samples.append((at, value))
            at += choose.choice((15, 15, 15, 60, 299, 301)) * SECOND
        parts += [(service, samples[first::3]) for first in range(3)]
        for found, hour in zip(expected, hours, strict=True):
            for end, grown in plain_increases(samples, hour).items():
                found[end] = found.get(end, 0.0) + grown
    choose.shuffle(parts)
    for number, (service, some) in enumerate(parts):
        for hour in hours:
            mine = [one for one in some if hour < one[0] <= hour + HOUR_NS]
            if mine:
                arrive_samples(lake, f"{number}-{hour}", gauge(mine, "level", service), hour)
        lake.cook(Signal.METRICS)
        if choose.random() < 0.7:
            derive_rules(lake, Signal.METRICS, due_hours(lake, Signal.METRICS))
    derive_rules(lake, Signal.METRICS, due_hours(lake, Signal.METRICS))
    found = {end: value for (_, end), value in derived(lake, "grown", 2).items()}
    assert found == expected[0] | expected[1]
    assert due_hours(lake, Signal.METRICS) == []


def test_rates_of_increases_add_up_over_windows(lake: Lake) -> None:
    declare(lake, DerivedMetric("grown", Signal.METRICS, "level", ("service_name",), value=INCREASE))
    samples = [(HOUR + at * SECOND, float(at % 1000)) for at in range(10, 3601, 10)]
    arrive_samples(lake, "a", gauge(samples))
    lake.cook(Signal.METRICS)
    derive_rules(lake, Signal.METRICS, due_hours(lake, Signal.METRICS))
    found = raw_samples(lake, "increase(grown[10m])")
    ends = [value for (_, end), value in found.items() if end % 600_000 == 0]
    assert (len(ends), sum(ends)) == (6, 990 * 3 + 600 - 10)


def test_rules_from_metrics_read_no_derived_metrics(lake: Lake) -> None:
    declare(
        lake,
        DerivedMetric("all", Signal.METRICS, '{__name__=~".+"}'),
        DerivedMetric("first", Signal.METRICS, "level"),
    )
    arrive_samples(lake, "o", gauge([(HOUR + SECOND, 1.0)]))
    lake.cook(Signal.METRICS)
    derive_rules(lake, Signal.METRICS)
    derive_rules(lake, Signal.METRICS, force=True)
    assert sum(derived(lake, "all").values()) == 1
