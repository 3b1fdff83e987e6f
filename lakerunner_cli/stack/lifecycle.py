"""Starts and stops a stack, for `up` and `down`.

`supervise` runs in this process until a signal; `detach` starts a supervisor in a session of its own and
follows it until it is ready; `shut_down` ends whichever runs, including the remains of a killed one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import logs
from lakerunner_cli.stack.components import OPTIONAL, select
from lakerunner_cli.stack.orphans import stop_orphans
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.ports import Reservations
from lakerunner_cli.stack.processes import spawn
from lakerunner_cli.stack.site import DEFINITIONS, prepare_site
from lakerunner_cli.stack.state import Phase, StackState, acquire, is_running, read_state
from lakerunner_cli.stack.supervisor import Supervisor
from resources.settings import Settings, process_environment

Announce = Callable[[str], None]
PATIENCE_S = 600.0
"""Time without any news of the supervisor after which `--detach` stops waiting; the stack goes on."""
HOPELESS_RESTARTS = 4
STOP_PATIENCE_S = 20.0


def supervise(
    settings: Settings,
    lock: IO[str],
    names: tuple[str, ...],
    when_ready: Callable[[StackState], None],
    definitions: str = DEFINITIONS,
) -> int:
    """Run `lakerunner up` in the foreground; `lock` is kept open until the end."""
    begin, notices = time.monotonic(), list[str]()

    def announce(text: str) -> None:
        notices.append(text)
        print(f"{time.monotonic() - begin:6.1f} s  {'stack':<15} {text}", flush=True)

    components = select(names)
    paths = StackPaths(settings.data_dir)
    paths.create()
    logs.rotate(paths)
    stop_orphans(paths, announce)
    running = {component.name for component in components}
    with lock, Reservations() as reserved:
        site = prepare_site(settings, announce, running, definitions, reserved.take)
        optional = [each for each in OPTIONAL if running.issuperset(each.needs)]
        return Supervisor(site, components, begin, tuple(notices), optional).run(when_ready)


def detach(settings: Settings, arguments: list[str], announce: Announce) -> StackState:
    """Start a supervisor that outlives this shell; return when every component is ready."""
    paths = StackPaths(settings.data_dir)
    paths.create()
    log = paths.log("supervisor")
    position = log.stat().st_size if log.is_file() else 0
    command = [sys.executable, "-m", "lakerunner_cli.main", "up", "--detached", *arguments]
    child = spawn([*command, "--data-dir", str(paths.root)], process_environment(), paths.root / "run", log)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        ended = child.poll() is not None
        lines, position = logs.new_lines(log, position)
        for line in lines:
            announce(line)
            deadline = time.monotonic() + PATIENCE_S  # slow is not stuck: a first start compiles for long
        if (state := _own_state(paths, child)) is not None:
            return state
        if ended:
            raise StackError(f"the stack did not start (exit code {child.returncode}); see above and {log}")
        time.sleep(0.1)
    raise StackError(f"nothing happened for {PATIENCE_S:.0f} s; `lakerunner status` shows what is missing")


def shut_down(paths: StackPaths, announce: Announce) -> bool:
    """Stop the supervisor (it stops its children), then the remains; return False if nothing ran."""
    supervised = is_running(paths)
    if supervised:
        _stop_supervisor(paths, announce)
    lock = acquire(paths, patience_s=0.3)
    if lock is None:
        raise StackError(f"another `lakerunner up` just started on {paths.root}")
    with lock:
        return stop_orphans(paths, announce) > 0 or supervised


def _own_state(paths: StackPaths, child: subprocess.Popen[bytes]) -> StackState | None:
    """Return the state once everything is ready; raise once it is plainly hopeless."""
    state = read_state(paths.state)
    if state is None or state.supervisor.pid != child.pid:
        return None
    for component in state.components.values():
        if component.phase is not Phase.READY and component.restarts >= HOPELESS_RESTARTS:
            tail = "\n  ".join(logs.last_lines(paths.log(component.name), 12))
            raise StackError(
                f"{component.name} {component.message}, {component.restarts} times now. The stack keeps "
                f"trying (`lakerunner down` ends it). Last lines of {paths.log(component.name)}:\n  {tail}"
            )
    return state if state.ready else None


def _stop_supervisor(paths: StackPaths, announce: Announce) -> None:
    state = read_state(paths.state)
    if state is None or not state.supervisor.alive():
        raise StackError(f"a supervisor holds {paths.lock} but has not written its state yet; try again")
    announce(f"stopping the stack (supervisor {state.supervisor.pid})")
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(state.supervisor.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_running(paths):
        if time.monotonic() > deadline:
            announce(f"the supervisor did not stop within {STOP_PATIENCE_S:.0f} s, killing it")
            os.kill(state.supervisor.pid, signal.SIGKILL)
            deadline += STOP_PATIENCE_S
        time.sleep(0.1)
