"""The two roles as the commands start them, over a real PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from resources.index.postgres import PostgresIndex
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import BASE, Lake, Line, free_port, start_workers

pytestmark = pytest.mark.integration


def is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/readyz", timeout=10).status_code == 200
    return False


@contextlib.contextmanager
def api(settings: Settings) -> Iterator[str]:
    code = "from lakerunner_query.app import serve; from resources.settings import Settings; "
    process = subprocess.Popen(
        [sys.executable, "-c", code + "serve(Settings.load())"],
        env={**os.environ, **settings.child_environment()},
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{settings.query_port}"
    try:
        wait_for(lambda: is_ready(url), "the API")
        yield url
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) is not None


def test_a_query_through_real_processes(
    postgres_index: PostgresIndex, index_dsn: str, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake", postgres_index)
    for org in ("acme", "other"):
        lake.add_org(org, f"key-{org}")
        lake.write(org, [Line(i * SECOND_NS, f"{org} {i}", f"svc-{i % 3}") for i in range(1, 10)])
    for stack in start_workers(tmp_path / "data", lake.folder, 2):
        settings = replace(stack.settings, index_dsn=index_dsn, query_port=free_port(), log_level="WARNING")
        with api(settings) as url, httpx.Client(base_url=url, headers={"Api-Key": "key-acme"}) as http:
            assert "workers ready: 2" in http.get("/readyz").text
            bounds = {"start": BASE, "end": BASE + 3600 * SECOND_NS}
            params = {"query": '{service_name=~"svc-1|svc-2"} != "5"', **bounds}
            result = http.get("/loki/api/v1/query_range", params=params).json()["data"]["result"]
            assert sorted(v[1] for s in result for v in s["values"]) == [f"acme {i}" for i in (1, 2, 4, 7, 8)]
            assert http.get("/api/v1/ping", headers={"Api-Key": "key-nobody"}).status_code == 401
