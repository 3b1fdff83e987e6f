"""A Redis server of a test's own, on a socket of a file."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis


@dataclass
class RedisServer:
    """A server that can be stopped and started."""

    folder: Path
    _process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/redis.sock"

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", f"{self.folder}/redis.sock", "--save", "",
             "--appendonly", "no", "--dir", str(self.folder)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        client = redis.Redis.from_url(self.url)
        for _ in range(200):
            try:
                client.ping()
            except redis.RedisError:
                time.sleep(0.05)
            else:
                client.close()
                return
        raise RuntimeError("redis-server does not answer")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def start_redis(folder: Path) -> RedisServer:
    """Start a server, or skip the test where none is installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: install Debian's package redis-server")
    server = RedisServer(folder)
    server.start()
    return server


@contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    """Run a server for as long as the block runs."""
    server = start_redis(folder)
    try:
        yield server
    finally:
        server.stop()
