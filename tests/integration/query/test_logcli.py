"""Loki's own command line client, unmodified, against our API: what it prints is what is stored."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from lakerunner_query.app import create_app
from resources.lake.timecut import SECOND_NS
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import BASE, Lake, Stack, free_port

pytestmark = pytest.mark.integration
LOGCLI = Path.home() / ".cache" / "lakerunner" / "peers" / "logcli"
RANGE = ("--from=2026-01-01T00:00:00Z", "--to=2026-01-01T00:10:00Z")


@dataclass(frozen=True)
class Logcli:
    """The client with the address of our API."""

    port: int

    def command(self, *arguments: str) -> list[str]:
        address = (f"--addr=http://127.0.0.1:{self.port}", "--bearer-token=key-acme", "--quiet")
        return [str(LOGCLI), *arguments, *address]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def logcli(lake: Lake, stack: Stack) -> Iterator[Logcli]:
    if not LOGCLI.is_file():
        pytest.skip(f"no {LOGCLI} here: go build ./cmd/logcli of Loki makes it (see benchmarks/README.md)")
    lake.add_org("acme", "key-acme")
    web = [(BASE + n * SECOND_NS, f"level=info n={n}", {"trace": f"t{n}"}) for n in range(60)]
    db = [(BASE + n * SECOND_NS, f'{{"ms":{n}}}', {}) for n in range(30)]
    lake.push(
        "acme", [({"app": "web", "service_name": "web"}, web), ({"app": "db", "service_name": "db"}, db)]
    )
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(create_app(stack.settings, lake.index), port=port, log_level="warning")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)

    yield Logcli(port)
    server.should_exit = True
    thread.join(PATIENCE_S)


def test_lines(logcli: Logcli) -> None:
    found = logcli("query", *RANGE, "--limit=3", "--output=raw", '{app="web"} |= "n="').splitlines()
    assert found == ["level=info n=59", "level=info n=58", "level=info n=57"]
    forward = logcli("query", *RANGE, "--limit=2", "--forward", "--output=jsonl", '{app="web"} | logfmt')
    first, second = map(json.loads, forward.splitlines())
    assert (first["line"], first["timestamp"]) == ("level=info n=0", "2026-01-01T00:00:00Z")
    assert second["labels"]["n"] == "1"


def test_all_lines_by_pages(logcli: Logcli) -> None:
    found = logcli("query", *RANGE, "--limit=0", "--batch=7", "--output=raw", '{app="web"}').splitlines()
    assert found == [f"level=info n={n}" for n in reversed(range(60))]


def test_samples(logcli: Logcli) -> None:
    text = 'sum by (app) (count_over_time({app=~".+"}[1m]))'
    (db, web) = json.loads(logcli("instant-query", "--now=2026-01-01T00:01:00Z", text))
    assert (db["metric"], db["value"][1], web["value"][1]) == ({"app": "db"}, "29", "59")
    (series,) = json.loads(
        logcli("query", *RANGE, "--step=60s", 'max_over_time({app="db"} | json | unwrap ms [1m]) by ()')
    )
    assert [value for _, value in series["values"]] == ["0", "29"]


def test_labels_and_series(logcli: Logcli) -> None:
    assert logcli("labels", *RANGE).split() == ["app", "service_name"]
    assert logcli("labels", *RANGE, "app").split() == ["db", "web"]
    assert logcli("series", *RANGE, '{app="db"}').strip() == '{app="db", service_name="db"}'


def test_sizes(logcli: Logcli) -> None:
    stats = logcli("stats", *RANGE, '{app=~".+"}')
    assert "streams: 2\n" in stats
    assert "entries: 90\n" in stats
    volumes = json.loads(logcli("volume", *RANGE, '{app=~".+"}'))
    assert [one["metric"] for one in volumes] == [{"app": "web"}, {"app": "db"}]
    web, db = (int(one["value"][1]) for one in volumes)
    assert web == pytest.approx(2 * db, abs=1)
    (ranged, _) = json.loads(logcli("volume_range", *RANGE, "--step=30s", '{app=~".+"}'))
    assert len(ranged["values"]) == 2
    assert sum(int(size) for _, size in ranged["values"]) == pytest.approx(web, abs=2)


def test_fields(logcli: Logcli) -> None:
    found = logcli("detected-fields", *RANGE, '{app="db"}').splitlines()
    assert any(line.split() == ["label:", "ms", "type:", "int", "cardinality:", "30"] for line in found), (
        found
    )


def test_tail(logcli: Logcli) -> None:
    """It goes on until it is stopped: what was printed until then counts."""
    asked = ("--tail", "--limit=3", "--output=raw", '{app="web"}')
    with subprocess.Popen(
        logcli.command("query", RANGE[0], *asked), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(3)]
        process.kill()
    assert printed == ["level=info n=57\n", "level=info n=58\n", "level=info n=59\n"]
