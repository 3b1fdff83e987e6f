"""The check `fresh`: told when its verdict changes, and not at every tick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from lakerunner_assets.freshness import COOKED_WITHIN_S, freshness_checks, waits
from resources.bindings import Lakerunner
from resources.lake.layout import Signal
from sensors.freshness import AGAIN_S, freshness_sensor
from tests.support.cooking_lake import Lake, lake_in
from tests.support.rolling_lake import arrive, every, gauge, roll_hours

_lakes: list[Lake] = []


class OfTest(Lakerunner):
    """The lake of the running test."""

    @property
    def settings(self) -> Any:  # type: ignore[override]
        return _lakes[0].settings

    @property
    def index(self) -> Any:  # type: ignore[override]
        return _lakes[0].index


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = lake_in(tmp_path)
    made.index._clock = lambda: 1_767_230_000.0 + made.later
    _lakes[:] = [made]
    yield made
    _lakes.clear()


def verdicts(lake: Lake) -> dict[str, bool]:
    now = int(lake.index._clock() * 1e9)
    return {w.key.to_user_string(): w.passed for w in waits(lake.index, lake.settings, now)}


def test_everything_is_fresh_when_nothing_waits(lake: Lake) -> None:
    assert set(verdicts(lake).values()) == {True}
    assert len(verdicts(lake)) == len(freshness_checks()) == 8


def test_an_object_that_waits_too_long_makes_its_signal_stale(lake: Lake) -> None:
    arrive(lake, "a", gauge(every(60)))
    lake.later += COOKED_WITHIN_S - 1
    assert verdicts(lake)["cooked/metrics"]
    lake.later += 2
    assert [key for key, passed in verdicts(lake).items() if not passed] == ["cooked/metrics"]


def test_a_rollup_that_is_due_for_too_long_is_stale_and_the_open_day_is_not(lake: Lake) -> None:
    arrive(lake, "a", gauge(every(60)))
    lake.cook(Signal.METRICS)
    lake.later += 1000
    assert [key for key, passed in verdicts(lake).items() if not passed] == ["rollup/10s"]
    roll_hours(lake)
    lake.later += 1000
    assert set(verdicts(lake).values()) == {True}
    lake.later += 2 * 86_400
    assert [key for key, passed in verdicts(lake).items() if not passed] == ["rollup/1d"]


def test_a_verdict_is_told_when_it_changes_and_now_and_then(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lake.index._clock, time_ns=lambda: int(lake.index._clock() * 1e9))
    monkeypatch.setattr("sensors.freshness.time", clock)
    cursor: str | None = None

    def tick() -> list[tuple[str, bool]]:
        nonlocal cursor
        result = freshness_sensor(dg.build_sensor_context(cursor=cursor, resources={"lakerunner": OfTest()}))
        if not isinstance(result, dg.SensorResult):
            return []
        cursor = result.cursor
        assert json.loads(str(cursor))
        return [(e.asset_key.to_user_string(), e.passed) for e in result.asset_events]

    assert len(tick()) == 8
    assert tick() == []
    arrive(lake, "a", gauge(every(60)))
    lake.later += COOKED_WITHIN_S + 1
    assert tick() == [("cooked/metrics", False)]
    lake.later += AGAIN_S
    assert len(tick()) == 8
