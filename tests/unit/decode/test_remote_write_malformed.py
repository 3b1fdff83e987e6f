"""Broken remote write objects are rejected with a position, and never read past."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "NUMBA_BOUNDSCHECK": "1",
        "LAKERUNNER_DOWNLOAD_DIR": str(tmp_path),  # the check is compiled in: kept kernels have none
    }
    run = subprocess.run(
        [sys.executable, "-m", "tests.unit.decode.hostile_remote_write", "1500"],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "truncations" in run.stdout
