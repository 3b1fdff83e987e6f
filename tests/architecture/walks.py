"""Counts the product modules a request enters, with a profiler hook.

`python -m tests.architecture.walks` prints the counts, `--list` the modules, too.

Three requests are walked from HTTP to Parquet and back, or from a raw object to its segment. The API and a
worker run in this process, so that one hook sees both; a module counts once any function of it has run.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

import httpx
import uvicorn
from litestar.testing import TestClient

from lakerunner_query import worker_reader
from lakerunner_query.app import create_app
from lakerunner_query.worker_app import create_worker_app
from resources.settings import Settings
from tests.support.cooking_lake import HOUR, SECOND, lake_in
from tests.support.otlp_logs import otlp_logs
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import BASE, TOKEN, Lake, Line, free_port, worker_settings
from tests.support.query.metric_lake import BASE_S, labels, write_samples

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("lakerunner_assets", "lakerunner_query", "resources")
KEY = {"x-cardinalhq-api-key": "key"}
PROMQL = 'sum by (job) (rate(requests_total{env="prod"}[5m])) / 60'
LOGQL = '{service_name="web"} |= "took" | json | status >= 400'


class Walk:
    """The modules entered while the hook records."""

    def __init__(self) -> None:
        self.is_recording = False
        self.files: set[str] = set()

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_recording and event == "call":
            self.files.add(frame.f_code.co_filename)

    def modules(self, act: Callable[[], object]) -> list[str]:
        """Product modules of which a function ran during `act`."""
        self.files.clear()
        self.is_recording = True
        try:
            act()
        finally:
            self.is_recording = False
        own = [Path(name).relative_to(ROOT) for name in self.files if name.startswith(str(ROOT))]
        return sorted(str(path) for path in own if path.parts[0] in PRODUCT)


@contextlib.contextmanager
def serving(folder: Path, lake: Lake) -> Iterator[TestClient]:  # type: ignore[type-arg]
    """The API and a worker in this process."""
    port = free_port()
    app = create_worker_app(worker_settings(folder, lake.folder, port), ThreadedReader)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    settings = Settings(
        data_dir=folder, worker_urls=f"http://127.0.0.1:{port}", internal_token=TOKEN, query_timeout_s=60
    )
    try:
        wait_ready(f"http://127.0.0.1:{port}/readyz")
        with TestClient(create_app(settings, lake.index)) as http:
            yield http
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)


class ThreadedReader:
    """The reader of a worker as a thread: the hook sees its modules, too."""

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket]) -> None:
        self.pid = os.getpid()
        control, *slots = [one.dup() for one in sockets]
        work = worker_reader.serve_units
        self._thread = threading.Thread(target=work, args=(settings, control, slots), daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Do nothing: it ends when its sockets close."""

    def wait(self) -> None:
        self._thread.join(PATIENCE_S)


def wait_ready(url: str) -> None:
    """Wait until the worker has loaded its kernels."""
    for _ in range(6000):
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=10).is_success:
                return
        time.sleep(0.1)
    raise AssertionError(f"{url} never became ready")


def query_lake(folder: Path) -> Lake:
    """A few log lines and counters of one organisation."""
    lake = Lake(folder)
    lake.add_org("acme", "key")
    text = json.dumps({"msg": "took long", "status": 500})
    lake.write("acme", [Line(at * 10**9, text) for at in range(100)])
    names = [labels("requests_total", job=f"j{n % 2}", env="prod", pod=f"p{n}") for n in range(4)]
    write_samples(lake, "acme", {name: [(at * 15_000, float(at)) for at in range(200)] for name in names})
    return lake


def walked() -> dict[str, list[str]]:
    """Modules entered by request."""
    walk = Walk()
    sys.setprofile(walk.hook)
    threading.setprofile(walk.hook)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            lake = query_lake(folder / "lake")
            with serving(folder / "data", lake) as http:
                promql = {"query": PROMQL, "start": BASE_S + 600, "end": BASE_S + 2400, "step": 60}
                logql = {"query": LOGQL, "start": BASE, "end": BASE + 3600 * 10**9, "limit": 10}
                walks = {
                    "PromQL": walk.modules(lambda: ask(http, "/prometheus/api/v1/query_range", promql)),
                    "LogQL": walk.modules(lambda: ask(http, "/loki/api/v1/query_range", logql)),
                }
            cooking = lake_in(folder / "cooking")
            cooking.arrive("a.binpb", otlp_logs([(HOUR + SECOND, "took 5 ms")]))
            walks["cooking"] = walk.modules(cooking.cook)
            return walks
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def ask(http: TestClient, path: str, params: dict[str, object]) -> None:  # type: ignore[type-arg]
    answer = http.get(path, params=params, headers=KEY)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["result"], "the request found nothing"


def main() -> None:
    walks = walked()
    for name, modules in walks.items():
        print(f"{name}: {len(modules)} modules")
        if "--list" in sys.argv:
            print("".join(f"  {module}\n" for module in modules), end="")
    if "--json" in sys.argv:
        print(json.dumps({name: len(modules) for name, modules in walks.items()}))


if __name__ == "__main__":
    main()
