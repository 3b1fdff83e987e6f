"""A lake of our own with some lines in it, asked over Loki's API in this process."""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from litestar.testing import TestClient

from benchmarks.logql.against_data import Line
from lakerunner_query.app import create_app
from resources.lake.timecut import hour_start
from resources.settings import Settings
from tests.support.query.lake import TOKEN, Entry, Lake, WorkerProcess, free_port, worker_settings

ORG, KEY = "bench", "bench"
READY_ATTEMPTS = 15


class LakeApi:
    def __init__(self, http: TestClient[Any]) -> None:
        self._http = http

    def ask(self, path: str, params: dict[str, str]) -> tuple[int, Any]:
        """The status, and the answer: JSON or, of an error, its text."""
        reply = self._http.get(path, params=params, headers={"x-cardinalhq-api-key": KEY})
        return reply.status_code, reply.json() if reply.status_code == 200 else reply.text


@contextlib.contextmanager
def lake_api(folder: Path, lines: Sequence[Line], segments: int = 3) -> Iterator[LakeApi]:
    """The lines in several segments, so that answers have to be put together."""
    lake = Lake(folder / "lake")
    lake.add_org(ORG, KEY)
    for part in range(segments):
        for pushed in _by_hour(lines[part::segments]):
            lake.push(ORG, pushed)
    with _worker(folder / "data", lake.folder) as settings, _client(settings, lake) as http:
        yield LakeApi(http)


def _client(settings: Settings, lake: Lake) -> TestClient[Any]:
    return TestClient(create_app(settings, lake.index))


@contextlib.contextmanager
def _worker(folder: Path, lake: Path) -> Iterator[Settings]:
    """Settings of an API with one worker; that may have to compile kernels first."""
    worker = WorkerProcess(worker_settings(folder, lake, free_port()))
    try:
        for attempt in range(READY_ATTEMPTS):
            with contextlib.suppress(AssertionError):
                worker.wait_ready()
                break
            print(f"the worker is not ready, {attempt + 1} of {READY_ATTEMPTS}", file=sys.stderr)
        yield Settings(data_dir=folder, worker_urls=worker.url, internal_token=TOKEN, query_timeout_s=300)
    finally:
        worker.kill()


def _by_hour(lines: Sequence[Line]) -> list[list[tuple[dict[str, str], list[Entry]]]]:
    hours: dict[int, dict[tuple[tuple[str, str], ...], list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        entry = (line.time_ns, line.text, dict(line.metadata))
        hours[hour_start(line.time_ns)][line.labels].append(entry)
    return [[(dict(labels), entries) for labels, entries in streams.items()] for streams in hours.values()]
