"""The stack of the chaos benchmark, and the ways to kill its parts with -9.

Its settings make hours close, days seal and files go within a minute, so that a short storm meets all of it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from lakerunner_cli.stack.state import Phase
from resources.settings import Settings
from tests.support.stack_fixture import lakerunner, stack_state

QUERY_TIMEOUT_S = 20
CHAOS_SETTINGS = {
    "LAKERUNNER_BATCH_MAX_AGE_S": "3",
    "LAKERUNNER_COMPACT_FILES": "8",
    "LAKERUNNER_COMPACT_CLOSE_S": "30",
    "LAKERUNNER_SEAL_AFTER_S": "60",
    "LAKERUNNER_PLANNER_INTERVAL_S": "5",
    "LAKERUNNER_ROLLUP_INTERVAL_S": "5",
    "LAKERUNNER_ROLLUP_OVERDUE_S": "15",
    "LAKERUNNER_RUN_START_S": "45",
    "LAKERUNNER_QUERY_TIMEOUT_S": str(QUERY_TIMEOUT_S),
    "LAKERUNNER_SWEEP_GRACE_S": str(QUERY_TIMEOUT_S + 61),
}
COMPONENTS = (
    "ingress", "spark", "daemon", "watchdog", "query_api", "query_worker_1", "query_worker_2",
)  # fmt: skip
"""And what they need. Nobody looks at the web server."""
WAIT_S = 400.0
"""For something to kill. A run that was killed while it started holds its signal up for three minutes."""
UP_S = 1200.0
"""Until a stack is ready; two cores that are busy elsewhere took seven minutes."""
CARVE_WAIT_S = 900.0
"""From late rows for a sealed day to a carving: they are cooked, and their rollup becomes due."""
Kill = Callable[[Path, random.Random], str]


def chaos_settings(data_dir: Path) -> Settings:
    """As the parts of the stack have them; what `up` was told is not kept for other shells."""
    return Settings.load({**CHAOS_SETTINGS, "LAKERUNNER_DATA_DIR": str(data_dir)})


def kill_run(data_dir: Path, chance: random.Random) -> str:
    """The process of any run, cooking or other; waits for one."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        for process in chance.sample(found := run_processes(data_dir), len(found)):
            try:
                age_s = time.time() - process.create_time()
                process.kill()
            except psutil.NoSuchProcess:
                continue  # it ended by itself just now
            return f"run process {process.pid}, {age_s:.0f} s old"
        time.sleep(0.2)
    raise RuntimeError(f"no run was working for {WAIT_S:.0f} s")


def kill_working(data_dir: Path, chance: random.Random) -> str:
    """The run that holds a claim: all young ones may still be starting, so it is the oldest."""
    settings = chaos_settings(data_dir)
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if kinds := _claimed(settings):
            time.sleep(chance.uniform(0.0, 1.5))
            oldest = sorted(run_processes(data_dir), key=psutil.Process.create_time)[:1]
            for process in oldest:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    break  # it ended by itself just now
                return f"run process {process.pid}, claimed: {kinds}"
        time.sleep(0.1)
    raise RuntimeError(f"nothing was claimed for {WAIT_S:.0f} s")


def kill_carving(data_dir: Path, _chance: random.Random) -> str:
    """Every run, at the moment when one of them has a sealed day in its hands; waits for that."""
    settings = chaos_settings(data_dir)
    deadline = time.monotonic() + CARVE_WAIT_S
    while time.monotonic() < deadline:
        if "carve" in (kinds := _claimed(settings)):
            victims = run_processes(data_dir)
            for process in victims:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            return f"{len(victims)} run processes, claimed: {kinds}"
        time.sleep(0.05)
    raise RuntimeError(f"no hour was carved out of a sealed day for {CARVE_WAIT_S:.0f} s")


def _claimed(settings: Settings) -> dict[str, int]:
    """Batches under way by kind; none while the index is coming back from a kill."""
    try:
        with psycopg.connect(settings.index_dsn, connect_timeout=5) as connection:
            rows = connection.execute(
                "SELECT kind, count(*) FROM lakerunner.batch WHERE state = 'claimed' GROUP BY 1"
            ).fetchall()
    except psycopg.OperationalError:
        return {}
    return dict(rows)


