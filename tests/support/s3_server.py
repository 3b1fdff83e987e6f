"""Real S3 servers in processes of their own: moto, which is on PyPI, or versitygw, which is faster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from lakerunner_cli.stack.ports import any_free
from resources.objects.errors import StoreError
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.patience import PATIENCE_S

BUCKET = "lake"
READY_S = 60.0


@contextmanager
def moto() -> Iterator[Settings]:
    """Keep objects in memory; the bucket is empty."""
    port = any_free()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(command, {}):
        _create_bucket(f"http://127.0.0.1:{port}")
        yield _settings(port)


@contextmanager
def versitygw(program: Path, folder: Path) -> Iterator[Settings]:
    """Serve `folder`/lake as the bucket: a file that is written there is an object."""
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    port = any_free()
    command = [str(program), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive", "posix", str(folder)]
    with _running(command, {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "test"}):
        settings = _settings(port)
        deadline = time.monotonic() + READY_S
        while True:
            try:
                next(iter(open_store(f"s3://{BUCKET}", settings).list("none")), None)
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                break
        yield settings


def _settings(port: int) -> Settings:
    endpoint = f"http://127.0.0.1:{port}"
    return Settings(s3_endpoint=endpoint, s3_access_key_id="test", s3_secret_access_key="test")


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, env={**os.environ, **environment}, **quiet)  # type: ignore[call-overload]
    try:
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _create_bucket(endpoint: str) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            assert httpx.put(f"{endpoint}/{BUCKET}").status_code == 200
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
