"""Tiers under `lakerunner status` and in `/metrics`: the same numbers for people, programs and Prometheus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakerunner_cli import pipeline_rows
from lakerunner_cli.commands import status
from lakerunner_ingress.pipeline_metrics import TIER_GAUGES, PipelineMetrics, tier_families
from resources.exposition import render
from resources.index.memory import MemoryIndex
from resources.index.sweeping_types import OrphanNumbers, TierNumbers, TierStatus
from resources.lake.layout import Signal
from resources.settings import Settings
from tests.support.exposition_parser import parse

LOGS = TierNumbers(
    "acme",
    Signal.LOGS,
    "logs",
    segments=4,
    bytes=8_000_000,
    rows=120_000,
    unsettled=3,
    unsettled_bytes=1_500_000,
    newest_ns=1_767_355_200_500_000_000,
    newest_s=75.0,
    retired=2,
    retired_bytes=2_000,
)
MINUTES = TierNumbers("acme", Signal.METRICS, "metrics-1m", due=5, due_s=7500.0)
STATUS = TierStatus((LOGS, MINUTES), (OrphanNumbers("acme", 3, 12_000),))


def test_a_line_says_what_is_stored_and_what_is_left_to_do() -> None:
    _, header, logs, minutes, orphans = pipeline_rows.tier_table(STATUS)
    assert header == pipeline_rows.TIER_HEADER
    assert logs.split() == [
        "acme", "logs", "4", "8.0", "MB", "120,000", "2.0", "MB",
        "3", "/", "1.5", "MB", "-", "-", "1m15s", "2.0", "kB",
    ]  # fmt: skip
    assert minutes.split() == [
        "acme", "metrics-1m", "0", "0", "B", "0", "0", "B", "-", "5", "2h05m", "-", "-",
    ]  # fmt: skip
    assert orphans == "! acme: 3 files (12.0 kB) in the lake that the index does not know"
    assert len(header) == len(logs) == len(minutes)


def test_nothing_is_shown_of_nothing_and_stamped_ahead_is_now() -> None:
    assert pipeline_rows.tier_table(TierStatus((), ())) == []
    ahead = TierNumbers("a", Signal.LOGS, "logs", segments=1, newest_ns=1, newest_s=-30.0)
    assert pipeline_rows.tier_table(TierStatus((ahead,), ()))[-1].split()[-2] == "0s"


def test_programs_get_the_numbers_themselves() -> None:
    found = json.loads(json.dumps(pipeline_rows.tiers_as_json(STATUS, "")))
    assert found["rows"][0]["signal"] == "logs"
    assert found["rows"][0]["mean_bytes"] == 2_000_000
    assert found["rows"][0]["unsettled_bytes"] == 1_500_000
    assert found["rows"][1]["newest_ns"] is None
    assert found["rows"][1]["mean_bytes"] == 0
    assert found["orphans"] == [{"org": "acme", "files": 3, "bytes": 12_000}]
    assert pipeline_rows.tiers_as_json(STATUS, "away") == {"error": "away"}


def test_both_outputs_of_the_command_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lakerunner_cli.stack.paths import StackPaths
    from lakerunner_cli.stack.processes import ProcessId
    from lakerunner_cli.stack.state import StackState, StateFile, acquire

    paths = StackPaths(tmp_path)
    paths.create()
    StateFile(paths.state, StackState(ProcessId(1, 1.0), 0.0))
    monkeypatch.setattr("lakerunner_cli.pipeline_rows.read_rows", lambda settings: ([], STATUS, ""))
    lock = acquire(paths)
    assert lock is not None
    with lock:
        assert status.show(Settings(data_dir=tmp_path), as_json=True)
        assert json.loads(capsys.readouterr().out)["tiers"]["rows"][0]["dataset"] == "logs"
        assert status.show(Settings(data_dir=tmp_path), as_json=False)
        assert "metrics-1m" in capsys.readouterr().out


def test_gauges_are_by_organisation_signal_and_dataset() -> None:
    found = parse(render(tier_families(STATUS)))
    logs = frozenset({("org", "acme"), ("signal", "logs"), ("dataset", "logs")})
    minutes = frozenset({("org", "acme"), ("signal", "metrics"), ("dataset", "metrics-1m")})
    assert {name: value for (name, labels), value in found.items() if labels == logs} == {
        "lakerunner_tier_segments": 4,
        "lakerunner_tier_bytes": 8_000_000,
        "lakerunner_tier_rows": 120_000,
        "lakerunner_tier_newest_event_timestamp_seconds": 1_767_355_200.5,
        "lakerunner_compaction_debt_segments": 3,
        "lakerunner_compaction_debt_bytes": 1_500_000,
        "lakerunner_retired_segments": 2,
        "lakerunner_retired_bytes": 2_000,
    }
    assert found["lakerunner_rollup_due_partitions", minutes] == 5
    assert found["lakerunner_rollup_due_seconds", minutes] == 7500
    assert ("lakerunner_tier_newest_event_timestamp_seconds", minutes) not in found
    assert found["lakerunner_orphan_files", frozenset({("org", "acme")})] == 3
    assert found["lakerunner_orphan_bytes", frozenset({("org", "acme")})] == 12_000
    assert {gauge.name for gauge in TIER_GAUGES} <= {name for name, _ in found}


def test_the_exporter_serves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    index = MemoryIndex()
    monkeypatch.setattr(index, "tier_status", lambda: STATUS)
    found = parse(PipelineMetrics(index, clock=lambda: 0.0).render())
    assert found["lakerunner_orphan_files", frozenset({("org", "acme")})] == 3
    assert found["lakerunner_index_up", frozenset()] == 1
