"""`lakerunner ruler` as processes of their own, and a receiver of notifications that fails now and then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from resources.settings import Settings

RULER = "lakerunner_query.ruler.process"


class RulerProcess:
    """A real ruler: killed with SIGKILL, like the machine would."""

    def __init__(self, settings: Settings) -> None:
        code = f"from {RULER} import serve; from resources.settings import Settings; serve(Settings.load())"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **settings.child_environment()},
            start_new_session=True,
        )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@dataclass
class ReceiverServer:
    """Takes notifications; every `failing`-th request is answered with 500 and counts for nothing."""

    failing: int = 0
    alerts: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, body: bytes) -> int:
        with self._lock:
            self.requests += 1
            if self.failing and self.requests % self.failing == 0:
                return 500
            found = json.loads(body)
            self.alerts += found if isinstance(found, list) else found["alerts"]
            return 200

    def seen(self) -> list[dict[str, Any]]:
        with self._lock:
            return list(self.alerts)


@contextmanager
def receiver_server(failing: int = 0) -> Iterator[ReceiverServer]:
    """Listen on a port of its own."""
    receiver = ReceiverServer(failing)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status = receiver.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
