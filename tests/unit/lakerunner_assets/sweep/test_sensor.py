"""The sensor: one sweep per tick, told in the tick, no runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from resources.bindings import Lakerunner
from resources.index.memory import MemoryIndex
from resources.settings import Settings, SettingsError
from sensors.sweeping import sweeping_sensor

Tick = Callable[..., str]


@pytest.fixture
def tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tick:
    """Evaluates the sensor over an index and settings; what the tick says."""
    (tmp_path / "lake").mkdir()

    def evaluate(index: MemoryIndex, **more: object) -> str:
        settings = Settings(data_dir=tmp_path, lake_url=f"file://{tmp_path}/lake", **more)  # type: ignore[arg-type]
        monkeypatch.setattr(Lakerunner, "settings", property(lambda _self: settings))
        monkeypatch.setattr(Lakerunner, "index", property(lambda _self: index))
        with dg.build_sensor_context(resources={"lakerunner": Lakerunner()}) as context:
            found = sweeping_sensor(context)
        assert isinstance(found, dg.SkipReason)
        return str(found.skip_message)

    return evaluate


def test_a_tick_sweeps_and_says_what_went(tick: Tick) -> None:
    index = MemoryIndex()
    assert tick(index) == "nothing to sweep"
    assert index.counters()["lakerunner_sweeps_total"] == 1
    index._clock = lambda: 1e9
    index.beat_run("gone")
    index._clock = lambda: 1e9 + 100_000
    assert "1 heartbeats of runs long gone" in tick(index)


def test_a_tick_beside_another_sweep_does_nothing(tick: Tick) -> None:
    index = MemoryIndex()
    with index.sweep_lock():
        assert "another sweep is running" in tick(index)
    assert index.counters() == {}


def test_a_grace_shorter_than_a_query_fails_the_tick(tick: Tick) -> None:
    with pytest.raises(SettingsError, match="LAKERUNNER_SWEEP_GRACE_S"):
        tick(MemoryIndex(), sweep_grace_s=10)


def test_it_runs_by_default_every_ten_minutes() -> None:
    assert sweeping_sensor.default_status is dg.DefaultSensorStatus.RUNNING
    assert sweeping_sensor.minimum_interval_seconds == 600
