"""Sends generated requests to every operation of the query API's OpenAPI document.

    python3 -m venv /tmp/st && /tmp/st/bin/pip install schemathesis
    .venv/bin/python -m benchmarks.schemathesis_query_api /tmp/st/bin/schemathesis --max-examples=100

What stands behind the program goes to it. A crash, an undocumented status or type, or a 5xx fails the run.
One 5xx is to be expected: Prometheus' 503 for a query with `timeout=0`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from resources.lake.timecut import SECOND_NS
from tests.support.query.lake import BASE, Lake, Line, start_workers
from tests.support.query.metric_lake import labels, write_samples
from tests.support.query.real_prometheus import served

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,ignored_auth"
"""Bodies are checked by tests of our own; parameters are texts, so nothing is invalid by its type alone."""


def main() -> int:
    program, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder, "lake"))
        lake.add_org("acme", "key-acme")
        lake.write("acme", [Line(n * SECOND_NS, f"level=info n={n}", "web") for n in range(100)])
        write_samples(lake, "acme", {labels("up", job="a"): [(n * 15_000, float(n % 2)) for n in range(100)]})
        workers = start_workers(Path(folder), lake.folder, 1)
        stack = next(workers)
        try:
            with served(lake, stack) as api:
                address = api.address.removesuffix("/prometheus") + "/schema/openapi.json"
                return subprocess.run(
                    [
                        program, "run", address, f"--checks={CHECKS}",
                        "--header=x-cardinalhq-api-key: key-acme", "--request-timeout=30",
                        "--suppress-health-check=all", *more,
                    ],
                    check=False,
                ).returncode  # fmt: skip
        finally:
            workers.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    print(f"the lake begins at {BASE}")
    sys.exit(main())
