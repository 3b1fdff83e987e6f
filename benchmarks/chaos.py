"""kill -9 of every part of a stack under load, one by one; then every row must be there exactly once.

`python -m benchmarks.chaos [--quick] [--json OUT]`. Objects arrive once a second the whole time, and the
sender repeats notifications as an object store would. After the last kill the pipeline has to settle.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.report import Record, tell
from benchmarks.traffic import Traffic, lake_content, run_counts, unfinished
from resources.settings import Settings
from tests.stack_fixture import lakerunner, stack_settings, stack_state, start_stack, stop_stack

ORGS = ("north", "south", "west")
SETTLE_S = 240.0
PAUSE_S = 12.0
"""Between kills: long enough for the part to come back and be in use again."""


def kill_run(data_dir: Path) -> str:
    """The process of the run that is cooking; waits for one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in run_processes(data_dir):
            os.kill(process.pid, signal.SIGKILL)
            return f"run process {process.pid}"
        time.sleep(0.2)
    raise RuntimeError("no run was working for a minute")


def kill_component(name: str) -> Callable[[Path], str]:
    def kill(data_dir: Path) -> str:
        process = stack_state(data_dir).components[name].process
        if process is None:
            raise RuntimeError(f"{name} has no process")
        os.kill(process.pid, signal.SIGKILL)
        return f"{name} {process.pid}"

    return kill


def kill_everything(data_dir: Path) -> str:
    """The supervisor and all of its children at once, as a power cut would; then `up` again."""
    state = stack_state(data_dir)
    leaders = [state.supervisor.pid, *(c.process.pid for c in state.components.values() if c.process)]
    victims = {child.pid: child for pid in leaders for child in _family(pid)}
    for process in victims.values():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue  # it died with its parent
    done = lakerunner(data_dir, "up", "--detach", "--only=")
    if done.returncode:
        raise RuntimeError(f"the stack did not come back:\n{done.stdout}\n{done.stderr}")
    return f"the whole stack ({len(victims)} processes)"


KILLS: tuple[Callable[[Path], str], ...] = (
    kill_run,
    kill_component("code_server"),
    kill_component("spark"),
    kill_component("daemon"),
    kill_component("kafka"),
    kill_everything,
)
QUICK = (kill_run, kill_component("spark"), kill_everything)


def storm(data_dir: Path, kills: tuple[Callable[[Path], str], ...]) -> tuple[Traffic, list[str], float]:
    """Traffic with kills; returns when nothing is pending: (traffic, what was killed, seconds to settle)."""
    traffic = Traffic(stack_settings(data_dir), ORGS)
    traffic.prepare()
    stop = threading.Event()
    failures: list[BaseException] = []
    sender = threading.Thread(target=_send_until, args=(traffic, stop, failures))
    sender.start()
    killed: list[str] = []
    try:
        for kill in kills:
            time.sleep(PAUSE_S)
            killed.append(kill(data_dir))
            print(f"killed {killed[-1]}", flush=True)
        time.sleep(PAUSE_S)
    finally:
        stop.set()
        sender.join()
    if failures:
        raise failures[0]
    return traffic, killed, settle(stack_settings(data_dir))


def settle(settings: Settings, patience_s: float = SETTLE_S) -> float:
    """Seconds until no object is pending."""
    started = time.monotonic()
    while unfinished(settings)["objects"] and time.monotonic() - started < patience_s:
        time.sleep(1)
    return time.monotonic() - started


def _send_until(traffic: Traffic, stop: threading.Event, failures: list[BaseException]) -> None:
    number = 0
    try:
        while not stop.is_set():
            traffic.send(number)
            number += 1
            stop.wait(1.0)
    except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
        failures.append(error)


def run_processes(data_dir: Path) -> list[psutil.Process]:
    """Runs are processes that the code server spawned."""
    server = stack_state(data_dir).components["code_server"].process
    if server is None or not server.alive():
        return []
    try:
        children = psutil.Process(server.pid).children(recursive=True)
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def _family(pid: int) -> list[psutil.Process]:
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three kills instead of six")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakerunner-chaos-") as folder:
        data_dir = Path(folder)
        settings = start_stack(data_dir, ())
        try:
            traffic, killed, seconds = storm(data_dir, QUICK if args.quick else KILLS)
            settings = stack_settings(data_dir)
            content = lake_content(settings, ORGS, traffic.service)
            left = unfinished(settings)
            runs = run_counts(settings)
        finally:
            stop_stack(data_dir)
    expected = traffic.expected()
    lost = sum((expected - content.messages).values())
    doubled = sum((content.messages - expected).values())
    objects = len(traffic.sent)
    tell(
        "chaos",
        [
            Record("killed", "parts killed with -9", len(killed), "kills", counters=dict(enumerate(killed))),
            Record("sent", "objects sent meanwhile", objects, "objects", counters=runs),
            Record("lost", "rows lost", lost, "rows", must=0, ok=lost == 0),
            Record("doubled", "rows counted twice", doubled, "rows", must=0, ok=doubled == 0),
            Record(
                "ids",
                "rows whose id is not unique",
                content.rows - content.distinct_row_ids,
                "rows",
                must=0,
                ok=content.rows == content.distinct_row_ids,
            ),
            Record(
                "stuck",
                "objects pending or parked at the end",
                left["objects"] + left["parked"],
                "objects",
                must=0,
                ok=not left["objects"] and not left["parked"],
            ),
            Record(
                "settled", "from the last object to nothing pending", seconds, "s", must=60, ok=seconds <= 60
            ),
        ],
        args.json,
    )


if __name__ == "__main__":
    main()
