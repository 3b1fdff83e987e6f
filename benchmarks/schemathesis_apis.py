"""Sends generated requests to every operation of an OpenAPI document: the query API's or the ingress'.

    python3 -m venv /tmp/st && /tmp/st/bin/pip install schemathesis
    .venv/bin/python -m benchmarks.schemathesis_apis query /tmp/st/bin/schemathesis --max-examples=100
    .venv/bin/python -m benchmarks.schemathesis_apis ingress /tmp/st/bin/schemathesis --max-examples=100

What stands behind the program goes to it. A crash, an undocumented status or type, or a 5xx fails the run.
Three findings are to be expected: Prometheus' 503 for a query with `timeout=0`, 501 for profiles, and an
answer without a key to OPTIONS, which tells the methods of a webhook.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.fuzz_receivers import MemoryStore
from lakerunner_ingress.app import create_app
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.support.ingress.doubles import TOKEN, FakeProducer, accounts
from tests.support.query.lake import BASE, Lake, Line, start_workers
from tests.support.query.metric_lake import labels, write_samples
from tests.support.query.real_prometheus import served, serving

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,ignored_auth"
"""Bodies are checked by tests of our own; parameters are texts, so nothing is invalid by its type alone."""


@contextmanager
def query_api() -> Iterator[tuple[str, str]]:
    """Serve a small lake; yield address and header with a key."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder, "lake"))
        lake.add_org("acme", "key-acme")
        lake.write("acme", [Line(n * SECOND_NS, f"level=info n={n}", "web") for n in range(100)])
        write_samples(lake, "acme", {labels("up", job="a"): [(n * 15_000, float(n % 2)) for n in range(100)]})
        workers = start_workers(Path(folder), lake.folder, 1)
        try:
            with served(lake, next(workers)) as api:
                yield api.address.removesuffix("/prometheus"), "x-cardinalhq-api-key: key-acme"
        finally:
            workers.close()  # type: ignore[attr-defined]


@contextmanager
def ingress() -> Iterator[tuple[str, str]]:
    """Serve the ingress over a store, Kafka and an index in memory; yield address and header with a key.

    It is the header that counts last: wrong keys are sent in others.
    """
    settings = Settings(webhook_token=TOKEN, receiver_puts_per_minute=60_000)
    app = create_app(settings, accounts(), FakeProducer())  # type: ignore[arg-type]
    with (
        patch("lakerunner_ingress.receivers.writing.open_store", lambda *_: MemoryStore()),
        serving(app) as to,
    ):
        yield to, "Authorization: Bearer acme-write"


APIS: dict[str, Callable[[], AbstractContextManager[tuple[str, str]]]] = {
    "query": query_api,
    "ingress": ingress,
}


def main() -> int:
    name, program, *more = sys.argv[1:]
    with APIS[name]() as (address, header):
        return subprocess.run(
            [
                program, "run", f"{address}/schema/openapi.json", f"--checks={CHECKS}",
                f"--header={header}", "--request-timeout=30",
                "--suppress-health-check=all", *more,
            ],
            check=False,
        ).returncode  # fmt: skip


if __name__ == "__main__":
    print(f"the lake begins at {BASE}")
    sys.exit(main())
