"""The published state of a supervisor: `run/state.json` and the lock beside it.

The supervisor is the only writer and holds the lock for as long as it lives; the kernel frees it on kill -9,
so the check for a running stack needs no guess about pids. Files are written aside and renamed, so readers
see whole ones only.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import IO, Any

from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.processes import ProcessId

UNSEEN_S = 20.0
"""A supervisor that wrote nothing for so long is frozen, and its state is old."""


class Phase(StrEnum):
    WAITING = "waiting"
    PREPARING = "preparing"
    STARTING = "starting"
    READY = "ready"
    SILENT = "silent"
    RESTARTING = "restarting"
    CLOSED = "closed"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ComponentState:
    name: str
    phase: Phase = Phase.WAITING
    process: ProcessId | None = None
    address: str = ""
    ready_after_s: float | None = None
    since: float = 0.0
    restarts: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class StackState:
    supervisor: ProcessId
    started: float
    notices: tuple[str, ...] = ()
    components: dict[str, ComponentState] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        return all(component.phase in {Phase.READY, Phase.CLOSED} for component in self.components.values())

    def processes(self) -> list[ProcessId]:
        return [c.process for c in self.components.values() if c.process is not None]


class StateFile:
    """The writing end, for the supervisor; every change is on disk before the call returns."""

    def __init__(self, path: Path, state: StackState) -> None:
        self._path = path
        self._state = state
        self._guard = Lock()
        self._write()

    def notice(self, text: str) -> None:
        with self._guard:
            self._state = replace(self._state, notices=(*self._state.notices, text))
            self._write()

    def update(self, name: str, **changes: Any) -> ComponentState:
        with self._guard:
            changed = replace(self._state.components[name], since=time.time(), **changes)
            self._state = replace(self._state, components={**self._state.components, name: changed})
            self._write()
            return changed

    def add(self, name: str) -> None:
        with self._guard:
            added = {**self._state.components, name: ComponentState(name)}
            self._state = replace(self._state, components=added)
            self._write()

    def touch(self) -> None:
        """Show that the supervisor still looks; a reader takes an old file for that of a frozen one."""
        os.utime(self._path)

    @property
    def state(self) -> StackState:
        return self._state

    def _write(self) -> None:
        aside = self._path.with_suffix(".tmp")
        aside.write_text(json.dumps(asdict(self._state), indent=1))
        aside.replace(self._path)


def read_state(path: Path) -> StackState | None:
    if not path.is_file():
        return None
    raw = json.loads(path.read_text())
    components = {name: _component(values) for name, values in raw["components"].items()}
    return StackState(ProcessId(**raw["supervisor"]), raw["started"], tuple(raw["notices"]), components)


def seconds_unseen(paths: StackPaths) -> float:
    """Return how long ago the supervisor last showed that it looks after its components."""
    return max(0.0, time.time() - paths.state.stat().st_mtime)


def acquire(paths: StackPaths, patience_s: float = 0.0) -> IO[str] | None:
    """Take the lock of a data directory; return None while a supervisor holds it. Keep the result open.

    A supervisor should be patient: `is_running` in another process holds the lock for a moment.
    """
    paths.lock.parent.mkdir(parents=True, exist_ok=True)
    handle, deadline = paths.lock.open("w"), time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                handle.close()
                return None
            time.sleep(0.02)
        else:
            return handle


def is_running(paths: StackPaths) -> bool:
    if not paths.lock.exists():
        return False
    handle = acquire(paths)
    if handle is None:
        return True
    handle.close()
    return False


def _component(values: dict[str, Any]) -> ComponentState:
    process = ProcessId(**values["process"]) if values["process"] else None
    return ComponentState(**{**values, "process": process, "phase": Phase(values["phase"])})
