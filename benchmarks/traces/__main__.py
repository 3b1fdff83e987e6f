"""`python -m benchmarks.traces [--quick] [--spans N] [--segments N] [--s3] [--only NAMES] [--folder DIR]`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.ingest.peers import DEFAULT_FOLDER
from benchmarks.report import tell
from benchmarks.traces.measure import NAMES, Plan, measure

QUICK, FULL = Plan(500_000, 20, 5, 100_000), Plan(10_000_000, 100, 9, 100_000)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the peer too
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traces", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("--spans", type=int, default=0, help="instead of 10,000,000 or 500,000")
    parser.add_argument("--segments", type=int, default=0, help="instead of 100 or 20")
    parser.add_argument("--rounds", type=int, default=0, help="instead of 9 or 5")
    parser.add_argument("--s3", action="store_true", help="the same over object storage, 20 ms a request")
    parser.add_argument("--only", default=",".join(NAMES), help="comma-separated figures")
    parser.add_argument(
        "--folder", type=Path, help="keep the data here, or take what it keeps (for a few hours)"
    )
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of tempo and versitygw")
    options = parser.parse_args()
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    if unknown := only - set(NAMES):
        parser.error(f"no figure {sorted(unknown)}; there are {', '.join(NAMES)}")
    plan = QUICK if options.quick else FULL
    plan = replace(
        plan,
        spans=options.spans or plan.spans,
        segments=options.segments or plan.segments,
        rounds=options.rounds or plan.rounds,
        is_stored=options.s3,
    )
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; peers from {options.peers}", flush=True)
    with ExitStack() as opened:
        scratch = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-traces-")))
        if options.folder:
            options.folder.mkdir(parents=True, exist_ok=True)
        kept = options.folder.resolve() if options.folder else scratch
        tell("traces", measure(plan, kept, scratch, options.peers, only), options.json)


if __name__ == "__main__":
    main()
