"""`python -m benchmarks.promql [--quick] [--only P10,P12] [--json OUT] [--peers DIR]`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ingest.peers import DEFAULT_FOLDER
from benchmarks.promql import limits, measure, through_engine
from benchmarks.promql.corpus import Scale
from benchmarks.report import Record, tell

QUICK = measure.Plan(Scale(hosts=300, hours=30, classic_hosts=10, native_hosts=5, many=0, many_hours=0), 7, 1)
FULL = measure.Plan(
    Scale(hosts=1000, hours=168, classic_hosts=50, native_hosts=20, many=10_000, many_hours=24), 15, 3
)
TINY = measure.Plan(Scale(hosts=30, hours=26, classic_hosts=2, native_hosts=2, many=40, many_hours=2), 2, 1)


@dataclass(frozen=True, slots=True)
class Size:
    plan: measure.Plan
    p12_days: int
    p12_series: int
    limits_series: int


SIZES = {
    "tiny": Size(TINY, 2, 40, 250_000),
    "quick": Size(QUICK, 3, 200, 250_000),
    "full": Size(FULL, 30, 1000, 1_000_000),
}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the peers too
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promql", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("--tiny", action="store_true", help="hardly any data: only whether everything runs")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of their programs")
    parser.add_argument("--only", default="", help="comma-separated targets, for instance P10,P12")
    options = parser.parse_args()
    size = SIZES["tiny" if options.tiny else "quick" if options.quick else "full"]
    targets: dict[str, Callable[[], list[Record]]] = {
        "P10": lambda: measure.measure(size.plan, options.peers),
        "P12": lambda: through_engine.measure(size.p12_days, size.p12_series),
        "limits": lambda: limits.measure(size.limits_series),
    }
    wanted = {name.strip().replace("P11", "P10") for name in options.only.split(",") if name.strip()}
    if unknown := wanted - targets.keys():
        parser.error(f"no target {sorted(unknown)}; there are {sorted([*targets, 'P11'])}")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; peers from {options.peers}", flush=True)
    records = [record for name, run in targets.items() if not wanted or name in wanted for record in run()]
    tell("promql", records, options.json)


if __name__ == "__main__":
    main()
