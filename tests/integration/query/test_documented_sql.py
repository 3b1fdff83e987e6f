"""Every command of docs/how-to-query-with-sql.md, run in the order of the page over the sample's lake.

A `bash` block is run as it stands, a `python` block by the interpreter, all of them in one shell; a `text`
block behind one holds lines of its output, where `…` stands for anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from lakerunner_query.app import create_app
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.acceptance.test_documented_commands import FENCE, MARK, says
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import Lake, Stack, free_port

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to-query-with-sql.md"
SAMPLE_NS = 1_767_355_200 * SECOND_NS
"""2026-01-02T12:00:00Z, the hour of the sample."""


@pytest.fixture
def data_dir(lake: Lake, stack: Stack, tmp_path: Path) -> Iterator[Path]:
    """A data directory as `lakerunner up` leaves it, and a query API over the sample."""
    lake.add_org("acme", "key-acme")
    lake._store("acme", (ROOT / "docs" / "sample" / "logs.binpb").read_bytes(), SAMPLE_NS)
    settings = Settings(
        data_dir=tmp_path,
        worker_urls=stack.settings.worker_urls,
        internal_token=stack.settings.internal_token,
        query_port=free_port(),
        query_flight_port=free_port(),
    )
    names = ("query_port", "query_flight_port")
    lines = [f"LAKERUNNER_{name.upper()}={getattr(settings, name)}\n" for name in names]
    (tmp_path / "stack.env").write_text("".join(lines))
    app = create_app(settings, lake.index)
    config = uvicorn.Config(app, host="127.0.0.1", port=settings.query_port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.05)
        assert thread.is_alive()
    yield tmp_path
    server.should_exit = True
    thread.join()


def steps(page: str) -> Iterator[tuple[str, list[str]]]:
    """Commands in the order of the page, with the lines that they are said to print."""
    found: list[tuple[str, list[str]]] = []
    for kind, body in FENCE.findall(page):
        if kind == "bash":
            found.append((body, []))
        elif kind == "python":
            found.append((f"python - <<'THE_END'\n{body}THE_END\n", []))
        elif kind == "text" and found:
            found[-1][1].extend(line for line in body.splitlines() if line)
    yield from found


def test_the_page_works_as_written(data_dir: Path) -> None:
    pages_steps = list(steps(PAGE.read_text()))
    assert len(pages_steps) >= 8
    script = "\n".join(f"echo '{MARK}'\n{commands}" for commands, _ in pages_steps)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("LAKERUNNER_")}
    more = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "LAKERUNNER_DATA_DIR": str(data_dir),
        "READ_KEY": "key-acme",
        "HOME": str(data_dir),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\ncd '{data_dir}'\n{script}"],
        env={**kept, **more, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    outputs = done.stdout.split(f"{MARK}\n")[1:]
    for (commands, expected), output in zip(pages_steps, outputs, strict=True):
        unsaid = [line for line in expected if not says(output, line)]
        assert not unsaid, f"{commands}\nprinted\n{output}\nand not\n" + "\n".join(unsaid)
