"""`python -m benchmarks.logql [--quick] [--only P13,P16] [--json OUT] [--peers DIR] [--without-loki]`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from benchmarks.ingest.peers import DEFAULT_FOLDER
from benchmarks.logql.measure import WHAT, Plan, measure
from benchmarks.report import tell

SIZES = {"tiny": Plan(100_000, 10, 2), "quick": Plan(1_000_000, 20, 5), "full": Plan(10_000_000, 100, 9)}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the peers too
    parser = argparse.ArgumentParser(prog="python -m benchmarks.logql", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("--tiny", action="store_true", help="hardly any data: only whether everything runs")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of their programs")
    parser.add_argument("--only", default="", help="comma-separated targets, for instance P13,P16")
    parser.add_argument("--without-loki", action="store_true", help="it takes longest to load")
    options = parser.parse_args()
    size = SIZES["tiny" if options.tiny else "quick" if options.quick else "full"]
    plan = Plan(size.rows, size.segments, size.rounds, not options.without_loki)
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    if unknown := only - WHAT.keys():
        parser.error(f"no target {sorted(unknown)}; there are {sorted(WHAT)}")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; peers from {options.peers}", flush=True)
    tell("logql", measure(plan, options.peers, only), options.json)


if __name__ == "__main__":
    main()
