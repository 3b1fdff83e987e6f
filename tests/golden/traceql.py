"""Replays recorded requests of a real Tempo against our own HTTP: `python -m tests.golden.traceql DIR [-v]`.

DIR holds `traces.jsonl.gz` (one OTLP/JSON request per line), `queries.jsonl.gz` (one request with its answer
per line) and `check.py`, which knows how answers compare. Lines that are tagged as quirks of the recorded
server are told apart. The last line is `passed N/M`, of the lines without a tag.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.util
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.lake.layout import Signal
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.query.lake import start_workers

TRACES, QUERIES, CHECK = "traces.jsonl.gz", "queries.jsonl.gz", "check.py"
KEY = "key-acme"
OBJECTS = 4
"""Lines of traces that travel in one raw object."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one request."""

    line: dict[str, Any]
    fault: str
    """Empty: the answer is right."""

    @property
    def quirk(self) -> str:
        return str(self.line.get("quirk", ""))


def load_check(folder: Path) -> ModuleType:
    """Load the code that compares answers."""
    spec = importlib.util.spec_from_file_location("traceql_check", folder / CHECK)
    assert spec is not None, folder
    assert spec.loader is not None, folder
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fill(lake: Lake, folder: Path) -> None:
    """Cook the traces: each line is a raw object, and every few of them one segment for each hour."""
    lake.index.create_api_key("acme", "read", "k", hashlib.sha256(KEY.encode()).digest(), None)
    with gzip.open(folder / TRACES) as lines:
        for number, line in enumerate(lines):
            lake.arrive(f"{number:04}.json", line, HOUR, signal=Signal.TRACES)
            if number % OBJECTS == OBJECTS - 1:
                lake.cook(Signal.TRACES)
    lake.cook(Signal.TRACES)


@contextmanager
def served(folder: Path, scratch: Path) -> Iterator[TestClient]:  # type: ignore[type-arg]
    """Serve a lake with the traces, through workers of their own."""
    lake = lake_in(scratch / "lake")
    fill(lake, folder)
    data = scratch / "data"
    data.mkdir()
    for stack in start_workers(data, scratch / "lake" / "lake", 2):
        with TestClient(create_app(stack.settings, lake.index)) as client:
            yield client


def replay(
    client: TestClient,  # type: ignore[type-arg]
    folder: Path,
    only: frozenset[str] = frozenset(),
) -> Iterator[Verdict]:
    """Ask every recorded request and judge the answer."""
    check = load_check(folder)
    with gzip.open(folder / QUERIES, "rt", encoding="utf8") as lines:
        for text in lines:
            line = json.loads(text)
            if not only or line["cat"] in only:
                yield Verdict(line, _fault(client, check, line))


def _fault(client: TestClient, check: ModuleType, line: dict[str, Any]) -> str:  # type: ignore[type-arg]
    request = line["request"]
    headers = {"x-cardinalhq-api-key": KEY, **(request.get("headers") or {})}
    answer = client.request(
        request.get("method", "GET"),
        "/tempo" + request["path"],
        params=request.get("params"),
        headers=headers,
    )
    try:
        kind = answer.headers.get("Content-Type", "")
        found = check.normalise(line["compare"], answer.status_code, answer.content, kind, request["path"])
        return str(check.judge(line, answer.status_code, found) or "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}: {answer.text[:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.traceql", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", help="categories, separated by commas")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what is wrong with each answer")
    arguments = parser.parse_args()
    only = frozenset(filter(None, arguments.only.split(",")))
    passed, asked = Counter[str](), Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="traceql-") as scratch,
        served(arguments.folder, Path(scratch)) as client,
    ):
        for verdict in replay(client, arguments.folder, only):
            kind = f"quirk: {verdict.quirk}" if verdict.quirk else str(verdict.line["cat"])
            asked[kind] += 1
            passed[kind] += not verdict.fault
            if verdict.fault and arguments.verbose:
                request = verdict.line["request"]
                print(kind, request["path"], (request.get("params") or {}).get("q", ""), "->", verdict.fault)
    for kind in sorted(asked):
        print(f"{kind:32} {passed[kind]:4} / {asked[kind]}")
    plain = [kind for kind in asked if not kind.startswith("quirk")]
    right, total = sum(passed[kind] for kind in plain), sum(asked[kind] for kind in plain)
    print(f"passed {right}/{total}")
    return int(right < total)


if __name__ == "__main__":
    sys.exit(main())
