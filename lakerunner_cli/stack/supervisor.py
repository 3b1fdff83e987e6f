"""Starts all components, keeps them running, stops them in reverse order within fifteen seconds.

It owns the lock and the state file of the data directory for as long as it lives. Children never outlive it
for long: the next supervisor first stops those of a killed one (`orphans.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock
from types import FrameType

from lakerunner_cli.stack.component import Component, stop_order
from lakerunner_cli.stack.processes import ProcessId, signal_session, wait_gone
from lakerunner_cli.stack.runner import ComponentRunner, SharedState
from lakerunner_cli.stack.site import Site
from lakerunner_cli.stack.state import ComponentState, Phase, StackState, StateFile

STOP_BUDGET_S = 13.0
GROUP_BUDGET_S = 5.0
TOUCH_EVERY_S = 2.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    def __init__(
        self,
        site: Site,
        components: Sequence[Component],
        begin: float,
        notices: tuple[str, ...] = (),
        optional: Sequence[Component] = (),
    ) -> None:
        self._begin, self._site = begin, site
        self._components, self._optional = tuple(components), tuple(optional)
        self._print_guard = Lock()
        states = {component.name: ComponentState(component.name) for component in components}
        self._state = StateFile(
            site.paths.state, StackState(ProcessId.of(os.getpid()), time.time(), notices, states)
        )
        self._stopping, self._failed, self._impatient = Event(), Event(), Event()
        ready = {component.name: Event() for component in (*components, *optional)}
        self._around = SharedState(site, self._state, ready, self._stopping, self._failed, self._report)
        self._runners = {each.name: ComponentRunner(each, self._around) for each in components}

    def run(self, when_ready: Callable[[StackState], None]) -> int:
        """Run until a stop signal (0) or a component that cannot be prepared (1)."""
        asked_to_stop = self._listen_for_signals()
        for runner in self._runners.values():
            runner.start()
        told, touched = False, 0.0
        while not asked_to_stop.wait(0.2) and not self._failed.is_set():
            if time.monotonic() - touched > TOUCH_EVERY_S:
                touched = time.monotonic()
                self._state.touch()
                self._start_wanted()
            if not told and self._state.state.ready:
                told = True
                self._report("stack", f"all {len(self._components)} components ready")
                when_ready(self._state.state)
        self._stop()
        return 1 if self._failed.is_set() else 0

    def _start_wanted(self) -> None:
        """Start optional components that something has begun to want; they end by themselves."""
        for component in self._optional:
            known = self._state.state.components.get(component.name)
            if component.wanted(self._site) and (known is None or known.phase is Phase.CLOSED):
                self._components = (*(c for c in self._components if c is not component), component)
                self._state.add(component.name)
                self._runners[component.name] = ComponentRunner(component, self._around)
                self._runners[component.name].start()

    def _listen_for_signals(self) -> Event:
        """Install real handlers, so that children start with the default ones after exec."""
        asked = Event()

        def handle(_number: int, _frame: FrameType | None) -> None:
            if asked.is_set():
                self._impatient.set()
            asked.set()

        for number in STOP_SIGNALS:
            signal.signal(number, handle)
        return asked

    def _stop(self) -> None:
        begin = time.monotonic()
        self._report("stack", "stopping")
        self._stopping.set()
        for group in stop_order(self._components):
            self._stop_group(group, begin + STOP_BUDGET_S)
        for runner in self._runners.values():
            runner.reap()
        for name, component in self._state.state.components.items():
            if component.phase is not Phase.FAILED:
                self._state.update(name, phase=Phase.STOPPED, process=None)
        self._report("stack", f"stopped after {time.monotonic() - begin:.1f} s")

    def _stop_group(self, group: list[Component], deadline: float) -> None:
        leaders = {self._runners[c.name].leader(): c for c in group}
        running = {pid: component for pid, component in leaders.items() if pid is not None}
        for pid, component in running.items():
            signal_session(pid, component.stop_signal, leader_only=component.stops_its_own_children)
        patience = min(GROUP_BUDGET_S, deadline - time.monotonic())
        for pid in self._await(list(running), max(0.0, patience)):
            self._report(running[pid].name, "did not stop in time, killing it")
            signal_session(pid, signal.SIGKILL)
            wait_gone([pid], 1.0)

    def _await(self, leaders: list[int], patience_s: float) -> list[int]:
        deadline = time.monotonic() + patience_s
        while leaders and time.monotonic() < deadline and not self._impatient.is_set():
            leaders = wait_gone(leaders, 0.2)
        return leaders

    def _report(self, component: str, text: str) -> None:
        if text.startswith("NOTICE"):
            self._state.notice(f"{component}: {text}")
        with self._print_guard, contextlib.suppress(BrokenPipeError):  # nobody reads any more: go on working
            print(f"{time.monotonic() - self._begin:6.1f} s  {component:<15} {text}", flush=True)


def leave(code: int) -> None:
    """End the process even if a download thread is still busy; all components are stopped."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
