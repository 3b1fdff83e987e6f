"""Groups over a lake in one process: order of rules, languages, errors, restarts, and who is notified."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from lakerunner_query.ruler.questions import Asker
from lakerunner_query.ruler.recent import RecentSamples
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.rules.ruling import from_stored
from resources.index.postgres import IndexUnavailableError
from resources.index.rule_types import DropRule, RuleKind
from resources.index.ruling_types import AlertState, GroupRecord, Verdict
from resources.index.types import Intake, ObjectNotice
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.patience import until
from tests.support.query.lake import BASE, Lake, Line
from tests.support.query.metric_lake import labels, write_samples
from tests.support.query.ruled_lake import RuledLake
from tests.support.query.traces_lake import TracesLake

BASE_MS = BASE // 1_000_000
MINUTE = 60_000
AM, HOOK = "http://am:9093", "http://hook/path?token=secret"


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[RuledLake]:
    lake = Lake(tmp_path / "lake")
    lake.folder.mkdir()
    for org in ("acme", "beta"):
        lake.add_org(org, f"key-{org}")
    series = {
        labels("requests_total", job=job): [(15_000 * n, float(rate * n)) for n in range(120)]
        for job, rate in (("cart", 15), ("web", 60))
    }
    write_samples(lake, "acme", series)
    lake.write("acme", [Line(n * 10**9, "error in cart" if n % 2 else "fine") for n in range(600)])
    settings = Settings(
        data_dir=tmp_path, ruler_alertmanagers=AM, ruler_webhooks=HOOK, ruler_external_url="http://lake"
    )
    found = RuledLake(lake, tmp_path / "scratch", settings)
    yield found
    found.close()


def record(ruled: RuledLake, org: str = "acme") -> GroupRecord:
    (found,) = ruled.lake.index.group_records(org)
    return found


def active(ruled: RuledLake, org: str = "acme") -> list[dict[str, str]]:
    state = from_stored(record(ruled, org).state).group
    return [dict(alert.labels) for rule in state.rules for alert in rule.alerts if alert.phase != "inactive"]


def errors(ruled: RuledLake) -> list[str]:
    return [rule.error for rule in from_stored(record(ruled).state).group.rules]


def run(ruled: RuledLake, *rules: Any, minutes: tuple[int, ...] = (10,), **more: Any) -> None:
    ruled.apply("acme", "f.yaml", RuleGroup("g", rules, interval_ms=MINUTE, **more))
    ruled.look()
    for minute in minutes:
        ruled.evaluate(BASE_MS + minute * MINUTE)


def test_later_rules_see_the_results_of_earlier_ones(ruled: RuledLake) -> None:
    run(
        ruled,
        RecordingRule("job:rate", "sum by (job) (rate(requests_total[5m]))"),
        RecordingRule("all:rate", "sum(job:rate)"),
        AlertRule("Share", "job:rate / on () group_left all:rate > 0.7"),
        AlertRule("Mixed", "job:rate == on (job) rate(requests_total[5m]) and job:rate > 3"),
        AlertRule("Count", 'count(ALERTS{alertstate="firing"}) == 2'),
        AlertRule("Since", 'ALERTS_FOR_STATE{alertname="Share"}'),
    )
    assert errors(ruled) == [""] * 6
    assert [(one["alertname"], one.get("job")) for one in active(ruled)] == [
        ("Share", "web"), ("Mixed", "web"), ("Count", None), ("Since", "web"),
    ]  # fmt: skip


def test_ranges_over_recorded_series_see_earlier_evaluations_and_the_lake(ruled: RuledLake) -> None:
    stored = {labels("job:rate", job="web"): [(n * MINUTE, 1.0) for n in range(1, 5)]}
    write_samples(ruled.lake, "acme", stored)
    run(
        ruled,
        RecordingRule("job:rate", 'sum by (job) (rate(requests_total{job="web"}[2m]))'),
        AlertRule("Often", "count_over_time(job:rate[10m]) == 7"),
        AlertRule("Deep", "max_over_time(sum(job:rate)[10m:1m]) > 3.9"),
        minutes=(6, 7, 8),
    )
    assert errors(ruled) == ["", "", ""]
    assert [one["alertname"] for one in active(ruled)] == ["Often", "Deep"]


def test_a_subquery_over_own_and_other_series_is_refused(ruled: RuledLake) -> None:
    run(
        ruled,
        RecordingRule("a", "vector(1)"),
        AlertRule("Sub", "max_over_time((a + on () group_right requests_total)[5m:1m]) > 0"),
    )
    assert "others by a rule of their own" in errors(ruled)[1]


@pytest.mark.parametrize(
    ("language", "expr", "expected"),
    [
        (RuleLanguage.LOGQL, 'sum by (service_name) (count_over_time({service_name="web"}[1m])) > 9',
         {"service_name": "web"}),
        (RuleLanguage.LAKEQL, "SELECT service_name AS service, count(*) AS value FROM logs GROUP BY 1",
         {"service": "web"}),
    ],
)  # fmt: skip
def test_other_languages_alert_too(
    ruled: RuledLake, language: RuleLanguage, expr: str, expected: dict[str, str]
) -> None:
    run(ruled, AlertRule("Lines", expr), language=language, minutes=(5,))
    assert errors(ruled) == [""]
    assert active(ruled) == [{"alertname": "Lines", **expected}]
    (heard,) = [one for one in ruled.heard if one.url.startswith(AM)]
    view = "logs" if language is RuleLanguage.LOGQL else "sql"
    assert heard.body[0]["generatorURL"].startswith(f"http://lake/#view={view}&q=")


def test_spans_of_the_last_interval_alert(tmp_path: Path) -> None:
    lake = TracesLake(lake_in(tmp_path))
    found = RuledLake(cast("Lake", lake), tmp_path / "scratch", Settings(data_dir=tmp_path))
    rule = AlertRule("Failing", "{ status = error } | count_over_time() by (resource.service.name) > 0")
    group = RuleGroup("g", (rule,), RuleLanguage.TRACEQL, MINUTE)
    found.apply("acme", "f.yaml", group)
    found.look()
    first_ms = (HOUR + HOUR_NS) // 1_000_000
    seen = []
    for minute in (0, 1, 2):
        found.evaluate(first_ms + minute * MINUTE)
        seen.append([dict(one) for one in active(found)])
    assert errors(found) == [""]
    assert seen == [[], [{"alertname": "Failing", "resource.service.name": "db"}], []]
    found.close()


def test_a_statement_without_a_value_says_what_it_needs(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Lines", "SELECT count(*) AS n FROM logs"), language=RuleLanguage.LAKEQL)
    assert errors(ruled) == ["the statement of a rule needs a column 'value', found n"]


def test_an_answer_with_gaps_ends_no_alert(ruled: RuledLake) -> None:
    rule = AlertRule("Web", 'requests_total{job="web"} > 0')
    run(ruled, rule, minutes=(5, 6))
    assert len(active(ruled)) == 1
    for path in ruled.lake.folder.rglob("*.parquet"):
        path.unlink()
    ruled.ruler._questions = ruled.with_cold_workers()
    ruled.evaluate(BASE_MS + 7 * MINUTE)
    assert "no alert can be judged by it" in errors(ruled)[0]
    assert record(ruled).error == errors(ruled)[0]
    assert len(active(ruled)) == 1


def test_another_process_goes_on_from_the_stored_state(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Web", 'requests_total{job="web"} > 0', for_ms=2 * MINUTE), minutes=(5, 6))
    assert [one.state for one in ruled.lake.index.alert_changes("acme", 0, 2**62, 9)] == [AlertState.PENDING]
    ruled.lake.index.withdraw_ruler(ruled.ruler.owner)
    ruled.ruler = ruled.new_ruler()
    ruled.look()
    ruled.evaluate(BASE_MS + 7 * MINUTE)
    assert record(ruled).token == 2
    found = ruled.lake.index.alert_changes("acme", 0, 2**62, 9)
    assert [(one.state, one.at_ms - BASE_MS) for one in found] == [
        (AlertState.FIRING, 7 * MINUTE), (AlertState.PENDING, 5 * MINUTE),
    ]  # fmt: skip


def test_missed_evaluations_are_counted(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Web", "vector(1)"), minutes=(5, 6, 10))
    assert record(ruled).missed == 3
    ruled.evaluate(BASE_MS + 11 * MINUTE)
    assert record(ruled).missed == 3


def test_evaluations_look_back_as_long_as_data_takes_to_arrive(ruled: RuledLake) -> None:
    ruled.apply("acme", "f.yaml", RuleGroup("g", (AlertRule("Web", "vector(1)"),), interval_ms=1_000))
    hour_ns = time.time_ns() // HOUR_NS * HOUR_NS
    late = ObjectNotice("raw", "otel-raw/acme/c/logs/a", "acme", "c", Signal.LOGS, hour_ns, 10, "e1")
    arrived_s = time.time() - 45
    ruled.lake.index._clock = lambda: arrived_s
    ruled.lake.index.take_in(Intake("k", (late,)))
    ruled.lake.index._clock = time.time
    ruled.settings = replace(ruled.settings, ruler_delay_s=0.5, ruler_max_delay_s=3.0)
    ruled.ruler = ruled.new_ruler()
    ruled.ruler._clock = time.time

    async def work() -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(ruled.ruler.run(stop))
        await until(lambda: ruled.ruler.groups, "the claim of the group")
        await ruled.ruler.measure()
        await until(lambda: record(ruled).delay_s > 0.5, "an evaluation that looks back")
        stop.set()
        await running

    ruled.run(work())
    found = record(ruled)
    assert found.delay_s == 3, "the object waits for longer than any delay may be"
    assert time.time() * 1000 - found.evaluated_ms >= 3_000
    assert ruled.lake.index.beat_ruler("other", 1) == ["other"], "a ruler that ends says so"


def test_an_index_that_is_away_costs_evaluations_and_nothing_else(
    ruled: RuledLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(ruled, AlertRule("Web", "vector(1)"), minutes=(5,))
    (own,) = ruled.ruler.groups.values()

    def away(*_: object) -> bool:
        raise IndexUnavailableError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(ruled.lake.index, "write_evaluation", away)
        assert not ruled.run(ruled.ruler._evaluate(own, BASE_MS + 6 * MINUTE, 0.0))
    ruled.ruler.groups.clear()
    ruled.look()
    ruled.evaluate(BASE_MS + 7 * MINUTE)
    assert (record(ruled).missed, record(ruled).token) == (1, 2)
    assert len(ruled.lake.index.alert_changes("acme", 0, 2**62, 9)) == 1


def test_nothing_is_forgotten_before_the_first_look(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Web", "vector(1)"), minutes=(5,))
    now = ruled.lake.index._clock()
    ruled.lake.index._clock = lambda: now + 10 * 86_400
    ruled.run(ruled.new_ruler().sweep())
    assert record(ruled).evaluated_ms == BASE_MS + 5 * MINUTE


def test_an_old_owner_stops_and_changes_nothing(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Web", "vector(1)"), minutes=(5,))
    index = ruled.lake.index
    index.withdraw_ruler(ruled.ruler.owner)
    index.beat_ruler("other", 60)
    index.claim_groups("other", {record(ruled).rule_id: "acme"})
    (own,) = ruled.ruler.groups.values()
    assert not ruled.run(ruled.ruler._evaluate(own, BASE_MS + 6 * MINUTE, 0.0))
    assert record(ruled).evaluated_ms == BASE_MS + 5 * MINUTE


def test_a_changed_group_keeps_the_alerts_of_rules_that_stay(ruled: RuledLake) -> None:
    stays = AlertRule("Stays", "vector(1)")
    run(ruled, AlertRule("Goes", "vector(1)"), stays, minutes=(5,))
    ruled.apply(
        "acme", "f.yaml", RuleGroup("g", (AlertRule("New", "vector(0) > 1"), stays), interval_ms=MINUTE)
    )
    ruled.look()
    ruled.evaluate(BASE_MS + 6 * MINUTE)
    state = from_stored(record(ruled).state).group
    assert [[alert.active_at_ms - BASE_MS for alert in rule.alerts] for rule in state.rules] == [
        [],
        [5 * MINUTE],
    ]


def test_a_deleted_group_is_let_go(ruled: RuledLake) -> None:
    run(ruled, AlertRule("Web", "vector(1)"), minutes=(5,))
    ruled.lake.index.change_rules("acme", [DropRule(RuleKind.GROUP, "f.yaml", "g")], None)
    ruled.look()
    assert ruled.ruler.groups == {}
    assert record(ruled).owner == ""


def test_groups_that_only_record_are_left_to_the_pipeline(ruled: RuledLake) -> None:
    run(ruled, RecordingRule("a", "vector(1)"), minutes=())
    assert ruled.ruler.groups == {}


def test_organisations_ask_for_their_own_data_only(ruled: RuledLake) -> None:
    group = RuleGroup(
        "g", (AlertRule("Web", "requests_total > 0"), AlertRule("One", "vector(1)")), interval_ms=MINUTE
    )
    for org in ("acme", "beta"):
        ruled.apply(org, "f.yaml", group)
    ruled.look()
    ruled.evaluate(BASE_MS + 5 * MINUTE)
    assert [one["alertname"] for one in active(ruled, "beta")] == ["One"]
    assert [one["alertname"] for one in active(ruled)] == ["Web", "Web", "One"]
    posts = [one for one in ruled.heard if one.url.startswith(AM)]
    assert {(one.headers["x-scope-orgid"], len(one.body)) for one in posts} == {("acme", 3), ("beta", 1)}


def test_webhooks_hear_of_news_and_alertmanagers_again_and_again(ruled: RuledLake) -> None:
    ruled.settings = replace(ruled.settings, ruler_org_label="tenant")
    ruled.ruler = ruled.new_ruler()
    rule = AlertRule("Half", "vector(time()) % 600 < 240", annotations={"text": "since {{ $value }}"})
    run(ruled, rule, minutes=tuple(range(10)))
    hooks = [one for one in ruled.heard if one.url == HOOK]
    assert {one.body["organisation"] for one in hooks} == {"acme"}
    told = [(one.body["status"], (one.at_ms - BASE_MS) // MINUTE) for one in hooks]
    assert told == [("firing", 0), ("resolved", 4)]
    posts = [one for one in ruled.heard if one.url == f"{AM}/api/v2/alerts"]
    assert [(one.at_ms - BASE_MS) // MINUTE for one in posts] == [0, 2, 4, 6, 8]
    assert posts[0].body == [
        {
            "labels": {"alertname": "Half", "tenant": "acme"}, "annotations": {"text": "since 0"},
            "startsAt": "2026-01-01T00:00:00.000Z", "endsAt": "2026-01-01T00:04:00.000Z",
            "generatorURL": "http://lake/#view=metrics&q=vector%28time%28%29%29+%25+600+%3C+240&range=1h",
        }
    ]  # fmt: skip
    assert posts[-1].body[0]["endsAt"] == "2026-01-01T00:04:00.000Z"


def test_a_dead_receiver_delays_nobody_and_hears_everything_later(ruled: RuledLake) -> None:
    dead = True

    def answers(request: httpx.Request) -> int:
        return 503 if dead and request.url.host == "am" else 200

    ruled.answers = answers
    run(ruled, AlertRule("Half", "vector(time()) % 600 < 240"), minutes=tuple(range(6)))
    assert {one.url for one in ruled.heard} == {HOOK}
    (waiting,) = ruled.lake.index.waiting_notices("acme")
    assert (waiting.receiver.split(":")[0], waiting.waiting, waiting.error) == (
        "alertmanager",
        2,
        "503 not now",
    )
    dead = False
    ruled.lake.index._clock = lambda: 4e9  # type: ignore[union-attr]
    ruled.deliver()
    told = [alert for one in ruled.heard if one.url.startswith(AM) for alert in one.body]
    assert [alert["endsAt"] for alert in told] == ["2026-01-01T00:06:00.000Z", "2026-01-01T00:04:00.000Z"]
    assert ruled.lake.index.waiting_notices() == []


def test_what_a_receiver_will_never_take_is_dropped_and_counted(ruled: RuledLake) -> None:
    ruled.answers = lambda request: 400 if request.url.host == "am" else 200
    run(ruled, AlertRule("One", "vector(1)"))
    assert ruled.lake.index.waiting_notices() == []
    counted = {name: n for name, n in ruled.ruler.counts.items() if 'outcome="refused"' in name}
    assert counted == {
        'lakerunner_ruler_notices_total{receiver="alertmanager http://am:9093",outcome="refused"}': 1
    }


def test_many_alerts_travel_in_batches(ruled: RuledLake) -> None:
    series = {labels("many", n=str(n)): [(0, 1.0)] for n in range(600)}
    write_samples(ruled.lake, "acme", series)
    run(ruled, AlertRule("Many", "many > 0"), minutes=(1,))
    posts = [one for one in ruled.heard if one.url.startswith(AM)]
    assert [len(one.body) for one in posts] == [256, 256, 88]
    assert len({alert["labels"]["n"] for one in posts for alert in one.body}) == 600


@pytest.mark.parametrize(
    ("language", "expr"),
    [
        (RuleLanguage.PROMQL, "rate(requests_total[2m]) > 2"),
        (RuleLanguage.PROMQL, "topk(1, requests_total)"),
        (RuleLanguage.PROMQL, "requests_total @ end() > 0"),
        (RuleLanguage.PROMQL, "time()"),
        (RuleLanguage.LOGQL, 'sum by (level) (count_over_time({service_name="web"}[30s])) > 3'),
        (RuleLanguage.LAKEQL, "SELECT service_name AS service, count(*) AS value FROM logs GROUP BY 1"),
    ],
)
def test_answers_at_many_times_are_those_at_each(ruled: RuledLake, language: RuleLanguage, expr: str) -> None:
    asker = Asker("acme", language, BASE_MS + 5 * MINUTE, MINUTE, 10.0)
    many = ruled.run(ruled.questions.ask_all(asker, expr, 7))
    each = [
        ruled.run(ruled.questions.ask(replace(asker, at_ms=asker.at_ms + n * MINUTE), expr, RecentSamples()))
        for n in range(7)
    ]
    assert [sorted(one, key=lambda each: each.labels) for one in many] == [
        sorted(one, key=lambda each: each.labels) for one in each
    ]
    assert any(each)


def test_samples_that_come_late_make_a_correction(ruled: RuledLake) -> None:
    ruled.now_ms = BASE_MS - MINUTE
    ruled.lake.index._clock = lambda: ruled.now_ms / 1000
    ruled.ruler.checker.settings = replace(ruled.settings, ruler_check_s=60.0)
    run(ruled, AlertRule("High", "late > 5", MINUTE), minutes=tuple(range(1, 9)))
    ruled.now_ms += 10_000
    late = {labels("late", job="cart"): [(n * 15_000, 9.0) for n in range(8, 13)]}
    write_samples(ruled.lake, "acme", late)
    for minute in range(9, 14):
        ruled.evaluate(BASE_MS + minute * MINUTE)
    ruled.run(ruled.ruler.check())
    (found,) = ruled.lake.index.alert_corrections("acme", 0, 2**62, 9)
    first_ms = ruled.own("g").slots.latest(BASE_MS + 2 * MINUTE - 1) + MINUTE
    assert (found.alert, found.labels["job"], found.verdict) == ("High", "cart", Verdict.WOULD_HAVE_FIRED)
    assert first_ms + MINUTE <= found.from_ms <= first_ms + 2 * MINUTE
    assert BASE_MS + 6 * MINUTE <= found.to_ms < BASE_MS + 8 * MINUTE
    assert found.value == "9"
    assert ruled.ruler.counts["lakerunner_ruler_corrections_total"] == 1
    assert active(ruled) == []
