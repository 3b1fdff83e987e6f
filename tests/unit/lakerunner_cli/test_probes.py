"""A component that accepts connections and answers nothing is frozen: no probe may call it ready."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakerunner_cli.command import StackError
from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.components import COMPONENTS
from lakerunner_cli.stack.site import LONGEST_SOCKET, Site, prepare_site, socket_path
from resources.settings import Settings


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A stack of which every port is taken by a program that never reads."""
    folder = tmp_path_factory.mktemp("frozen")
    site = prepare_site(Settings.load({"LAKERUNNER_DATA_DIR": str(folder)}), lambda _text: None, ())
    holes = {name: socket.create_server(("127.0.0.1", 0), backlog=64) for name in site.ports}
    ports = {name: hole.getsockname()[1] for name, hole in holes.items()}
    code_server = socket.socket(socket.AF_UNIX)
    code_server.bind(str(site.code_server_socket))
    code_server.listen(64)
    settings = replace(site.settings, kafka_bootstrap=f"127.0.0.1:{ports['kafka']}")
    yield replace(site, ports=ports, settings=settings)
    for hole in (*holes.values(), code_server):
        hole.close()


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_no_probe_takes_a_frozen_component_for_a_ready_one(component: Component, frozen: Site) -> None:
    assert not component.probe(frozen, time.time() - component.silent_timeout_s)


def test_the_watchdog_is_ready_while_it_touches_its_file(frozen: Site) -> None:
    watchdog = next(component for component in COMPONENTS if component.name == "watchdog")
    frozen.settings.watchdog_beat.touch()
    assert watchdog.probe(frozen, time.time() - 1)
    os.utime(frozen.settings.watchdog_beat, (0, time.time() - watchdog.silent_timeout_s - 1))
    assert not watchdog.probe(frozen, time.time() - watchdog.silent_timeout_s)


def test_a_socket_in_a_deep_directory_gets_a_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deep = tmp_path / ("d" * LONGEST_SOCKET) / "code_server.sock"
    short = tmp_path / "c.sock"
    assert socket_path(short) in {short, socket_path(short)}
    folder = socket_path(deep).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert socket_path(deep).parent == folder
    folder.chmod(0o755)
    with pytest.raises(StackError, match="private"):
        socket_path(deep)
