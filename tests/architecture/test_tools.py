"""The tools that keep the form are tests like any other: style, types, import contracts, SQL."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PACKAGES = (
    "lakerunner_assets",
    "lakerunner_query",
    "lakerunner_ingress",
    "lakerunner_sampling",
    "lakerunner_cli",
    "resources",
    "sensors",
)


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("lint-imports",),
        ("sqlfluff", "lint", "--nocolor", "migrations", "resources/index/sql"),
        pytest.param(("mypy",), marks=pytest.mark.slow),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_tool_has_nothing_to_say(command: tuple[str, ...]) -> None:
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("lakerunner_query/coordinator/logql_lines.py", "import lakerunner_assets.spec\n"),
        ("resources/kafka/producer.py", "import sensors.ingest\n"),
        ("lakerunner_assets/publish.py", "import lakerunner_assets.cooked.plan\n"),
    ],
)
def test_a_broken_import_contract_is_seen(module: str, line: str, tmp_path: Path) -> None:
    for package in (*PACKAGES, "migrations"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    broken = tmp_path / module
    broken.write_text(broken.read_text() + line)
    done = run("lint-imports", cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout
