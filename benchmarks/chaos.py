"""kill -9 of every part of a stack under load; then every tier must hold exactly what was sent.

`python -m benchmarks.chaos [--quick] [--minutes N] [--kills N] [--seed N] [--json OUT]`. A day is sealed
first, and rows come for it, so that the first kill meets a carving. Then for N minutes runs, code server,
daemon, Spark, query workers, Kafka, PostgreSQL (its postmaster, single backends) and the whole stack die at
random. Meanwhile logs and metrics arrive, late ones too; hours are compacted, the day is carved and sealed
again, rollups follow, the sweeper deletes, and queries are asked. The sender repeats notifications as an
object store would. In the end nothing may be left to do; rows are compared by id. Exit code 1: a figure
missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.chaos_stack import CHAOS_SETTINGS, COMPONENTS, UP_S, run_processes
from benchmarks.chaos_storm import plan_of, storm
from benchmarks.chaos_verdict import judge, records
from benchmarks.report import tell
from benchmarks.traffic import unfinished
from resources.kernel_cache import is_warm, warm_up
from resources.settings import Settings
from tests.support.stack_fixture import start_stack, stop_stack

__all__ = ["main", "run_processes", "settle"]


def settle(settings: Settings, patience_s: float = 240.0) -> float:
    """Seconds until no object is pending."""
    started = time.monotonic()
    while unfinished(settings)["objects"] and time.monotonic() - started < patience_s:
        time.sleep(1)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="eight kills: once a carving, then a short deck")
    parser.add_argument("--minutes", type=float, help="10, or 1 with --quick")
    parser.add_argument("--kills", type=int, default=0, help="at least so many, also after the minutes")
    parser.add_argument("--seed", type=int, help="of what is killed when; printed")
    parser.add_argument("--data-dir", type=Path, help="kept afterwards; a temporary one by default")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not is_warm():
        warm_up()  # a stack that compiles beside others may not be ready in time
    with tempfile.TemporaryDirectory(prefix="lakerunner-chaos-") as folder:
        data_dir: Path = args.data_dir or Path(folder)
        start_stack(data_dir, COMPONENTS, CHAOS_SETTINGS, patience_s=UP_S)
        try:
            found = storm(data_dir, plan_of(args.quick, args.minutes, args.seed, args.kills))
            verdict = judge(found)
        finally:
            stop_stack(data_dir)
    figures = records(found, verdict)
    tell("chaos", figures, args.json)
    sys.exit(int(any(figure.ok is False for figure in figures)))


if __name__ == "__main__":
    main()
