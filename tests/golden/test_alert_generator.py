"""The alert-generator exam on a simulated clock: samples in a lake, states over HTTP, notifications by post.

`ALERTS` is asked of query workers, which read what the ruler stored and the pipeline cooked.

The timetable counts in samples of 15 s. A state that holds from sample a to b may be seen in
(15a - 1 s, 15b + 40 s]; a notification comes within 40 s (the first of an end within 70 s).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.rules.documents import AlertRule, RuleGroup
from resources.lake.layout import Signal
from resources.settings import Settings
from tests.support.cooking_lake import Lake as CookingLake
from tests.support.cooking_lake import lake_in
from tests.support.query.lake import BASE, Lake, start_workers
from tests.support.query.metric_lake import write_samples
from tests.support.query.ruled_lake import Heard, RuledLake

BASE_MS = BASE // 1_000_000
EXAMINER = "http://examiner:8080"
KEY = "key-acme"
STEP_MS, TOLERANCE_MS, EVALUATION_MS = 15_000, 40_000, 30_000
Json = dict[str, Any]


def groups_of(text: str) -> list[RuleGroup]:
    """Read the file of the exam, which has only these keys."""
    units = {"s": 1000, "m": 60_000}
    found = []
    for group in yaml.safe_load(text)["groups"]:
        rules = tuple(
            AlertRule(
                one["alert"],
                one["expr"],
                int(one["for"][:-1]) * units[one["for"][-1]] if "for" in one else 0,
                labels=one.get("labels", {}),
                annotations=one.get("annotations", {}),
            )
            for one in group["rules"]
        )
        found.append(RuleGroup(group["name"], rules, interval_ms=EVALUATION_MS))
    return found


@dataclass
class Exam:
    ruled: RuledLake
    client: TestClient[Any]
    paper: Json

    def get(self, path: str) -> Any:
        answer = self.client.get(f"/prometheus/api/v1/{path}", headers={"Api-Key": KEY})
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


def paper_of(corpora: Path) -> tuple[Json, list[RuleGroup]]:
    folder = corpora / "rules" / "alert_generator"
    if not folder.is_dir():
        pytest.skip(f"no exam at {folder}")
    return json.loads((folder / "exam.json").read_text()), groups_of((folder / "rules.yaml").read_text())


def sit(lake: Lake, paper: Json, groups: list[RuleGroup], settings: Settings) -> RuledLake:
    lake.add_org("acme", KEY)
    series = {}
    for one in paper["series"]:
        values = [value for value, count in one["values"] for _ in range(count)]
        labels = tuple(sorted((name, text) for name, text in one["labels"].items()))
        series[labels] = [(STEP_MS * n, float(value)) for n, value in enumerate(values)]
    write_samples(lake, "acme", series)
    ruled = RuledLake(lake, settings.data_dir / "scratch", settings)
    ruled.apply("acme", "rules.yaml", *groups)
    ruled.look()
    return ruled


@pytest.fixture
def exam(corpora: Path, tmp_path: Path) -> Iterator[Exam]:
    paper, groups = paper_of(corpora)
    lake = Lake(tmp_path / "lake")
    settings = Settings(data_dir=tmp_path, internal_token="t", ruler_alertmanagers=EXAMINER)
    ruled = sit(lake, paper, groups, settings)
    with TestClient(create_app(settings, lake.index)) as client:
        yield Exam(ruled, client, paper)
    ruled.close()


@pytest.fixture
def stored_exam(corpora: Path, tmp_path: Path) -> Iterator[tuple[Exam, CookingLake]]:
    """The exam where `ALERTS` goes through bucket and pipeline, and is asked of a real worker."""
    paper, groups = paper_of(corpora)
    cooking = lake_in(tmp_path)
    lake = Lake(tmp_path / "lake", cooking.index)
    for stack in start_workers(tmp_path / "data", lake.folder, 1):
        settings = replace(stack.settings, data_dir=tmp_path, ruler_store_s=0.0)
        ruled = sit(lake, paper, groups, settings)
        with TestClient(create_app(settings, lake.index)) as client:
            yield Exam(ruled, client, paper), cooking
        ruled.close()


@pytest.mark.integration
@pytest.mark.slow
def test_stored_alerts_follow_the_timetable(stored_exam: tuple[Exam, CookingLake]) -> None:
    exam, cooking = stored_exam
    last = max(one["until_sample"] for one in exam.paper["groups"].values())
    seen = 0
    for at_ms in range(7_300, last * STEP_MS, EVALUATION_MS):
        exam.ruled.evaluate(BASE_MS + at_ms)
        exam.ruled.store()
        cooking.cook(Signal.METRICS)
        for asked_ms in (at_ms, at_ms + EVALUATION_MS - 1):
            seen += check_stored(exam, asked_ms)
    assert seen > 100
    listed = exam.ruled.lake.index.pipeline_status()
    assert [one["pending_objects"] for one in listed if one["signal"] == "metrics"] == [0]


def check_stored(exam: Exam, at_ms: int) -> int:
    """Compare the answer to `ALERTS` with the timetable; return the number of its series."""
    time = datetime.fromtimestamp((BASE_MS + at_ms) / 1000, UTC).isoformat()
    found = exam.get(f"query?{urlencode({'query': 'ALERTS', 'time': time})}")
    assert found["resultType"] == "vector"
    for group, facts in exam.paper["groups"].items():
        if at_ms >= facts["until_sample"] * STEP_MS:
            continue
        states = [one for one in exam.paper["states"] if one["labels"]["rulegroup"] == group]
        shown = [one for one in found["result"] if one["metric"]["rulegroup"] == group]
        for one in shown:
            assert float(one["value"][1]) == 1.0
            assert round(one["value"][0] * 1000) == BASE_MS + at_ms
            fitting = [state for state in states if _is_possible(state, at_ms) and _is_stored(state, one)]
            assert fitting, (at_ms, one)
        assert len({json.dumps(_bare(one), sort_keys=True) for one in shown}) == len(shown), shown
        for state in states:
            is_certain = state["from"] * STEP_MS + TOLERANCE_MS < at_ms < state["to"] * STEP_MS - 1000
            if is_certain and state["state"] != "inactive":
                assert any(_is_stored(state, one) for one in shown), (at_ms, state)
    return len(found["result"])


def _bare(series: Json) -> Json:
    return {name: text for name, text in series["metric"].items() if name not in {"__name__", "alertstate"}}


def _is_stored(state: Json, series: Json) -> bool:
    expected = {**state["labels"], "__name__": "ALERTS", "alertstate": state["state"]}
    return bool(series["metric"] == expected)


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) - BASE_MS


@pytest.mark.parametrize("offset_ms", [0, 7_300, 29_000])
def test_states_and_notifications_follow_the_timetable(exam: Exam, offset_ms: int) -> None:
    last = max(one["until_sample"] for one in exam.paper["groups"].values())
    for at_ms in range(offset_ms, last * STEP_MS, EVALUATION_MS):
        exam.ruled.evaluate(BASE_MS + at_ms)
        check_states(exam, at_ms)
    check_notifications(exam)


def check_states(exam: Exam, at_ms: int) -> None:
    alerts, groups = exam.get("alerts")["alerts"], exam.get("rules")["groups"]
    assert len(groups) == 4
    for group in groups:
        if at_ms >= exam.paper["groups"][group["name"]]["until_sample"] * STEP_MS:
            continue
        mine = [one for one in alerts if one["labels"]["rulegroup"] == group["name"]]
        check_alerts(exam, group["name"], mine, at_ms)
        inside = [alert for rule in group["rules"] for alert in rule["alerts"]]
        assert sorted(map(json.dumps, inside)) == sorted(map(json.dumps, mine))
        check_group(exam.ruled.own(group["name"]).group, group, at_ms)


def check_group(known: RuleGroup, shown: Json, at_ms: int) -> None:
    assert (shown["interval"], shown["file"], len(shown["rules"])) == (30, "rules.yaml", len(known.rules))
    assert milliseconds(shown["lastEvaluation"]) == at_ms
    for rule, one in zip(known.rules, shown["rules"], strict=True):
        assert isinstance(rule, AlertRule)
        assert (one["type"], one["health"], one["name"]) == ("alerting", "ok", rule.alert), one
        assert "lastError" not in one
        assert to_text(parse(one["query"])) == to_text(parse(rule.expr))
        assert (one["duration"], one["labels"], one["annotations"]) == (
            rule.for_ms / 1000, rule.labels, rule.annotations,
        )  # fmt: skip
        states = {alert["state"] for alert in one["alerts"]}
        expected = "firing" if "firing" in states else "pending" if "pending" in states else "inactive"
        assert one["state"] == expected


def check_alerts(exam: Exam, group: str, shown: list[Json], at_ms: int) -> None:
    """Every alert is one of the timetable at this time, and none that must be there is missing."""
    states = [one for one in exam.paper["states"] if one["labels"]["rulegroup"] == group]
    for alert in shown:
        fitting = [one for one in states if _is_possible(one, at_ms) and _is_same(one, alert)]
        assert fitting, (at_ms, alert)
    certain = [
        one for one in states if one["from"] * STEP_MS + TOLERANCE_MS < at_ms < one["to"] * STEP_MS - 1000
    ]
    for one in certain:
        if one["state"] != "inactive":
            assert any(_is_same(one, alert) for alert in shown), (at_ms, one)


def _is_possible(state: Json, at_ms: int) -> bool:
    return state["from"] * STEP_MS - 1000 < at_ms <= state["to"] * STEP_MS + TOLERANCE_MS


def _is_same(state: Json, alert: Json) -> bool:
    active_ms = state.get("active_at", 0) * STEP_MS
    return bool(
        state["state"] == alert["state"]
        and state["labels"] == alert["labels"]
        and state["annotations"] == alert["annotations"]
        and float(state["value"]) == float(alert["value"])
        and active_ms <= milliseconds(alert["activeAt"]) <= active_ms + TOLERANCE_MS
    )


def check_notifications(exam: Exam) -> None:
    """Each notification comes when it is due, is repeated every minute, and no other comes."""
    heard: dict[str, list[tuple[Heard, Json]]] = {}
    for one in exam.ruled.heard:
        assert one.url == f"{EXAMINER}/api/v2/alerts"
        for alert in one.body:
            heard.setdefault(_key(alert["labels"]), []).append((one, alert))
    expected = {_key(one["labels"]) for one in exam.paper["notifications"]}
    assert heard.keys() == expected
    for key, alerts in heard.items():
        table = [one for one in exam.paper["notifications"] if _key(one["labels"]) == key]
        until_ms = exam.paper["groups"][table[0]["labels"]["rulegroup"]]["until_sample"] * STEP_MS
        check_series([one for one in alerts if one[0].at_ms - BASE_MS < until_ms], table, until_ms)


def check_series(alerts: list[tuple[Heard, Json]], table: list[Json], until_ms: int) -> None:
    used = set()
    for heard, alert in alerts:
        at_ms = heard.at_ms - BASE_MS
        fitting = [n for n, one in enumerate(table) if _is_due(one, alert, at_ms)]
        assert fitting, (at_ms, alert)
        used.add(fitting[0])
        resolved = table[fitting[0]]["resolved"]
        ends_ms = milliseconds(alert["endsAt"])
        assert ends_ms <= at_ms if resolved else 230_000 <= ends_ms - at_ms <= 270_000
    due = {n for n, one in enumerate(table) if (one["first"] + 5) * STEP_MS < until_ms}
    assert due <= used, [table[n] for n in due - used]
    for (earlier, one), (later, two) in pairwise(alerts):
        gap_ms = later.at_ms - earlier.at_ms
        assert gap_ms >= EVALUATION_MS
        is_repeated = one["startsAt"] == two["startsAt"] and _is_end(earlier, one) == _is_end(later, two)
        if is_repeated:
            assert 55_000 <= gap_ms <= 95_000, (one, two)


def _is_end(heard: Heard, alert: Json) -> bool:
    return milliseconds(alert["endsAt"]) <= heard.at_ms - BASE_MS


def _is_due(row: Mapping[str, Any], alert: Json, at_ms: int) -> bool:
    is_resolved = milliseconds(alert["endsAt"]) <= at_ms
    starts_ms = row["starts_at"] * STEP_MS
    return bool(
        is_resolved == row["resolved"]
        and row["annotations"] == alert["annotations"]
        and starts_ms <= milliseconds(alert["startsAt"]) <= starts_ms + TOLERANCE_MS
        and row["first"] * STEP_MS <= at_ms <= row["until"] * STEP_MS + 100_000
    )


def _key(labels: Mapping[str, str]) -> str:
    return json.dumps(labels, sort_keys=True)
