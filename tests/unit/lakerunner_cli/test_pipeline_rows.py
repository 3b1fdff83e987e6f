"""The pipeline under `lakerunner status`: what a person reads, and one line when the index is away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakerunner_cli.pipeline_rows import HEADER, NO_TIERS, advice, as_json, read_rows, table
from resources.index.postgres import PostgresIndex
from resources.index.types import Intake, ObjectNotice
from resources.lake.layout import Signal
from resources.settings import Settings

ROW = {
    "org": "acme",
    "signal": "logs",
    "pending_objects": 3,
    "pending_bytes": 1_500_000,
    "oldest_pending_s": 75.0,
    "done_objects": 54,
    "parked_objects": 1,
    "overwritten_objects": 0,
    "rows": 8387,
    "rejected": 0,
    "quarantined": 12,
    "segments": 8,
    "segment_bytes": 567_947,
}


def test_a_row_says_what_waits_what_is_done_and_what_is_odd() -> None:
    _, header, line = table([ROW], "")
    assert header == HEADER
    assert " ".join(line.split()) == "acme logs 3 1.5 MB 1m15s 54 1 8,387 8 567.9 kB 12 rows quarantined"
    calm = table([ROW | {"quarantined": 0, "pending_objects": 0}], "")[2]
    assert "quarantined" not in calm
    assert " - " in calm


def test_what_is_odd_comes_with_what_to_do() -> None:
    """Rows in quarantine were a number without a word why."""
    counters = {'lakerunner_cook_notes_total{signal="logs",note="time_from_arrival"}': 5000.0}
    lines = advice(ROW, counters, Settings())
    assert [line.split(":")[0] for line in lines] == ["acme logs", "acme logs", "logs of all organisations"]
    assert "LAKERUNNER_HORIZON=2025-01-01" in lines[0]
    assert "LAKERUNNER_FUTURE_TOLERANCE_S=3600" in lines[0]
    assert "lakerunner admin parked list --org acme" in lines[1]
    assert "5,000 rows got the time of their arrival" in lines[2]
    assert table([ROW | {"advice": lines}, ROW | {"advice": lines[2:]}], "")[4:] == [
        f"! {line}" for line in lines
    ]
    assert advice(ROW | {"quarantined": 0, "parked_objects": 0}, {}, Settings()) == []


def test_nothing_yet_is_said() -> None:
    assert table([], "")[-1] == "pipeline: nothing ingested yet"
    assert as_json([], "") == {"rows": []}


@pytest.mark.parametrize(
    "dsn", ["", "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1", "no dsn at all"]
)
def test_an_index_that_is_away_is_one_line(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lakerunner_cli.pipeline_rows.WAIT_S", 0.5)
    rows, tiers, problem = read_rows(Settings(index_dsn=dsn, data_dir=tmp_path))
    assert (rows, tiers) == ([], NO_TIERS)
    assert problem
    assert "\n" not in problem
    assert table(rows, problem) == ["", f"pipeline: {problem}"]
    assert as_json(rows, problem) == {"error": problem}
    assert not caplog.records


@pytest.mark.integration
def test_rows_of_a_real_index(index_dsn: str, postgres_index: PostgresIndex) -> None:
    postgres_index.create_organisation("acme")
    notice = ObjectNotice("raw", "otel-raw/acme/c/logs/a", "acme", "c", Signal.LOGS, 0, 10, "e")
    postgres_index.take_in(Intake("k", (notice,)))
    rows, tiers, problem = read_rows(Settings(index_dsn=index_dsn))
    assert (tiers, problem) == (NO_TIERS, "")
    assert table(rows, problem)[2].split()[:5] == ["acme", "logs", "1", "10", "B"]
    assert json.loads(json.dumps(as_json(rows, problem)))["rows"][0]["pending_bytes"] == 10


@pytest.mark.integration
def test_a_database_without_the_schema_is_one_line(empty_database: str) -> None:
    rows, _, problem = read_rows(Settings(index_dsn=empty_database))
    assert rows == []
    assert problem.startswith("the segment index cannot be read: relation")
