"""Recorded metrics are what a query over today's data would give, hour by hour."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakerunner_assets.recorded.run import RecordReport
from lakerunner_query.rules.documents import RuleLanguage
from resources.index.rule_types import DropRule, RuleKind
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, SECOND, Lake, lake_in
from tests.support.materialized.lake import derived_segments
from tests.support.otlp_logs import otlp_logs
from tests.support.recorded import MINUTE_MS, asked, declare, due, ended, group, record, recorded
from tests.support.rolling_lake import arrive, every, gauge

NEXT = HOUR + HOUR_NS
HOUR_MS = HOUR // 1_000_000
MINUTES = [HOUR_MS + minute * MINUTE_MS for minute in range(1, 61)]
LATER = [at + 60 * MINUTE_MS for at in MINUTES]
AVERAGE = "sum by (service_name) (avg_over_time(level[5m]))"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def send(lake: Lake, name: str, seconds: int = 15, hour: int = HOUR, **more: object) -> None:
    arrive(lake, name, gauge(every(seconds, hour, **more)), hour)  # type: ignore[arg-type]
    lake.cook(Signal.METRICS)


def test_samples_are_answers_at_every_interval(lake: Lake) -> None:
    declare(lake, group("g", level__avg=AVERAGE), group("slow", interval_ms=600_000, slow="level"))
    send(lake, "a")
    (done,) = record(lake)
    assert recorded(lake, "level:avg") == asked(lake, AVERAGE, MINUTES)
    assert recorded(lake, "slow") == asked(lake, "level", MINUTES[9::10])
    assert done.rows == 66


def test_late_samples_and_the_hours_after_them_are_recorded_again(lake: Lake) -> None:
    declare(lake, group("g", level__avg=AVERAGE))
    for hour in (HOUR, NEXT):
        send(lake, f"a{hour}", hour=hour)
        record(lake, hour)
    assert due(lake) == []
    send(lake, "late", 15, offset=7 * SECOND)
    assert due(lake) == [HOUR, NEXT]  # the last sample is of the next hour
    record(lake, HOUR)
    record(lake, *due(lake))
    assert due(lake) == []
    assert recorded(lake, "level:avg") == asked(lake, AVERAGE, MINUTES + LATER)


def test_an_hour_that_looks_back_is_due_after_the_one_before(lake: Lake) -> None:
    declare(lake, group("g", level__avg="sum(sum_over_time(level[30m]))"))
    for hour in (HOUR, NEXT):
        send(lake, f"a{hour}", hour=hour)
        record(lake, hour)
    arrive(lake, "late", gauge([(NEXT - 600 * SECOND, 1000.0)], service="late"))
    lake.cook(Signal.METRICS)
    assert due(lake) == [HOUR]
    assert [one.hour_ns for one in record(lake, HOUR)] == [HOUR]
    assert due(lake) == [NEXT]
    record(lake, NEXT)
    assert due(lake) == []
    assert recorded(lake, "level:avg") == asked(lake, "sum(sum_over_time(level[30m]))", MINUTES + LATER)


def test_chains_see_this_hour_and_the_one_before(lake: Lake) -> None:
    declare(
        lake,
        group("b", twice="level:avg * 2", back="sum(max_over_time(level:avg[10m]))"),
        group("a", level__avg=AVERAGE),
    )
    for hour in (HOUR, NEXT):
        send(lake, f"a{hour}", hour=hour)
        record(lake, hour)
    assert recorded(lake, "twice") == asked(lake, f"2 * {AVERAGE}", MINUTES + LATER)
    assert recorded(lake, "back") == asked(lake, "sum(max_over_time(level:avg[10m]))", MINUTES + LATER)


def test_series_that_end_are_marked(lake: Lake) -> None:
    declare(lake, group("g", level__avg="level"))
    send(lake, "a", length=30 * 60 * SECOND)
    record(lake)
    assert recorded(lake, "level:avg").keys() == asked(lake, "level", MINUTES).keys()
    assert ended(lake, "level:avg") == [HOUR_MS + 35 * MINUTE_MS]


def test_a_series_that_ended_with_the_hour_before_is_marked(lake: Lake) -> None:
    declare(lake, group("g", level__avg="level > 100"))
    arrive(lake, "a", gauge([(NEXT - SECOND, 200.0), (NEXT + SECOND, 1.0)]))
    lake.cook(Signal.METRICS)
    record(lake, HOUR)
    record(lake, NEXT)
    assert [key[1] for key in recorded(lake, "level:avg")] == [HOUR_MS + 60 * MINUTE_MS]
    assert ended(lake, "level:avg") == [HOUR_MS + 61 * MINUTE_MS]


def test_rules_over_logs(lake: Lake) -> None:
    text = 'sum by (service_name) (count_over_time({service_name="shop"} |= "error" [5m]))'
    declare(lake, group("l", RuleLanguage.LOGQL, errors=text))
    lines = [(HOUR + minute * 60 * SECOND, f"error {minute}") for minute in range(1, 31)]
    lake.arrive("a", otlp_logs(lines))
    lake.cook()
    assert due(lake) == [HOUR]
    record(lake)
    found = {at: value for (_, at), value in recorded(lake, "errors").items()}
    assert found == {
        HOUR_MS + minute * MINUTE_MS: float(min(minute, 5, 35 - minute)) for minute in range(1, 35)
    }


def test_a_rule_that_fails_fails_alone(lake: Lake) -> None:
    declare(lake, group("g", bad="level * on () group_left level", good="level"))
    send(lake, "a")
    arrive(lake, "b", gauge(every(15), service="other"))
    lake.cook(Signal.METRICS)
    report = RecordReport()
    record(lake, report=report)
    assert recorded(lake, "bad") == {}
    assert len(recorded(lake, "good")) == 120
    (failure,) = report.rules_failed
    assert failure.startswith(f"acme, bad of g, {HOUR}: ")
    assert report.failed == []


def test_hours_that_are_current_empty_or_forced(lake: Lake) -> None:
    declare(lake, group("g", good="level"))
    send(lake, "a")
    report = RecordReport()
    assert len(record(lake, HOUR, HOUR - 5 * HOUR_NS, report=report)) == 1
    assert record(lake, report=report) == []
    assert report.current == 1
    assert len(record(lake, force=True)) == 1
    assert len(derived_segments(lake)) == 2


def test_changed_and_deleted_rules(lake: Lake) -> None:
    declare(lake, group("g", good="level"))
    send(lake, "a")
    record(lake)
    declare(lake, group("g", good="level * 2"))
    record(lake)
    assert recorded(lake, "good") == asked(lake, "level * 2", MINUTES)
    lake.index.change_rules("acme", [DropRule(RuleKind.GROUP, "rules.yml", "g")], None)
    record(lake)
    assert recorded(lake, "good") == {}
    assert [one.origin for one in derived_segments(lake)] == [""]
    report = RecordReport()
    assert record(lake, report=report, force=True) == []
    assert report.off == ["acme"]


def test_samples_that_arrive_meanwhile_leave_the_hour_due(lake: Lake) -> None:
    declare(lake, group("g", good="level"))
    send(lake, "a")
    lake.tasks.before = lambda: (setattr(lake.tasks, "before", bool), send(lake, "b", offset=SECOND))
    record(lake)
    assert HOUR in due(lake)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_comes_whenever_the_end_is_the_same(lake: Lake, seed: int) -> None:
    """Samples of four hours come in any order, hours are recorded now and then, others write meanwhile."""
    choose = random.Random(seed)
    texts = {
        "level:avg": AVERAGE,
        "chained": "sum(max_over_time(level:avg[20m])) + count(level offset 1h)",
        "long": "sum by (service_name) (sum_over_time(level[90m]))",
    }
    records = {name.replace(":", "__"): text for name, text in texts.items()}
    declare(lake, group("late", chained=records.pop("chained")), group("g", **records))

    def come(name: str, hours: int = 4) -> None:
        start = HOUR + choose.randrange(hours * 60) * 60 * SECOND
        values = [(start + choose.randrange(40 * 60) * SECOND, float(choose.randrange(9))) for _ in range(30)]
        arrive(lake, name, gauge(sorted(set(values)), service=choose.choice(("web", "shop"))))
        lake.cook(Signal.METRICS)

    for number in range(10):
        come(f"a{number}")
        if waiting := due(lake):
            if choose.random() < 0.3:
                lake.tasks.before = lambda number=number: (  # type: ignore[misc]
                    setattr(lake.tasks, "before", bool),
                    come(f"meanwhile-{number}"),
                )
            record(lake, *choose.sample(waiting, choose.randint(1, len(waiting))))
            lake.tasks.before = bool
    for hours in (4, 1, 2):  # all is current, and then something comes late
        come(f"late-{hours}", hours)
        for _ in range(20):
            if waiting := due(lake):
                record(lake, *waiting)
        assert due(lake) == []
    times = [HOUR_MS + minute * MINUTE_MS for minute in range(1, 6 * 60)]
    built = {one.hour_ns // 1_000_000 for one in derived_segments(lake) if one.origin}
    for name, text in texts.items():
        expected = asked(lake, text, times)
        inside = {key: value for key, value in expected.items() if _hour_of(key[1]) in built}
        assert recorded(lake, name) == pytest.approx(inside, rel=1e-12), name


def _hour_of(at_ms: int) -> int:
    return HOUR_MS + (at_ms - 1 - HOUR_MS) // (60 * MINUTE_MS) * 60 * MINUTE_MS


def test_a_segment_that_is_gone_costs_no_fetching(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hour is planned again each time, and gives up while the index still names the segment."""
    declare(lake, group("g", level__avg=AVERAGE))
    for name in "abc":
        send(lake, name)
    (segment, *_) = lake.index.tier_view("acme", Signal.METRICS, [0], HOUR, NEXT).segments
    (lake.folder / "lake" / segment.key).unlink()
    fetched: list[object] = []
    monkeypatch.setattr("lakerunner_assets.metric_hours.task.fetch_segments", fetched.append)
    report = RecordReport()
    assert record(lake, report=report) == []
    assert report.failed == [f"acme: the hour {HOUR} kept changing, it stays due"]
    assert (fetched, due(lake)) == ([], [HOUR])
