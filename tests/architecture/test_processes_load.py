"""A process loads its own rooms only: no room of the API in a worker, none of the worker in the API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
API = ("lakerunner_query.api", "lakerunner_query.coordinator", "lakerunner_query.app")
READER = ("lakerunner_query.worker", "lakerunner_query.worker_reader", "pyarrow", "numpy", "duckdb", "numba")
WORKER = ("lakerunner_query.worker", "lakerunner_query.worker_app", "lakerunner_query.worker_reader")
PROCESSES = {
    "lakerunner_query.worker_app": (*API, *READER),
    "lakerunner_query.worker_reader": API,
    "lakerunner_query.app": WORKER,
}


def foreign_modules(imports: str, rooms: tuple[str, ...]) -> list[str]:
    """Import in a process of its own; return the loaded modules that lie in these rooms."""
    code = f"import sys, {imports}\nprint(*sorted(sys.modules), sep='\\n')"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        module
        for module in ran.stdout.splitlines()
        if any(module == room or module.startswith(f"{room}.") for room in rooms)
    ]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_loads_no_room_of_the_other(process: str) -> None:
    assert foreign_modules(process, PROCESSES[process]) == []


@pytest.mark.parametrize(
    ("process", "stray"),
    [
        ("lakerunner_query.worker_app", "lakerunner_query.worker.shared.lru"),
        ("lakerunner_query.worker_reader", "lakerunner_query.api.shared.auth"),
        ("lakerunner_query.worker_app", "lakerunner_query.coordinator"),
        ("lakerunner_query.app", "lakerunner_query.worker.shared.lru"),
    ],
)
def test_a_stray_import_is_reported(process: str, stray: str) -> None:
    assert stray in foreign_modules(f"{process}, {stray}", PROCESSES[process])
