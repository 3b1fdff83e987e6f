"""What is remembered about a stack: state file, lock, `stack.env`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakerunner_cli.commands.up import lake_url
from lakerunner_cli.stack import logs
from lakerunner_cli.stack.components.roles import QUERY_API
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


def test_a_lake_elsewhere_is_remembered_and_the_own_one_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKERUNNER_LAKE_URL", raising=False)
    own, elsewhere = Settings(lake_url="file:///old/lake"), Settings(lake_url="s3://b/p")
    assert [lake_url("", own), lake_url("", elsewhere)] == ["", "s3://b/p"]
    assert [lake_url("file:///new", elsewhere), lake_url("s3://c", own)] == ["file:///new", "s3://c"]
    monkeypatch.setenv("LAKERUNNER_LAKE_URL", "gs://g")
    assert [lake_url("", elsewhere), lake_url("s3://c", own)] == ["gs://g", "s3://c"]
    site = prepare_site(_settings(tmp_path), lambda _text: None)
    assert site.settings.lake_url == f"file://{tmp_path}/lake"
    site = prepare_site(replace(_settings(tmp_path), lake_url="s3://b", s3_endpoint="http://x"), print)
    remembered = _settings(tmp_path)
    assert (remembered.lake_url, remembered.s3_endpoint) == ("s3://b", "http://x")
    assert site.settings.lake_url == "s3://b"


def test_the_doors_of_the_query_api_have_ports_of_their_own(tmp_path: Path) -> None:
    site = prepare_site(_settings(tmp_path), lambda _text: None, {"query_api"})
    assert site.settings.query_flight_port == site.ports["query_flight"] > 0
    assert _settings(tmp_path).query_flight_port == site.ports["query_flight"]
    address = QUERY_API.address(site)
    assert address.startswith(f"http://127.0.0.1:{site.ports['query_api']}, ")
    assert f"grpc://127.0.0.1:{site.ports['query_flight']} (Flight)" in address
    assert site.settings.query_postgres_port == site.ports["query_postgres"] > 0
    assert _settings(tmp_path).query_postgres_port == site.ports["query_postgres"]
    assert f"postgresql://127.0.0.1:{site.ports['query_postgres']} (PostgreSQL)" in address
    secure = replace(site, settings=replace(site.settings, query_tls_certificate="/x.pem"))
    assert "grpc+tls://" in QUERY_API.address(secure)
