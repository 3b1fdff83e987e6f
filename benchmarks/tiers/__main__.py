"""`python -m benchmarks.tiers [--quick] [--json OUT] [--only ID,…]`; ids: see `benchmarks/README.md`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Record, tell
from benchmarks.tiers import amplification, growth, history, hour, memory, overhead, ranges

Run = Callable[[], list[Record]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    p12_days: int
    p12_series: int
    sample_rows: int
    slice_records: int
    resources: int
    growth_hours: int
    growth_rounds: int
    merge_bytes: int
    hour_minutes: float
    history_days: int
    history_orgs: int
    layout_rows: int


QUICK = Size(3, 500, 200_000, 300, 1, 10, 15, 200_000_000, 1.0, 2, 2, 1_000_000)
FULL = Size(30, 1000, 5_000_000, 2000, 4, 50, 40, 1_000_000_000, 4.0, 30, 3, 7_000_000)
"""Growth at 1x: 1,000 and 5,000 segments."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--only", default="", help="comma-separated targets, for instance P7,hour")
    options = parser.parse_args()
    targets = _targets(QUICK if options.quick else FULL)
    wanted = {name.strip() for name in options.only.split(",") if name.strip()}
    if unknown := wanted - targets.keys():
        parser.error(f"no target {sorted(unknown)}; there are {sorted(targets)}")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)
    records: list[Record] = []
    for target, run in targets.items():
        if not wanted or target in wanted:
            records += run()
    tell("tiers", records, options.json)


def _targets(size: Size) -> dict[str, Run]:
    """Those that start a stack come last."""
    return {
        "P12": lambda: overhead.measure_p12(size.p12_days, size.p12_series),
        "tick": overhead.measure_tick,
        "bytes": lambda: overhead.measure_bytes(size.sample_rows),
        "P20-write": lambda: amplification.measure(size.slice_records, size.resources),
        "P20-growth": lambda: growth.measure(size.growth_hours, size.growth_rounds),
        "P7": lambda: memory.measure(size.merge_bytes),
        "P26-layout": lambda: ranges.measure(size.layout_rows),
        "hour": lambda: hour.measure(size.hour_minutes),
        "history": lambda: history.measure(size.history_days, size.history_orgs),
    }


if __name__ == "__main__":
    main()
