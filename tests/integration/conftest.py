"""A real S3 server for the tests that talk to one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from lakerunner_cli.stack.ports import any_free
from resources.settings import Settings


@pytest.fixture(scope="session")
def s3() -> Iterator[Settings]:
    port = any_free()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _create_bucket(endpoint, "lake")
        yield Settings(s3_endpoint=endpoint, s3_access_key_id="test", s3_secret_access_key="test")
    finally:
        server.terminate()
        server.wait(10)


def _create_bucket(endpoint: str, name: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            assert httpx.put(f"{endpoint}/{name}").status_code == 200
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
