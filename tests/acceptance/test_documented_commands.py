"""Every command of docs/getting-started.md, run in the order of the page against a whole stack.

A `bash` block is run as it stands, all of them in one shell; a `text` block behind one holds lines of its
output, where `…` stands for anything. The page itself sets every variable it uses.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.stack_fixture import start_stack, stop_stack

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "getting-started.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "=== block"
TIMEOUT_S = 600


@dataclass(frozen=True)
class Step:
    commands: str
    expected: tuple[str, ...]


def steps(page: str) -> list[Step]:
    """The `bash` blocks with the lines that the page says they print."""
    found: list[Step] = []
    for kind, body in FENCE.findall(page):
        if kind == "bash":
            found.append(Step(body, ()))
        elif kind == "text" and found:
            found[-1] = Step(found[-1].commands, tuple(line for line in body.splitlines() if line))
    return found


def as_pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in line.split("…")))


def says(output: str, line: str) -> bool:
    return any(as_pattern(line).fullmatch(one) for one in output.splitlines())


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("documented")
    start_stack(directory, ())
    yield directory
    stop_stack(directory)


def test_the_page_works_as_written(data_dir: Path) -> None:
    pages_steps = steps(PAGE.read_text())
    assert len(pages_steps) >= 5
    script = "\n".join(f"echo '{MARK}'\n{step.commands}" for step in pages_steps)
    done = run(script, data_dir)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    outputs = done.stdout.split(f"{MARK}\n")[1:]
    for step, output in zip(pages_steps, outputs, strict=True):
        unsaid = [line for line in step.expected if not says(output, line)]
        assert not unsaid, f"{step.commands}\nprinted\n{output}\nand not\n" + "\n".join(unsaid)


def run(script: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """In the checkout, with `.venv/bin` on the path, as the page tells its reader; nothing else is set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LAKERUNNER_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{script}"],
        cwd=ROOT,
        env={**kept, "PATH": path, "LAKERUNNER_DATA_DIR": str(data_dir), "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