def kill_component(*names: str) -> Kill:
    """One of these."""

    def kill(data_dir: Path, chance: random.Random) -> str:
        name = chance.choice(names)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:  # it may still be coming back from an earlier kill
            state = stack_state(data_dir).components[name]
            if state.phase is Phase.READY and state.process is not None:
                os.kill(state.process.pid, signal.SIGKILL)
                return f"{name} {state.process.pid}"
            time.sleep(0.2)
        raise RuntimeError(f"{name} was not ready for {WAIT_S:.0f} s")

    return kill


def kill_backend(data_dir: Path, chance: random.Random) -> str:
    """One server process of PostgreSQL, in the middle of a statement if any is: all others then restart."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        postmaster = stack_state(data_dir).components["postgres"].process
        family = _family(postmaster.pid)[1:] if postmaster is not None else []
        titles = {process.pid: title for process in family if "lakerunner" in (title := _title(process))}
        busy = [pid for pid, title in titles.items() if not title.endswith(" idle")]
        for pid in chance.sample(busy or list(titles), 1) if titles else []:
            os.kill(pid, signal.SIGKILL)
            return f"backend {pid} of PostgreSQL: {titles[pid]}"
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL served nobody for {WAIT_S:.0f} s")


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()).strip()
    except psutil.NoSuchProcess:
        return ""


def kill_everything(data_dir: Path, _chance: random.Random) -> str:
    """The supervisor and all of its children at once, as a power cut would; then `up` again."""
    state = stack_state(data_dir)
    leaders = [state.supervisor.pid, *(c.process.pid for c in state.components.values() if c.process)]
    victims = {child.pid: child for pid in leaders for child in _family(pid)}
    for process in victims.values():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue  # it died with its parent
    options = ("up", "--detach", f"--only={','.join(COMPONENTS)}")
    done = lakerunner(data_dir, *options, extra=CHAOS_SETTINGS, patience_s=UP_S)
    if done.returncode:
        raise RuntimeError(f"the stack did not come back:\n{done.stdout}\n{done.stderr}")
    return f"the whole stack ({len(victims)} processes)"


RUN, WORKING, CARVING, EVERYTHING = kill_run, kill_working, kill_carving, kill_everything
SPARK, CODE_SERVER = kill_component("spark"), kill_component("code_server")
POSTMASTER, BACKEND = kill_component("postgres"), kill_backend
WORKER = kill_component("query_worker_1", "query_worker_2")
DECK: tuple[Kill, ...] = (
    RUN, WORKING, WORKING, WORKING, CODE_SERVER, SPARK, WORKER,
    kill_component("daemon"), kill_component("kafka"), POSTMASTER, BACKEND, EVERYTHING,
)  # fmt: skip
QUICK_DECK: tuple[Kill, ...] = (WORKING, SPARK, WORKER, POSTMASTER, BACKEND, WORKING, EVERYTHING)
SHORT_DECK: tuple[Kill, ...] = (WORKING, SPARK, EVERYTHING)


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


def hurry(settings: Settings) -> None:
    """Time passes for what was published into hours that are over: the planner waits until they are quiet."""
    with psycopg.connect(settings.index_dsn, connect_timeout=5) as connection:
        connection.execute(
            """
            UPDATE lakerunner.segment SET published_at = published_at - interval '1 hour'
            WHERE segment_id IN (
                SELECT segment_id FROM lakerunner.segment
                WHERE retired_at IS NULL AND NOT settled AND level = 0
                    AND published_at BETWEEN now() - interval '50 minutes' AND now() - interval '5 seconds'
                    AND hour_ns + width_ns < extract(EPOCH FROM now()) * 1e9
                ORDER BY segment_id FOR UPDATE SKIP LOCKED
            )
            """
        )


def _family(pid: int) -> list[psutil.Process]:
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
