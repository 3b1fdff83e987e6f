"""Compare answers with recorded ones of a real server: python -m tests.golden.promql_compliance GOLDEN DATA

GOLDEN is the recording (JSON, may be gzipped), DATA the OpenMetrics text it was made from. Every query runs
over the whole path: index terms, slices over several workers, joining. Values may differ by 1e-5 of theirs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.errors import QueryError
from lakerunner_query.plan.slices import SampleSliceSizes
from lakerunner_query.vectors.vector import Labels
from tests.golden.engine_lake import EngineLake

END_MS = (1_767_225_600 + 9_000) * 1000
START_MS, STEP_MS = END_MS - 600_000, 10_000
TOLERANCE = 1e-5
SMALL = SampleSliceSizes(rows=20_000, at_least=1_000)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read_openmetrics(path: Path) -> list[tuple[Labels, np.ndarray, np.ndarray]]:
    samples: dict[str, list[tuple[int, float]]] = {}
    with path.open() as lines:
        for line in lines:
            if not line.startswith("#"):
                head, value, time = line.rsplit(" ", 2)
                samples.setdefault(head, []).append((round(float(time) * 1000), float(value)))
    found = []
    for head, rows in samples.items():
        name, _, rest = head.partition("{")
        labels = tuple(sorted([("__name__", name), *_LABEL.findall(rest)]))
        rows.sort()
        found.append((labels, np.array([t for t, _ in rows], np.int64), np.array([v for _, v in rows])))
    return found


def problem(case: dict[str, Any], lake: EngineLake) -> str | None:
    expected = case["response"]
    try:
        found = lake.ask(case["query"], START_MS, END_MS, STEP_MS)
    except QueryError as error:
        return None if expected["status"] == "error" else f"error: {error}"
    if expected["status"] != "success":
        return f"no error, expected {expected['error']}"
    return differences(series_of(found), expected["data"]["result"])


def series_of(found: SampleResult) -> dict[Labels, dict[float, float]]:
    return {s.labels: dict(_points(json.loads(b"[" + s.floats + b"]"))) for s in found.series}


def differences(found: dict[Labels, dict[float, float]], result: list[dict[str, Any]]) -> str | None:
    wanted = {tuple(sorted(s["metric"].items())): dict(_points(s.get("values", []))) for s in result}
    if found.keys() != wanted.keys():
        return f"series {sorted(found.keys() ^ wanted.keys())[:2]} are on one side only"
    for labels, points in wanted.items():
        if found[labels].keys() != points.keys():
            return f"{labels}: other times"
        for time, value in points.items():
            mine = found[labels][time]
            if not (mine == value or (mine != mine and value != value)) and not (  # noqa: PLR0124
                abs(mine - value) <= TOLERANCE * abs(value)
            ):
                return f"{labels} at {time}: {mine}, expected {value}"
    return None


def _points(pairs: list[Any]) -> list[tuple[float, float]]:
    return [(float(time), float(value.replace("Inf", "inf"))) for time, value in pairs]


def run(golden: Path, data: Path, *, verbose: bool = True) -> tuple[int, int]:
    """`data` may also be the program that makes the text, or the folder it stands in."""
    if data.is_dir():
        data = next((data / name for name in ("demo.om", "generate.py") if (data / name).exists()), data)
    if data.suffix == ".py":
        with tempfile.TemporaryDirectory(prefix="lakerunner-compliance-") as folder:
            subprocess.run([sys.executable, data.resolve()], cwd=folder, check=True, capture_output=True)
            return run(golden, next(Path(folder).glob("*.om")), verbose=verbose)
    raw = golden.read_bytes()
    cases = json.loads(gzip.decompress(raw) if golden.suffix == ".gz" else raw)
    passed = 0
    with tempfile.TemporaryDirectory(prefix="lakerunner-compliance-") as folder:
        lake = EngineLake(Path(folder), sizes=SMALL)
        lake.write(read_openmetrics(data))
        for case in cases:
            found = problem(case, lake)
            passed += found is None
            if found and verbose:
                print(f"{case['query']}\n  {found}")
    return passed, len(cases)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.promql_compliance", description=__doc__)
    parser.add_argument("golden", type=Path)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    passed, total = run(options.golden, options.data)
    print(f"passed {passed}/{total}")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main())
