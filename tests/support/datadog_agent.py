"""Datadog's test agent, from an environment of its own, into which `pip install ddapm-test-agent` went."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakerunner_cli.stack.ports import any_free
from tests.support.patience import wait_for

PROGRAM = Path("~/.cache/lakerunner/ddapm/bin/ddapm-test-agent").expanduser()


@dataclass
class TestAgent:
    """A running agent."""

    __test__ = False
    port: int
    otlp_port: int
    grpc_port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def traces(self) -> list[list[dict[str, Any]]]:
        """Return what it took, by trace."""
        found: list[list[dict[str, Any]]] = httpx.get(f"{self.url}/test/traces", timeout=10).json()
        return found

    def clear(self) -> None:
        httpx.get(f"{self.url}/test/session/clear", timeout=10).raise_for_status()


@contextmanager
def running_agent(folder: Path) -> Iterator[TestAgent]:
    """Start an agent, or skip the test where none is installed."""
    program = shutil.which("ddapm-test-agent") or (str(PROGRAM) if PROGRAM.exists() else None)
    if program is None:
        pytest.skip(f"no ddapm-test-agent on the path or at {PROGRAM}")
    agent = TestAgent(any_free(), any_free(), any_free())
    log = (folder / "agent.log").open("wb")
    process = subprocess.Popen(
        [program, "--port", str(agent.port), "--otlp-http-port", str(agent.otlp_port), "--otlp-grpc-port",
         str(agent.grpc_port), "--web-ui-port", "0", "--snapshot-dir", str(folder)],
        stdout=log, stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip
    try:
        wait_for(lambda: _answers(agent), "the test agent answers")
        yield agent
    finally:
        process.terminate()
        process.wait(10)
        log.close()


def _answers(agent: TestAgent) -> bool:
    try:
        return httpx.get(f"{agent.url}/info", timeout=2).is_success
    except httpx.HTTPError:
        return False
