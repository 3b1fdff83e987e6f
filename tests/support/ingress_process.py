"""`lakerunner ingress` as a process of its own, what it left behind, and a store that is slow."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import zstandard

from lakerunner_cli.stack.ports import any_free
from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.kafka.reader import read_batch
from resources.notifications.events import NotifiedObject
from resources.notifications.references import decode_message
from resources.settings import Settings
from tests.support.patience import PATIENCE_S


@dataclass
class Ingress:
    """A running process, and what one organisation left behind through it."""

    settings: Settings
    bucket: Path
    process: subprocess.Popen[bytes]
    org: str = "acme"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.ingress_port}"

    @property
    def key(self) -> dict[str, str]:
        return {"Authorization": f"Bearer secret-{self.org}"}

    def objects(self, signal_name: str = "") -> dict[str, bytes]:
        """The opened content, by key."""
        prefix = f"otel-raw/{self.org}/push/{signal_name}"
        return {
            str(path.relative_to(self.bucket)): zstandard.decompress(path.read_bytes())
            for path in self.bucket.rglob("*.zst")
            if str(path.relative_to(self.bucket)).startswith(prefix)
        }

    def notices(self) -> list[NotifiedObject]:
        topics = [f"objstore.ingest.{name}" for name in ("logs", "metrics", "traces")]
        broker = self.settings.kafka_bootstrap
        messages = [m for topic in topics for m in read_batch(broker, topic, ()).messages]
        records = [record for message in messages for record in decode_message(message.value)]
        return [r for r in records if r.key.startswith(f"otel-raw/{self.org}/")]

    def check_notices(self) -> None:
        """Every object was announced, once, with its size."""
        told = {record.key: record.size for record in self.notices()}
        assert told == {key: (self.bucket / key).stat().st_size for key in self.objects()}
        assert len(self.notices()) == len(told)

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)


def create_organisation(dsn: str, org: str) -> None:
    index = PostgresIndex(dsn)
    index.create_organisation(org)
    index.create_api_key(org, "write", "w", hashlib.sha256(f"secret-{org}".encode()).digest(), None)
    index.close()


@contextmanager
def running(dsn: str, broker: str, folder: Path, url: str = "", **settings: Any) -> Iterator[Ingress]:
    """`lakerunner ingress` on a free port, with one bucket: `url`, or a directory."""
    index = PostgresIndex(dsn)
    index.put_storage_profile(StorageProfile("raw", url or f"file://{folder / 'bucket'}"))
    index.close()
    port = any_free()
    ports = {"ingress_port": port, "ingress_grpc_port": any_free()}
    known = Settings(data_dir=folder, index_dsn=dsn, kafka_bootstrap=broker, **ports, **settings)
    with (folder / "ingress.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakerunner_cli.main", "ingress"],
            env=dict(os.environ) | known.child_environment(),
            cwd=Path(__file__).resolve().parents[2],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        found = Ingress(known, folder / "bucket", process)
        wait_until_it_serves(found, folder / "ingress.log")
        yield found
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def wait_until_it_serves(ingress: Ingress, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx.get(f"{ingress.url}/livez").raise_for_status()
        except httpx.TransportError:
            assert time.monotonic() < deadline, log.read_text()
            assert ingress.process.poll() is None, log.read_text()
            time.sleep(0.05)
        else:
            return


class SlowStore(BaseHTTPRequestHandler):
    """Just enough of S3 to take objects, and slowly: most of the time a put is under way."""

    folder: Path
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.3)
        path = self.folder / unquote(self.path.split("?")[0].split("/", 2)[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        with suppress(OSError):  # whoever asked was killed meanwhile
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"')
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, *_: Any) -> None: ...
