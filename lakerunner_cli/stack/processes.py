"""Starts child processes in their own session, and stops whole sessions.

A session is the unit because children of children change their process group (the Python workers of Spark do)
but stay in the session. A process is known by pid and creation time, so that a recycled pid is never killed.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

CLOCK_TOLERANCE_S = 2.0  # creation times are computed from the boot time, which clock corrections move
POLL_S = 0.05
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """The pid and creation time of a process, distinct from a later process of the same pid."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return cls(pid, time.time())

    def alive(self) -> bool:
        try:
            found = psutil.Process(self.pid)
            same: bool = abs(found.create_time() - self.created) < CLOCK_TOLERANCE_S
            return same and not _is_dead(self.pid)
        except psutil.NoSuchProcess:
            return False


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    log: Path,
    user: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child that a Ctrl-C in this terminal does not reach; it logs to a file of its own."""
    with log.open("ab") as output, default_signals():
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
            **identity(user),
        )


@contextlib.contextmanager
def default_signals() -> Iterator[None]:
    """Start children with default signals: they inherit those blocked or ignored here."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    ignored = [number for number in STOPPING if signal.getsignal(number) is signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        ignored = []  # only the main thread may change handlers
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def identity(user: str | None) -> dict[str, Any]:
    """Return arguments of `subprocess` for a child of `user`, with that account's group only."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def session_members(leader: int) -> list[int]:
    """Return the living processes of the session that `leader` opened, itself included."""
    return [pid for pid in psutil.pids() if _session(pid) == leader and not _is_dead(pid)]


def signal_session(leader: int, number: signal.Signals, leader_only: bool = False) -> None:
    members = set() if leader_only else set(session_members(leader))
    if leader_only or _session(leader) == leader:  # a list of processes may miss one that has just begun
        members.add(leader)
    for pid in members:
        with contextlib.suppress(ProcessLookupError):  # it ended between the look and the signal
            os.kill(pid, number)


def listens(leader: int, port: int) -> bool:
    """Tell if the session itself holds the port: another program may answer there."""
    try:
        connections = [
            c for pid in session_members(leader) for c in psutil.Process(pid).net_connections("tcp")
        ]
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True  # the system does not tell; believe the probe
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)


def wait_gone(leaders: Sequence[int], timeout_s: float) -> list[int]:
    """Wait until the sessions are empty; return the leaders of those that are not."""
    deadline = time.monotonic() + timeout_s
    remaining = [leader for leader in leaders if session_members(leader)]
    while remaining and time.monotonic() < deadline:
        time.sleep(POLL_S)
        remaining = [leader for leader in remaining if session_members(leader)]
    return remaining


def end_session(leader: int, grace_s: float, first: signal.Signals = signal.SIGTERM) -> None:
    signal_session(leader, first)
    for late in wait_gone([leader], grace_s):
        signal_session(late, signal.SIGKILL)
        wait_gone([late], grace_s)


def orphan_sessions(recorded: Sequence[ProcessId], data_dir: Path) -> list[int]:
    """Return sessions of an earlier supervisor that still run, by their recorded leaders."""
    return [known.pid for known in recorded if known.alive() or _leaderless_rest(known, data_dir)]


def _leaderless_rest(known: ProcessId, data_dir: Path) -> bool:
    """Return members whose leader died; they count if younger than it and started for this directory."""
    if psutil.pid_exists(known.pid):
        return False
    return any(_belongs(pid, known.created, data_dir) for pid in session_members(known.pid))


def _belongs(pid: int, since: float, data_dir: Path) -> bool:
    try:
        process = psutil.Process(pid)
        ours: bool = process.environ().get("LAKERUNNER_DATA_DIR") == str(data_dir)
        return ours and float(process.create_time()) > since - CLOCK_TOLERANCE_S
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


def _is_dead(pid: int) -> bool:
    """Tell if a process is dead; a zombie with threads is a JVM that still holds its ports."""
    try:
        process = psutil.Process(pid)
        zombie: bool = process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True
    return zombie
