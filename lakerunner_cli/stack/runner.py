"""Runs one component: wait for its needs, prepare, start, watch, restart.

Every component has a thread of its own, so independent ones start at the same time. `ComponentRunner._live`
holds the steps in order; the supervisor stops the process. A component that was ready is asked again and
again: a process that exists proves nothing.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Protocol

from lakerunner_cli.command import StackError
from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.liveness import LOOK_EVERY_S, Liveness, Pulse, cpu_seconds, is_stopped
from lakerunner_cli.stack.processes import ProcessId, end_session, listens, spawn
from lakerunner_cli.stack.site import Site
from lakerunner_cli.stack.state import Phase, StateFile

FIRST_S = 0.5
LONGEST_S = 10.0
CALM_S = 60.0


def delay(next_crash_count: int) -> float:
    """Return the wait before a restart: 0.5, 1, 2, 4, 8, 10, 10 … seconds.

    >>> [delay(n) for n in (1, 2, 5, 6, 60)]
    [0.5, 1.0, 8.0, 10.0, 10.0]
    """
    return min(LONGEST_S, FIRST_S * 2.0 ** min(next_crash_count - 1, 10))


def next_crash_count(before: int, lived_s: float) -> int:
    """Count a crash; a child that lived for a minute starts a new count."""
    return 1 if lived_s >= CALM_S else before + 1


PROBE_EVERY_S = 0.2
EXIT_EVERY_S = 0.3
SWEEP_GRACE_S = 3.0
MOST_PATIENCE = 8
"""A component gets at most so many times its time to become ready, twice as much after each slow start."""


class Report(Protocol):
    def __call__(self, component: str, text: str) -> None:
        """Report an event of a component to the person and the log."""


@dataclass(frozen=True, slots=True)
class SharedState:
    """The state that all runners of a supervisor share."""

    site: Site
    state: StateFile
    ready: Mapping[str, Event]
    stopping: Event
    failed: Event
    report: Report


class ComponentRunner(Thread):
    def __init__(self, component: Component, around: SharedState) -> None:
        super().__init__(name=component.name, daemon=True)
        self.component = component
        self._around = around
        self._gate = Lock()  # no process may start once `stopping` was seen
        self._process: subprocess.Popen[bytes] | None = None
        self._patience = 1
        self._why_silent = ""
        """Error of the last probe, for people; empty: it only found no answer."""

    def run(self) -> None:
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - a thread that dies silently looks like a slow start
            self._fail(error)

    def leader(self) -> int | None:
        """Return the session to stop; wait for a start that is under way."""
        with self._gate:
            return self._process.pid if self._process else None

    def reap(self) -> None:
        """Reap a stopped child, which else stays a zombie where process 1 is not an init."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=0.5)

    def _live(self) -> None:
        if not self._needs_are_ready():
            return
        crashes, begin = 0, time.monotonic()
        while process := self._start():
            started = time.monotonic()
            reason = self._watch(process, begin)
            if self._around.stopping.is_set():
                return
            if not self.component.wanted(self._around.site):
                self._close(process)
                return
            crashes = next_crash_count(crashes, time.monotonic() - started)
            self._record_crash(process, reason, delay(crashes))
            begin = time.monotonic()

    def _needs_are_ready(self) -> bool:
        for name in self.component.needs:
            while not self._around.ready[name].wait(timeout=PROBE_EVERY_S):
                if self._around.stopping.is_set():
                    return False
        return not self._around.stopping.is_set()

    def _start(self) -> subprocess.Popen[bytes] | None:
        site, component = self._around.site, self.component
        if self._around.stopping.is_set():
            return None
        self._set(Phase.PREPARING)
        component.prepare(site, lambda text: self._around.report(self.name, text))
        with self._gate:
            if self._around.stopping.is_set():
                return None
            self._process = spawn(
                component.command(site),
                {**site.environment(), **component.environment(site)},
                site.paths.root / "run",
                site.paths.log(self.name),
                component.user(site),
            )
            self._set(
                Phase.STARTING, process=ProcessId.of(self._process.pid), address=component.address(site)
            )
        return self._process

    def _watch(self, process: subprocess.Popen[bytes], begin: float) -> str:
        """Watch until the process ends or has to be ended; return how, for the report."""
        started_at = time.time()
        longest_s = self.component.ready_timeout_s * self._patience
        while process.poll() is None:
            try:
                ready = self._is_ready(started_at)
            except StackError:
                raise  # a person has to act; starting again would not help
            except Exception as error:  # noqa: BLE001 - it may have been killed in the middle of an answer
                return f"failed its checks ({error})"
            if ready:
                self._patience = 1
                self._mark_ready(time.monotonic() - begin)
                return self._watch_ready(process)
            if time.time() - started_at > longest_s:
                self._patience = min(2 * self._patience, MOST_PATIENCE)
                return f"was not ready after {longest_s:.0f} s"
            if self._around.stopping.wait(PROBE_EVERY_S):
                break
        return f"exited with {process.returncode} before it was ready"

    def _watch_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Ask the component every few seconds whether it still works."""
        now = time.monotonic()
        liveness, next_look = Liveness.starting(self.component.silent_timeout_s, now), now + LOOK_EVERY_S
        while process.poll() is None:
            if self._around.stopping.wait(EXIT_EVERY_S):
                process.wait()
                break
            if time.monotonic() < next_look:
                continue
            pulse = self._look(process.pid, liveness)
            silent_s = time.monotonic() - liveness.answered_at
            if pulse is Pulse.DEAD:
                return f"did not answer for {silent_s:.0f} s"
            self._show(pulse, silent_s)
            next_look = time.monotonic() + LOOK_EVERY_S
        return f"exited with {process.returncode}"

    def _look(self, leader: int, liveness: Liveness) -> Pulse:
        stopped = is_stopped(leader)
        if not stopped and self._answers():
            return liveness.answered(time.monotonic())
        components = self._around.state.state.components
        if any(components[name].phase is not Phase.READY for name in self.component.needs):
            return liveness.excused(time.monotonic())
        return liveness.missed(time.monotonic(), cpu_seconds(leader), stopped)

    def _answers(self) -> bool:
        """Probe a component that was ready; it counts only what is younger than its patience."""
        since = time.time() - self.component.silent_timeout_s
        self._why_silent = ""
        try:
            return self.component.probe(self._around.site, since)
        except Exception as error:  # noqa: BLE001 - whatever a broken component does to its probe is no answer
            self._why_silent = f": {type(error).__name__}: {error}"
            return False

    def _show(self, pulse: Pulse, silent_s: float) -> None:
        """Tell the person and the state file when a component falls silent and when it is back."""
        phase = self._around.state.state.components[self.name].phase
        if pulse is Pulse.SILENT:
            self._set(Phase.SILENT, message=f"no answer for {silent_s:.0f} s{self._why_silent}")
            if phase is not Phase.SILENT:
                self._around.report(self.name, f"does not answer for {silent_s:.0f} s{self._why_silent}")
        elif pulse is Pulse.ANSWERS and phase is Phase.SILENT:
            self._set(Phase.READY, message="")
            self._around.report(self.name, "answers again")

    def _is_ready(self, started_at: float) -> bool:
        if not self.component.probe(self._around.site, started_at):
            return False
        port = self._around.site.ports.get(self.name)
        if port is not None and self._process is not None and not listens(self._process.pid, port):
            raise OSError(f"port {port} was taken by another program in the meantime")
        self.component.finish(self._around.site)
        return True

    def _mark_ready(self, seconds: float) -> None:
        address = self.component.address(self._around.site)
        self._set(Phase.READY, ready_after_s=round(seconds, 2), address=address, message="")
        self._around.ready[self.name].set()
        self._around.report(self.name, f"ready after {seconds:.1f} s  {address}")

    def _record_crash(self, process: subprocess.Popen[bytes], reason: str, pause_s: float) -> None:
        self._around.ready[self.name].clear()
        end_session(
            process.pid, SWEEP_GRACE_S, self.component.stop_signal
        )  # what it started must not outlive it
        process.wait()
        restarts = self._around.state.state.components[self.name].restarts + 1
        self._set(Phase.RESTARTING, process=None, restarts=restarts, message=reason)
        log = self._around.site.paths.log(self.name)
        self._around.report(self.name, f"{reason}; starting it again in {pause_s:.1f} s (log: {log})")
        self._around.stopping.wait(pause_s)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        """Leave a component alone that nothing wants any more."""
        self._around.ready[self.name].clear()
        end_session(process.pid, SWEEP_GRACE_S, self.component.stop_signal)
        process.wait()
        self._set(Phase.CLOSED, process=None, message="nothing wants it any more")
        self._around.report(self.name, "closed")

    def _fail(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        self._set(Phase.FAILED, message=text)
        self._around.report(self.name, f"FAILED: {text}")
        self._around.failed.set()

    def _set(self, phase: Phase, **changes: object) -> None:
        self._around.state.update(self.name, phase=phase, **changes)
