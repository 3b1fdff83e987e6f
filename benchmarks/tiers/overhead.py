"""What rollups cost and give: their bytes beside the samples', a tick of lineage, and P12."""

from __future__ import annotations

import os
import warnings
from typing import Any

from benchmarks.report import Record
from benchmarks.tiers import p12, rolling, tick

TICK_MUST_S = 0.5


def measure_p12(days: int, series: int) -> list[Record]:
    found = p12.measure(days, series)
    ratio = float(found.pop("ratio"))
    return [
        Record(
            "P12",
            f"sum by (x) (rate(m[1h])) over {days} days and {series} series: 1 h rollup against samples, CPU",
            ratio, "times", must=p12.MUST, aim=p12.AIM, ok=ratio >= p12.MUST,
            counters={**found, "load": _load()},
        )
    ]  # fmt: skip


def measure_tick() -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dagster's, about what it calls beta
        found = tick.measure()
    busy = max(found["idle_s"], found["busy_s"])
    return [
        Record(
            "tick",
            f"a tick of lineage over {found['partitions']:,} partitions per asset",
            busy, "s", must=TICK_MUST_S, ok=busy <= TICK_MUST_S,
            counters={
                **{name: _rounded(value) for name, value in found.items()},
                "load": _load(),
            },
        )
    ]  # fmt: skip


def measure_bytes(rows: int) -> list[Record]:
    """All rollups of an hour together, for each byte of its samples."""
    records = []
    for kind in ("counters", "gauges"):
        for step_ms in (15_000, 10_000):
            found = rolling.roll_all(kind, step_ms, rows)
            share = float(found["rollup_bytes_per_sample_byte"])
            sizes = {
                label: each["bytes_per_sample"] for label, each in found.items() if isinstance(each, dict)
            }
            records.append(
                Record(
                    f"bytes-{kind}-{step_ms // 1000}s",
                    f"bytes of all rollups up to 1h per byte of samples, {kind} every {step_ms // 1000} s",
                    share, "",
                    counters={
                        "samples": found["samples"],
                        "bytes_per_sample": round(found["bytes_per_sample"], 3),
                        "rollup_bytes_per_sample": sizes,
                    },
                )
            )  # fmt: skip
    return records


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _load() -> float:
    return round(os.getloadavg()[0], 2)
