"""The supervisor with small programs as components: order, crashes, failures, stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakerunner_cli.stack.state import ComponentState, Phase, read_state
from resources.settings import process_environment
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.integration
SLEEP = '[sys.executable, "-c", "import time; time.sleep(600)"]'
DEAF = (
    '[sys.executable, "-c", "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); '
    "open(sys.argv[1], 'w').close(); time.sleep(600)\", str(site.paths.root / 'deaf')]"
)
CRASH_ONCE = (
    '[sys.executable, "-c", "import os, sys, time; p = sys.argv[1]; first = not os.path.exists(p); '
    'open(p, \'w\').close(); first and sys.exit(3); time.sleep(600)", str(site.paths.root / "once")]'
)
BEATING = (
    '[sys.executable, "-c", "import pathlib, sys, time; p = pathlib.Path(sys.argv[1]); '
    '\\nwhile True: p.touch(); time.sleep(0.1)", str(site.paths.root / "beat")]'
)
UNTIL_GONE = (
    '[sys.executable, "-c", "import os, sys, time'
    '\\nwhile os.path.exists(sys.argv[1]): time.sleep(0.1)", str(site.paths.root / "plan")]'
)
HEARD = "probe=heard, silent_timeout_s=2.0"
PROGRAM = """
import sys, time
from pathlib import Path
from lakerunner_cli.stack import runner
runner.LOOK_EVERY_S = 0.5
from lakerunner_cli.stack.component import Component
from lakerunner_cli.command import StackError
from lakerunner_cli.stack.site import prepare_site
from lakerunner_cli.stack.supervisor import Supervisor, leave
from resources.settings import Settings

def refuse(site, announce):
    raise StackError("cannot be prepared")

def is_deaf(site, since):
    return (site.paths.root / "deaf").exists()

def later(site, since):
    return time.time() - since > 1

def heard(site, since):
    beat = site.paths.root / "beat"
    return beat.exists() and time.time() - beat.stat().st_mtime < 1

def breaks(site, since):
    if (site.paths.root / "broken").exists():
        raise ValueError("half an answer")
    return True

site = prepare_site(Settings.load({{"LAKERUNNER_DATA_DIR": sys.argv[1]}}), print)
components = [{components}]
supervisor = Supervisor(site, components, time.monotonic(), (), [{optional}])
leave(supervisor.run(lambda state: print("ALL READY", flush=True)))
"""


def _component(name: str, command: str, needs: str = "()", more: str = "") -> str:
    return (
        f"Component(name={name!r}, needs={needs}, command=lambda site: {command}, "
        f"address=lambda site: '', {more or 'probe=lambda site, since: True'})"
    )


def _run(tmp_path: Path, *components: str, optional: str = "") -> subprocess.Popen[str]:
    program = PROGRAM.format(components=", ".join(components), optional=optional)
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


def _stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> str:
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    return out


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
    process = _run(tmp_path, _component("deaf", DEAF, more="probe=is_deaf"))
    _read_until(process, "ALL READY")
    assert "did not stop in time, killing it" in _stop(process)


def test_what_cannot_be_prepared_ends_the_stack_with_a_reason(tmp_path: Path) -> None:
    broken = _component("broken", SLEEP, more="probe=later, prepare=refuse")
    process = _run(tmp_path, _component("fine", SLEEP), broken)
    out, _ = process.communicate(timeout=PATIENCE_S)
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


def test_a_frozen_child_is_seen_reported_and_replaced(tmp_path: Path) -> None:
    process = _run(tmp_path, _component("frozen", BEATING, more=HEARD))
    _read_until(process, "ALL READY")
    known = _only(tmp_path).process
    assert known is not None
    os.kill(known.pid, signal.SIGSTOP)
    _read_until(process, "does not answer")
    assert _only(tmp_path).phase is Phase.SILENT
    _read_until(process, "did not answer for")
    _read_until(process, "ready after")
    assert _only(tmp_path).restarts == 1
    assert not known.alive()
    _stop(process)


def test_a_probe_that_breaks_says_why(tmp_path: Path) -> None:
    process = _run(tmp_path, _component("odd", SLEEP, more="probe=breaks, silent_timeout_s=60.0"))
    _read_until(process, "ALL READY")
    (tmp_path / "broken").touch()
    assert "ValueError: half an answer" in _read_until(process, "does not answer")[-1]
    assert "half an answer" in _only(tmp_path).message
    _stop(process)


def test_a_child_that_wakes_up_in_time_is_ready_again(tmp_path: Path) -> None:
    process = _run(tmp_path, _component("sleepy", BEATING, more="probe=heard, silent_timeout_s=60.0"))
    _read_until(process, "ALL READY")
    known = _only(tmp_path).process
    assert known is not None
    os.kill(known.pid, signal.SIGSTOP)
    _read_until(process, "does not answer")
    os.kill(known.pid, signal.SIGCONT)
    _read_until(process, "answers again")
    assert _only(tmp_path).phase is Phase.READY
    assert _only(tmp_path).process == known
    _stop(process)


def test_a_slow_start_gets_longer_each_time(tmp_path: Path) -> None:
    never = _component("slow", SLEEP, more="probe=lambda site, since: False, ready_timeout_s=0.5")
    process = _run(tmp_path, never)
    lines = "".join(_read_until(process, "was not ready after 2 s"))
    assert lines.index("after 0 s") < lines.index("after 1 s") < lines.index("after 2 s")
    _stop(process)


def test_an_optional_component_runs_while_it_is_wanted(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    wanted = "wanted=lambda site: (site.paths.root / 'plan').exists(), probe=lambda site, since: True"
    process = _run(
        tmp_path, _component("always", SLEEP), optional=_component("shop", UNTIL_GONE, more=wanted)
    )
    _read_until(process, "ALL READY")
    for _ in range(2):
        plan.touch()
        _read_until(process, "shop            ready after")
        plan.unlink()
        _read_until(process, "shop            closed")
    state = read_state(tmp_path / "run" / "state.json")
    assert state is not None
    assert state.components["shop"].phase is Phase.CLOSED
    assert state.ready
    plan.touch()
    _read_until(process, "shop            ready after")
    _stop(process)
    state = read_state(tmp_path / "run" / "state.json")
    assert state is not None
    assert {c.phase for c in state.components.values()} == {Phase.STOPPED}
    assert not any(p.alive() for p in state.processes())


def _only(data_dir: Path) -> ComponentState:
    state = read_state(data_dir / "run" / "state.json")
    assert state is not None
    (component,) = state.components.values()
    return component
