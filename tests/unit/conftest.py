"""Runs of kernels that check every index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
Run = Callable[..., str]


@pytest.fixture(scope="session")
def run_checked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`run_checked(module, *arguments)`: what it printed; its failure is the test's.

    In a process of its own, because the check is fixed when a kernel is compiled: kept kernels have none.
    Those compiled with it are kept for the other modules that are run so.
    """
    folder = tmp_path_factory.mktemp("checked-kernels")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "NUMBA_BOUNDSCHECK": "1",
        "LAKERUNNER_DOWNLOAD_DIR": str(folder),
    }

    def run(module: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=6 * PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    return run
