"""What is remembered about a stack: state file, lock, `stack.env`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakerunner_cli.stack import logs
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.processes import ProcessId
from lakerunner_cli.stack.site import prepare_site
from lakerunner_cli.stack.state import (
    ComponentState,
    Phase,
    StackState,
    StateFile,
    acquire,
    is_running,
    read_state,
)
from resources.settings import Settings


def _settings(data_dir: Path) -> Settings:
    return Settings.load({"LAKERUNNER_DATA_DIR": str(data_dir)})


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    paths = StackPaths(tmp_path)
    paths.create()
    start = StackState(ProcessId(7, 1.5), 2.0, ("n",), {"kafka": ComponentState("kafka")})
    file = StateFile(paths.state, start)
    file.update("kafka", phase=Phase.READY, process=ProcessId(8, 3.5), restarts=2)
    assert read_state(paths.state) == file.state
    assert file.state.ready
    assert file.state.processes() == [ProcessId(8, 3.5)]


def test_the_lock_says_whether_a_stack_runs(tmp_path: Path) -> None:
    paths = StackPaths(tmp_path)
    assert not is_running(paths)
    held = acquire(paths)
    assert held is not None
    assert is_running(paths)
    assert acquire(paths) is None
    held.close()
    assert not is_running(paths)


def test_secrets_and_ports_survive_a_restart(tmp_path: Path) -> None:
    said: list[str] = []
    first = prepare_site(replace(_settings(tmp_path), ingress_port=48311), said.append)
    second = prepare_site(_settings(tmp_path), said.append)
    assert second.settings == first.settings
    assert second.postgres_password == first.postgres_password != ""
    assert second.settings.ingress_port == 48311
    assert (tmp_path / "stack.env").stat().st_mode & 0o777 == 0o600


def test_two_directories_have_different_secrets(tmp_path: Path) -> None:
    a = prepare_site(_settings(tmp_path / "a"), lambda _text: None)
    b = prepare_site(_settings(tmp_path / "b"), lambda _text: None)
    assert a.settings.internal_token != b.settings.internal_token
    assert a.postgres_password != b.postgres_password


def test_children_get_exactly_the_settings_of_the_site(tmp_path: Path) -> None:
    site = prepare_site(_settings(tmp_path), lambda _text: None)
    assert Settings.load(site.environment()) == site.settings


def test_logs_from_the_end_and_onwards(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("one\ntwo\nthr")
    assert logs.last_lines(log, 2) == ["two", "thr"]
    lines, position = logs.new_lines(log, 0)
    assert lines == ["one", "two"]
    log.write_text("one\ntwo\nthree\n")
    assert logs.new_lines(log, position)[0] == ["three"]
    assert logs.new_lines(tmp_path / "absent", 0) == ([], 0)


def test_large_logs_are_rotated(tmp_path: Path) -> None:
    paths = StackPaths(tmp_path)
    paths.create()
    with paths.log("big").open("wb") as out:
        out.truncate(logs.ROTATE_AT_BYTES + 1)
    paths.log("small").write_text("x")
    logs.rotate(paths)
    assert logs.names(paths) == ["small"]
    assert (paths.logs / "big.log.1").exists()
