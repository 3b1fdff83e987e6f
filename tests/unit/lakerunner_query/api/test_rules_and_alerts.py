"""`/rules` and `/alerts`: states, filters and paging as Grafana asks for them, one organisation at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.rules.alert_states import ActiveAlert, GroupState, Phase, RuleState
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import AlertRule, RecordingRule, RuleGroup, RuleLanguage
from lakerunner_query.rules.ruling import HeldState, RuleRun, to_stored
from resources.index.memory import MemoryIndex
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    AlertState,
    Notice,
    RecordedOutcome,
    Verdict,
)
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings

AT_MS = 1_767_225_600_000
SHOP = RuleGroup(
    "shop",
    (
        RecordingRule("job:errors:rate5m", "sum by(job)(rate(errors_total[5m]))", {"team": "a"}),
        AlertRule(
            "Errors", "job:errors:rate5m>1", 60_000, 30_000, {"severity": "page"}, {"text": "{{ $value }}"}
        ),
        AlertRule("Broken", "up == 0"),
    ),
    interval_ms=30_000,
    labels={"source": "shop"},
)
LOGS = RuleGroup("log-lines", (AlertRule("Panics", 'count_over_time({a="b"}[1m]) > 0'),), RuleLanguage.LOGQL)
RECORDED = RuleGroup(
    "ratios", (RecordingRule("a:b", "a"), RecordingRule("c:d", "c"), RecordingRule("e", "e"))
)
OTHERS = [RuleGroup(f"other-{n}", (AlertRule(f"Other{n}", "vector(1)"),)) for n in range(3)]
FIRING = ActiveAlert(
    {"alertname": "Errors", "job": "cart", "severity": "page"},
    {"text": "2"},
    Phase.FIRING,
    "2",
    AT_MS - 60_000,
    AT_MS,
)
RESOLVED = ActiveAlert({"alertname": "Errors", "job": "web"}, {}, Phase.INACTIVE, "3", AT_MS, AT_MS, AT_MS)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient[Any]]:
    index = MemoryIndex()
    for org in ("acme", "beta", "gamma"):
        index.create_organisation(org)
        index.create_api_key(org, "read", "k", hashlib.sha256(org.encode()).digest(), None)
    index.change_rules("acme", [put_of(SHOP, "shop.yaml"), put_of(LOGS, "logs.yaml")], None)
    index.change_rules("acme", [put_of(one, "others.yaml") for one in OTHERS], None)
    index.change_rules("beta", [put_of(OTHERS[0], "theirs.yaml")], None)
    index.change_rules("gamma", [put_of(RECORDED, "recorded.yaml")], None)
    outcomes = [
        RecordedOutcome("ratios", "a:b", HOUR_NS),
        RecordedOutcome("ratios", "c:d", HOUR_NS, "no vector"),
    ]
    index.note_recorded_rules("gamma", outcomes)
    evaluate(index)
    with TestClient(
        create_app(Settings(internal_token="t", worker_urls="http://127.0.0.1:1"), index)
    ) as found:
        yield found


def evaluate(index: MemoryIndex) -> None:
    """Store an evaluation of the group `shop`, as a ruler does."""
    stored = next(one for one in index.rules("acme").rules if one.name == "shop")
    index.beat_ruler("one", 60)
    (record,) = index.claim_groups("one", {stored.rule_id: "acme"})
    states = (RuleState(), RuleState((FIRING, RESOLVED)), RuleState(error="no workers"))
    held = HeldState(GroupState(states, AT_MS), (RuleRun(AT_MS, 0.25),) * 3, 30_000)
    evaluated = replace(
        record, version=stored.version, evaluated_ms=AT_MS, duration_s=0.75, delay_s=12.5, missed=4,
        state=to_stored(held),
    )  # fmt: skip
    change = AlertChange(stored.rule_id, "Errors", FIRING.labels, AlertState.FIRING, "2", AT_MS)
    assert index.write_evaluation(evaluated, [change], [Notice("alertmanager:1", "x", {})])
    missed = AlertCorrection(
        stored.rule_id, "Errors", FIRING.labels, Verdict.WOULD_HAVE_FIRED, AT_MS - 60_000, AT_MS, "3",
        AT_MS + 600_000,
    )  # fmt: skip
    assert index.write_check(evaluated, None, [missed])


def get(client: TestClient[Any], path: str, org: str = "acme", **params: object) -> Any:
    answer = client.get(path, params=params, headers={"Api-Key": org})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def groups(client: TestClient[Any], **params: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(client, "/prometheus/api/v1/rules", **params)["groups"]
    return found


def names(client: TestClient[Any], **params: object) -> list[str]:
    return [rule["name"] for group in groups(client, **params) for rule in group["rules"]]


def test_a_group_shows_its_last_evaluation(client: TestClient[Any]) -> None:
    (shop,) = groups(client, **{"rule_group[]": "shop"})
    rules = shop.pop("rules")
    assert shop == {
        "name": "shop", "file": "shop.yaml", "interval": 30.0, "limit": 0, "evaluationTime": 0.75,
        "lastEvaluation": "2026-01-01T00:00:12.5Z", "evaluationDelay": 12.5, "missedEvaluations": 4,
        "language": "promql",
    }  # fmt: skip
    recording, errors, broken = rules
    assert recording == {
        "name": "job:errors:rate5m", "query": "sum by (job) (rate(errors_total[5m]))",
        "labels": {"source": "shop", "team": "a"}, "health": "ok", "evaluationTime": 0.25,
        "lastEvaluation": "2026-01-01T00:00:12.5Z", "type": "recording",
    }  # fmt: skip
    assert (errors["state"], errors["duration"], errors["keepFiringFor"]) == ("firing", 60, 30)
    assert (errors["labels"], errors["annotations"]) == (
        {"source": "shop", "severity": "page"}, {"text": "{{ $value }}"},
    )  # fmt: skip
    assert errors["alerts"] == [
        {
            "labels": FIRING.labels, "annotations": {"text": "2"}, "state": "firing",
            "activeAt": "2025-12-31T23:59:00Z", "value": "2e+00",
        }
    ]  # fmt: skip
    assert (broken["health"], broken["lastError"], broken["state"]) == ("err", "no workers", "inactive")


def test_recording_rules_are_as_the_last_hour_was_recorded(client: TestClient[Any]) -> None:
    (group,) = get(client, "/prometheus/api/v1/rules", "gamma")["groups"]
    assert [(one["health"], one.get("lastError")) for one in group["rules"]] == [
        ("ok", None), ("err", "no vector"), ("unknown", None),
    ]  # fmt: skip
    assert group["recordedBehind"] == 0
    assert group["lastEvaluation"] == group["rules"][0]["lastEvaluation"] > "2026"
    assert group["rules"][2]["lastEvaluation"] == "0001-01-01T00:00:00Z"


def test_corrections_are_listed_for_their_organisation_alone(client: TestClient[Any]) -> None:
    shown = {}
    for org in ("acme", "beta"):
        params = {"start": AT_MS - 1, "end": AT_MS + 1}
        answer = client.get("/api/v1/rules/history", params=params, headers={"Api-Key": org})
        assert answer.status_code == 200, answer.text
        shown[org] = answer.json()["corrections"]
    assert shown == {
        "acme": [
            {
                "file": "shop.yaml", "rule_group": "shop", "alert": "Errors", "labels": FIRING.labels,
                "verdict": "would_have_fired", "from": "2025-12-31T23:59:00Z", "to": "2026-01-01T00:00:00Z",
                "value": "3", "found": "2026-01-01T00:10:00Z",
            }
        ],
        "beta": [],
    }  # fmt: skip


def test_rules_that_nobody_evaluated_yet_say_so(client: TestClient[Any]) -> None:
    (group,) = groups(client, **{"file[]": "logs.yaml"})
    assert (group["lastEvaluation"], group["interval"]) == ("0001-01-01T00:00:00Z", 60)
    assert [(rule["health"], rule["state"]) for rule in group["rules"]] == [("unknown", "inactive")]


def test_alerts_are_those_that_are_pending_or_firing(client: TestClient[Any]) -> None:
    (alert,) = get(client, "/prometheus/api/v1/alerts")["alerts"]
    assert alert["labels"] == FIRING.labels


def test_rules_are_filtered(client: TestClient[Any]) -> None:
    everything = ["Panics", "Other0", "Other1", "Other2", "job:errors:rate5m", "Errors", "Broken"]
    assert names(client) == everything
    assert names(client, type="record") == ["job:errors:rate5m"]
    assert names(client, type="alert") == [one for one in everything if "rate5m" not in one]
    assert names(client, **{"rule_name[]": ["Errors", "Other1"]}) == ["Other1", "Errors"]
    assert names(client, **{"rule_group[]": ["other-0", "log-lines"]}) == ["Panics", "Other0"]
    assert names(client, **{"file[]": "shop.yaml", "type": "alert"}) == ["Errors", "Broken"]
    assert names(client, **{"match[]": '{severity=~"p.+"}'}) == ["Errors"]
    assert names(client, **{"match[]": ['{severity="page"}', '{team="a"}']}) == [
        "job:errors:rate5m",
        "Errors",
    ]
    assert names(client, **{"match[]": '{source="nobody"}'}) == []
    (shop,) = groups(client, **{"rule_name[]": "Errors", "exclude_alerts": "true"})
    assert [(rule["alerts"], rule["state"]) for rule in shop["rules"]] == [([], "firing")]


def test_groups_come_in_pages(client: TestClient[Any]) -> None:
    seen, params = list[str](), {"group_limit": 2}
    while True:
        found = get(client, "/prometheus/api/v1/rules", **params)
        seen += [group["name"] for group in found["groups"]]
        assert len(found["groups"]) <= 2
        if "groupNextToken" not in found:
            break
        params = {"group_limit": 2, "group_next_token": found["groupNextToken"]}
    assert seen == ["log-lines", "other-0", "other-1", "other-2", "shop"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("type=both", "expected alert or record"),
        ("exclude_alerts=perhaps", "expected true or false"),
        ("group_limit=0", "greater than 0"),
        ("group_limit=x", "greater than 0"),
        ("group_next_token=abc", "group_limit is missing"),
        ("group_limit=1&group_next_token=abc", "no group has the token"),
        ("match[]=%7Ba", "parse error"),
    ],
)
def test_wrong_parameters_are_refused(client: TestClient[Any], query: str, reason: str) -> None:
    answer = client.get(f"/prometheus/api/v1/rules?{query}", headers={"Api-Key": "acme"})
    assert (answer.status_code, answer.json()["errorType"]) == (400, "bad_data")
    assert reason in answer.json()["error"]


def test_lokis_addresses_show_rules_for_logs(client: TestClient[Any]) -> None:
    found = get(client, "/loki/prometheus/api/v1/rules")["groups"]
    assert [group["name"] for group in found] == ["log-lines"]
    assert get(client, "/loki/prometheus/api/v1/alerts") == {"alerts": []}


@pytest.mark.parametrize("base", ["/prometheus/api/v1", "/loki/prometheus/api/v1"])
def test_an_organisation_sees_its_own_rules_only(client: TestClient[Any], base: str) -> None:
    shown = get(client, f"{base}/rules", "beta")["groups"]
    assert [group["file"] for group in shown] == (["theirs.yaml"] if base.startswith("/prom") else [])
    assert get(client, f"{base}/alerts", "beta") == {"alerts": []}
    assert client.get(f"{base}/rules").status_code == 401
    assert client.get(f"{base}/alerts", headers={"Api-Key": "nobody"}).status_code == 401
