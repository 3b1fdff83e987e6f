"""Upload to queryable: objects arriving one per second for three organisations, on a stack of its own.

`python -m benchmarks.latency [--quick] [--json OUT]`. An object counts as queryable when a Loki query returns
its row. Polling is every half second, which is the resolution of the figures.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.report import Record, tell
from benchmarks.traffic import Traffic, lake_content, run_counts
from resources.settings import Settings
from tests.support.stack_fixture import start_stack, stop_stack

ORGS = ("north", "south", "west")
PATIENCE_S = 180.0


def measure(settings: Settings, objects: int, pace_s: float = 1.0) -> tuple[dict[int, float], Traffic]:
    """Seconds from put to visible, by object number (missing: never seen)."""
    traffic = Traffic(settings, ORGS)
    traffic.prepare()
    sender = threading.Thread(target=_send, args=(traffic, objects, pace_s))
    sender.start()
    seen: dict[int, float] = {}
    deadline = time.monotonic() + objects * pace_s + PATIENCE_S
    while len(seen) < objects and time.monotonic() < deadline:
        for org in ORGS:
            for number in traffic.visible(org) - seen.keys():
                seen[number] = time.time()
        time.sleep(0.5)
    sender.join()
    put_at = {sent.number: sent.put_at for sent in traffic.sent}
    return {number: moment - put_at[number] for number, moment in seen.items()}, traffic


def _send(traffic: Traffic, objects: int, pace_s: float) -> None:
    start = time.monotonic()
    for number in range(objects):
        time.sleep(max(0.0, start + number * pace_s - time.monotonic()))
        traffic.send(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 objects instead of 50")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data-dir", type=Path, help="a running stack to use instead of one of its own")
    args = parser.parse_args()
    objects = 20 if args.quick else 50
    with tempfile.TemporaryDirectory(prefix="lakerunner-latency-") as folder:
        own = args.data_dir is None
        settings = (
            start_stack(Path(folder), ())
            if own
            else Settings.load({"LAKERUNNER_DATA_DIR": str(args.data_dir)})
        )
        try:
            before = run_counts(settings)
            latencies, traffic = measure(settings, objects)
            after = run_counts(settings)
            content = lake_content(settings, ORGS, traffic.service)
        finally:
            if own:
                stop_stack(Path(folder))
    missing = objects - len(latencies)
    found = sorted(latencies.values())
    runs = {
        name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)
    }
    exact = content.messages == traffic.expected() and content.rows == content.distinct_row_ids
    worst = found[min(len(found) - 1, int(len(found) * 0.99))] if found else float("inf")
    tell(
        "latency",
        [
            Record("p50", "upload to queryable, median", statistics.median(found), "s"),
            Record(
                "p99", "upload to queryable, 99th percentile", worst, "s", must=30, aim=10, ok=worst <= 30
            ),
            Record("missing", "objects never seen", missing, "objects", must=0, ok=missing == 0),
            Record(
                "runs",
                "Dagster runs of every kind, per object",
                sum(runs.values()) / objects,
                "runs",
                must=0.2,
                ok=sum(runs.values()) / objects <= 0.2,
                counters=runs,
            ),
            Record("exact", "every row exactly once", float(exact), "yes=1", must=1, ok=exact),
        ],
        args.json,
    )


if __name__ == "__main__":
    main()
