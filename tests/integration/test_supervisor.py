"""The supervisor with small programs as components: order, crashes, failures, stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakerunner_cli.stack.state import Phase, read_state
from resources.settings import process_environment

pytestmark = pytest.mark.integration
SLEEP = '[sys.executable, "-c", "import time; time.sleep(60)"]'
DEAF = (
    '[sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); '
    "print('up', flush=True); time.sleep(60)\"]"
)
CRASH_ONCE = (
    '[sys.executable, "-c", "import os, sys, time; p = sys.argv[1]; first = not os.path.exists(p); '
    'open(p, \'w\').close(); first and sys.exit(3); time.sleep(60)", str(site.paths.root / "once")]'
)
PROGRAM = """
import sys, time
from pathlib import Path
from lakerunner_cli.stack.component import Component
from lakerunner_cli.command import StackError
from lakerunner_cli.stack.site import prepare_site
from lakerunner_cli.stack.supervisor import Supervisor, leave
from resources.settings import Settings

def refuse(site, announce):
    raise StackError("cannot be prepared")

def later(site, since):
    return time.time() - {begin} > 1

site = prepare_site(Settings.load({{"LAKERUNNER_DATA_DIR": sys.argv[1]}}), print)
components = [{components}]
leave(Supervisor(site, components, time.monotonic()).run(lambda state: print("ALL READY", flush=True)))
"""


def _component(name: str, command: str, needs: str = "()", more: str = "") -> str:
    return (
        f"Component(name={name!r}, needs={needs}, command=lambda site: {command}, "
        f"address=lambda site: '', {more or 'probe=lambda site, since: True'})"
    )


def _run(tmp_path: Path, *components: str) -> subprocess.Popen[str]:
    program = PROGRAM.format(components=", ".join(components), begin=time.time())
    return subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=process_environment(),
    )


def _read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came: {lines}")


def _stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[str, float]:
    begin = time.monotonic()
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    return out, time.monotonic() - begin


def test_dependents_wait_and_stop_first(tmp_path: Path) -> None:
    slow = _component("below", SLEEP, more="probe=later")
    process = _run(tmp_path, slow, _component("above", SLEEP, '("below",)'))
    lines = "".join(_read_until(process, "ALL READY"))
    assert lines.index("below") < lines.index("above")
    _stop(process, signal.SIGINT)
    state = read_state(tmp_path / "run" / "state.json")
    assert state is not None
    assert {c.phase for c in state.components.values()} == {Phase.STOPPED}


def test_a_crash_is_reported_and_counted(tmp_path: Path) -> None:
    process = _run(tmp_path, _component("flaky", CRASH_ONCE, more="probe=later"))
    lines = "".join(_read_until(process, "ALL READY"))
    assert "exited with 3 before it was ready; starting it again in 0.5 s" in lines
    state = read_state(tmp_path / "run" / "state.json")
    assert state is not None
    assert state.components["flaky"].restarts == 1
    _stop(process)


def test_a_deaf_child_is_killed_in_time(tmp_path: Path) -> None:
    process = _run(tmp_path, _component("deaf", DEAF))
    _read_until(process, "ALL READY")
    time.sleep(1)  # until it has become deaf
    out, seconds = _stop(process)
    assert "did not stop in time, killing it" in out
    assert seconds < 15


def test_what_cannot_be_prepared_ends_the_stack_with_a_reason(tmp_path: Path) -> None:
    broken = _component("broken", SLEEP, more="probe=later, prepare=refuse")
    process = _run(tmp_path, _component("fine", SLEEP), broken)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "FAILED: cannot be prepared" in out
    state = read_state(tmp_path / "run" / "state.json")
    assert state is not None
    assert not any(p.alive() for p in state.processes())


def test_a_killed_child_never_takes_the_supervisor_along(tmp_path: Path) -> None:
    process = _run(tmp_path, _component("one", SLEEP), _component("two", SLEEP))
    _read_until(process, "ALL READY")
    state = read_state(tmp_path / "run" / "state.json")
    assert state is not None
    for known in state.processes():
        os.kill(known.pid, signal.SIGKILL)
    _read_until(process, "exited with -9")
    _read_until(process, "ready after")
    _stop(process)
