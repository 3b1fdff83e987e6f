"""Telling our processes from others, dead or recycled."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakerunner_cli.stack.processes import (
    ProcessId,
    end_session,
    listens,
    orphan_sessions,
    session_members,
    spawn,
)
from resources.settings import process_environment
from tests.support.patience import wait_for

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# Starts a child that leaves the process group (as Spark's Python workers do), then says so.
PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
print("started", flush=True); time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True); time.sleep(600)
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        for pid in session_members(process.pid):
            subprocess.run(["/bin/kill", "-9", str(pid)], check=False)
        process.wait()


def _spawn(program: list[str], tmp_path: Path, said: str = "") -> subprocess.Popen[bytes]:
    environment = {**process_environment(), "LAKERUNNER_DATA_DIR": str(tmp_path)}
    process = spawn(program, environment, tmp_path, tmp_path / "log")
    wait_for(lambda: said in (tmp_path / "log").read_text(), said)
    return process


def test_a_recycled_pid_is_not_ours(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    started.append(_spawn(SLEEP, tmp_path))
    known = ProcessId.of(started[0].pid)
    earlier = replace(known, created=known.created - 60)
    assert known.alive()
    assert not earlier.alive()
    assert orphan_sessions([known], tmp_path) == [known.pid]
    assert orphan_sessions([earlier], tmp_path) == []


def test_a_dead_leader_with_living_members_is_found_and_ended(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    started.append(_spawn([sys.executable, "-c", PARENT], tmp_path, "started"))
    known = ProcessId.of(started[0].pid)
    assert len(session_members(known.pid)) == 2
    started[0].kill()
    started[0].wait()
    assert orphan_sessions([known], tmp_path) == [known.pid]
    assert orphan_sessions([known], tmp_path / "other") == []
    end_session(known.pid, 60)
    assert session_members(known.pid) == []


def test_a_deaf_process_is_killed_after_its_grace(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    started.append(_spawn([sys.executable, "-c", STUBBORN], tmp_path, "deaf"))
    begin = time.monotonic()
    end_session(started[0].pid, 0.5)
    assert started[0].wait() == -signal.SIGKILL
    assert time.monotonic() - begin > 0.4


def test_children_have_default_signal_handling(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    program = "import time; print('ready', flush=True); time.sleep(600)"
    started.append(_spawn([sys.executable, "-c", program], tmp_path, "ready"))
    end_session(started[0].pid, 60)
    assert started[0].wait() == -signal.SIGTERM


@pytest.mark.parametrize("is_blocked", [True, False])
def test_what_the_parent_ignores_or_blocks_stops_its_children(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], is_blocked: bool
) -> None:
    program = "import time; print('ready', flush=True); time.sleep(600)"
    before = signal.getsignal(signal.SIGTERM)
    if is_blocked:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        started.append(_spawn([sys.executable, "-c", program], tmp_path, "ready"))
        assert (signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())) == is_blocked
        assert (signal.getsignal(signal.SIGTERM) is signal.SIG_IGN) == (not is_blocked)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    end_session(started[0].pid, 60)
    assert started[0].wait() == -signal.SIGTERM


def test_who_listens(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    program = (
        "import socket, time; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], '!', flush=True); time.sleep(600)"
    )
    started.append(_spawn([sys.executable, "-c", program], tmp_path, "!"))
    port = int((tmp_path / "log").read_text().split()[0])
    assert listens(started[0].pid, port)
    assert not listens(started[0].pid, port + 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert not listens(started[0].pid, other.getsockname()[1])
