"""`lakerunner sweep` and `admin retention` over the index in memory and a lake of files."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakerunner_cli import accounts
from lakerunner_cli.command import CommandError
from lakerunner_cli.commands import admin
from lakerunner_cli.commands import sweep as command
from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.lake.layout import Signal, hourly_segment_key
from resources.settings import Settings, SettingsError
from tests.support.sweep_index import HOUR, Clocked, cook, live, retire, segment

ORPHAN = hourly_segment_key("acme", "c", "metrics", HOUR, "f" * 32)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, lake_url=f"file://{tmp_path}/lake")


@pytest.fixture
def clocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocked:
    found = Clocked(MemoryIndex(), "")

    @contextmanager
    def opened(_settings: Settings) -> Iterator[object]:
        yield found.index

    monkeypatch.setattr(accounts, "open_index", opened)
    found.index.create_organisation("acme")
    found.index.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    (tmp_path / "lake").mkdir()
    (tmp_path / "raw").mkdir()
    return found


def write(tmp_path: Path, key: str) -> Path:
    path = tmp_path / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 7)
    return path


def run(module: object, settings: Settings, *words: str) -> int:
    parser = ArgumentParser()
    module.configure(parser)  # type: ignore[attr-defined]
    return module.run(parser.parse_args(words), settings)  # type: ignore[attr-defined, no-any-return]


def old_things(clocked: Clocked, tmp_path: Path) -> list[Path]:
    """Something of every kind that a sweep deletes: their files."""
    cook(clocked.index, 1)
    cook(clocked.index, 2)
    retire(clocked.index, 2)
    files = [
        write(tmp_path, "lake/db/2"),
        write(tmp_path, "raw/otel-raw/acme/c/metrics/1"),
        write(tmp_path, "raw/otel-raw/acme/c/metrics/2"),
        write(tmp_path, f"lake/{ORPHAN}"),
    ]
    clocked.index.note_listed("acme", {ORPHAN: 7}, [])
    clocked.index.put_retention("acme", Signal.METRICS, "segments", 1)
    clocked.index.put_retention("acme", Signal.METRICS, "raw", 1)
    clocked.pass_seconds(100_000)
    return files


def test_a_dry_run_tells_exactly_what_the_sweep_then_does(
    clocked: Clocked, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = old_things(clocked, tmp_path)
    assert run(command, settings, "--dry-run") == 0
    told = capsys.readouterr().out.splitlines()
    assert all(path.exists() for path in files)
    assert live(clocked.index) == [1, 90]
    assert clocked.index.counters() == {}
    assert "acme: 2 segments past their retention, retired, 100 bytes" in told
    assert "acme: 1 files of retired segments, deleted, 50 bytes" in told
    assert "    db/2" in told
    assert "acme: 2 raw objects past their retention, deleted, 20 bytes" in told
    assert "    raw/otel-raw/acme/c/metrics/1" in told
    assert "acme: 1 orphans, deleted, 7 bytes" in told

    assert run(command, settings) == 0
    done = capsys.readouterr().out.splitlines()
    deleted = [line for line in told if "deleted" in line or "retired" in line]
    assert deleted == [line for line in done if "deleted" in line or "retired" in line]
    assert not any(path.exists() for path in files)
    assert live(clocked.index) == []
    counters = clocked.index.counters()
    assert counters['lakerunner_sweep_deleted_objects_total{what="raw"}'] == 2
    assert counters['lakerunner_sweep_deleted_bytes_total{what="segment"}'] == 50
    assert counters['lakerunner_sweep_deleted_objects_total{what="orphan"}'] == 1
    assert counters["lakerunner_sweep_expired_segments_total"] == 2
    assert counters["lakerunner_sweep_expired_partitions_total"] == 1
    assert counters["lakerunner_sweep_retired_waiting"] == 2
    assert counters["lakerunner_sweep_orphans"] == 0

    assert run(command, settings) == 0
    assert "deleted" not in capsys.readouterr().out


def test_without_a_retention_nothing_expires(
    clocked: Clocked, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cook(clocked.index, 1)
    path = write(tmp_path, "raw/otel-raw/acme/c/metrics/1")
    clocked.pass_seconds(10**7)
    assert run(command, settings) == 0
    assert live(clocked.index) == [1]
    assert path.exists()
    assert "retention" not in capsys.readouterr().out


def test_another_organisation_is_left_alone(clocked: Clocked, settings: Settings, tmp_path: Path) -> None:
    old_things(clocked, tmp_path)
    clocked.index.create_organisation("beta")
    assert run(command, settings, "--org", "beta") == 0
    assert live(clocked.index) == [1, 90]
    with pytest.raises(CommandError, match="gamma"):
        run(command, settings, "--org", "gamma")


def test_a_second_sweep_at_the_same_time_does_nothing_and_says_so(
    clocked: Clocked, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old_things(clocked, tmp_path)
    with clocked.index.sweep_lock():
        assert run(command, settings) == command.BUSY
    assert "another sweep is running" in capsys.readouterr().out
    assert live(clocked.index) == [1, 90]


def test_files_of_others_are_told_and_never_deleted(
    clocked: Clocked, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = [
        write(tmp_path, "lake/db/acme/notes.txt"),
        write(tmp_path, f"lake/{ORPHAN}.bak"),
        write(tmp_path, f"lake/{ORPHAN.replace('acme', 'stranger')}"),
    ]
    mine = write(tmp_path, f"lake/{ORPHAN}")
    assert run(command, settings) == 0
    told = capsys.readouterr().out
    assert "2 files under db/acme/ are not named like segments" in told
    assert "folders of no organisation are left alone: db/stranger/" in told
    assert clocked.index.orphan_counts()["acme"].orphans == 1
    clocked.pass_seconds(100_000)
    assert run(command, settings) == 0
    assert not mine.exists()
    assert all(path.exists() for path in strange)


def test_an_index_that_knows_little_of_the_lake_deletes_no_orphans(
    clocked: Clocked, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [hourly_segment_key("acme", "c", "metrics", HOUR, f"{n:032x}") for n in range(101)]
    paths = [write(tmp_path, f"lake/{name}") for name in names]
    assert run(command, settings) == 0
    clocked.pass_seconds(100_000)
    assert run(command, settings) == 1
    assert "none is deleted" in capsys.readouterr().out
    assert all(path.exists() for path in paths)
    assert run(command, settings, "--all-orphans") == 0
    assert not any(path.exists() for path in paths)


def test_one_bucket_that_fails_does_not_stop_the_others(
    clocked: Clocked, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = old_things(clocked, tmp_path)
    clocked.index.put_storage_profile(StorageProfile("raw", "s3://raw", "nobody"))
    assert run(command, settings) == 1
    told = capsys.readouterr().out
    assert "! bucket raw: credentials_ref 'nobody'" in told
    assert [path.exists() for path in files] == [False, True, True, False]
    clocked.index.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    assert run(command, settings) == 0
    assert not any(path.exists() for path in files)


def test_a_grace_shorter_than_a_query_stops_the_command(clocked: Clocked, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, lake_url=f"file://{tmp_path}/lake", sweep_grace_s=60)
    with pytest.raises(SettingsError, match="SWEEP_GRACE"):
        run(command, settings)


def test_retention_by_command(
    clocked: Clocked, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(admin, settings, "retention", "set", "acme", "metrics", "1d", "400") == 0
    clocked.pass_seconds(8000)
    assert run(admin, settings, "retention", "set", "acme", "logs", "raw", "7") == 0
    capsys.readouterr()
    assert run(admin, settings, "retention", "list") == 0
    assert capsys.readouterr().out.splitlines() == [
        "acme  logs  raw  7 days  (deletes nothing yet)",
        "acme  metrics  1d  400 days",
    ]
    assert run(command, settings, "--dry-run") == 0
    assert "acme: logs raw, 7 days: changed lately" in capsys.readouterr().out
    assert run(admin, settings, "retention", "remove", "acme", "metrics", "1d") == 0
    for words in (
        ("remove", "acme", "metrics", "1d"),
        ("set", "acme", "logs", "1d", "3"),
        ("set", "acme", "metrics", "2d", "3"),
        ("set", "acme", "metrics", "1d", "0"),
        ("set", "nobody", "metrics", "1d", "3"),
    ):
        with pytest.raises(CommandError):
            run(admin, settings, "retention", *words)


def test_parts_of_a_list_are_swept_by_the_next_sweep(
    clocked: Clocked, settings: Settings, tmp_path: Path
) -> None:
    from lakerunner_assets.sweep.act import sweep
    from lakerunner_assets.sweep.plan import Policy

    for number in range(5):
        cook(clocked.index, number)
    retire(clocked.index, *range(5))
    clocked.pass_seconds(4000)
    policy = Policy(3600, 86_400, files=2, chunk=1)
    counts = []
    for _ in range(4):
        report = sweep(clocked.index, settings, policy)
        counts.append((sum(t.count for t in report.tallies.values()), report.unfinished))
    assert counts == [(2, True), (2, True), (1, False), (0, False)]
    assert sweep(clocked.index, settings, policy, max_s=0).tallies == {}
    assert segment(1).segment_id not in clocked.index._state.segments
