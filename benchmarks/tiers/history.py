"""A month of raw objects that nobody announced, built by `lakerunner backfill` on a stack of its own.

One logs and one metrics object per organisation and hour lie in the bucket before anything is asked for. The
clock runs per signal, from the command to its end: listing, cooking, compacting and rolling up, all through
Dagster. Then everything is counted: objects, rows, sums, versions, errors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.report import Record
from benchmarks.tiers import stack
from benchmarks.tiers.stack import Sums
from benchmarks.traffic import Traffic, object_bytes, raw_store
from lakerunner_cli.accounts import open_index
from resources.index.types import SegmentQuery
from resources.lake.frequency import DAY, HOUR
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import DAY_NS, HOUR_NS, MINUTE_NS, to_datetime
from resources.settings import Settings, process_environment
from tests.support.stack_fixture import start_stack, stop_stack

FIRST_NS = 490_896 * HOUR_NS
"""2026-01-01T00: of a month that is over."""
SERIES = tuple(f"queue-{number}" for number in range(5))
COLLECTOR = "bench"
PATIENCE_S = 7200.0


@dataclass(slots=True)
class Put:
    """What was put into the bucket."""

    orgs: tuple[str, ...]
    days: int
    log_rows: int = 0
    objects: int = 0
    samples: dict[str, Sums] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Back-fills that did not succeed."""

    @property
    def hours(self) -> list[int]:
        return [FIRST_NS + number * HOUR_NS for number in range(24 * self.days)]


def measure(days: int, organisations: int, keep: Path | None = None) -> list[Record]:
    """`keep`: a data directory that stays, and the stack on it stopped."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-history-") as scratch:
        folder = keep or Path(scratch)
        try:
            settings = start_stack(folder, ())
            put = _fill(settings, tuple(f"org-{number}" for number in range(organisations)), days)
            stack.wait_for_orgs(settings, put.orgs)
            seconds = {
                signal.value: _backfill(settings, put, signal) for signal in (Signal.LOGS, Signal.METRICS)
            }
            return _records(settings, put, seconds)
        finally:
            stop_stack(folder)


def _fill(settings: Settings, orgs: tuple[str, ...], days: int) -> Put:
    put = Put(orgs, days)
    traffic = Traffic(settings, orgs)
    traffic.prepare()
    store = raw_store(settings)
    for org in orgs:
        sent = put.samples[org] = Sums()
        for number, hour in enumerate(put.hours):
            moment = to_datetime(hour)
            logs = object_bytes("history", number, hour + HOUR_NS)
            points = [
                (hour + m * MINUTE_NS, [number + m + s for s in range(len(SERIES))]) for m in range(1, 61)
            ]
            for _, values in points:
                sent.add(values)
            store.put(raw_key(org, COLLECTOR, Signal.LOGS, moment, "logs.binpb"), logs)
            store.put(
                raw_key(org, COLLECTOR, Signal.METRICS, moment, "metrics.binpb"), stack.gauges(SERIES, points)
            )
            put.log_rows += 20
            put.objects += 2
    return put


def _backfill(settings: Settings, put: Put, signal: Signal) -> float:
    first, last = (f"{to_datetime(at):%Y-%m-%dT%H}" for at in (put.hours[0], put.hours[-1] + HOUR_NS))
    kept = {k: v for k, v in process_environment().items() if not k.startswith("LAKERUNNER_")}
    command = [
        sys.executable, "-m", "lakerunner_cli.main", "backfill", "--yes",
        ",".join(put.orgs), signal.value, first, last,
        "--data-dir", str(settings.data_dir),
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    print(f"{signal.value}: {time.monotonic() - began:.0f} s\n{done.stdout}{done.stderr[-3000:]}", flush=True)
    if done.returncode:
        put.refused.append(f"the back-fill of {signal.value} ended with exit code {done.returncode}")
    return time.monotonic() - began


def _records(settings: Settings, put: Put, seconds: dict[str, float]) -> list[Record]:
    found = _facts(settings, put)
    org_hours = len(put.orgs) * len(put.hours)
    problems = found.pop("problems")
    total = sum(seconds.values())
    errors = stack.complaints(settings) | stack.failed_checks(settings)
    return [
        Record(
            "history",
            f"back-fill of {put.days} days of {len(put.orgs)} organisations, all tiers, two signals",
            total, "s",
            counters={
                **{f"{signal}_s": round(took, 1) for signal, took in seconds.items()},
                "org_hours": org_hours,
                "seconds_per_org_hour_and_signal": round(total / org_hours / 2, 3),
                "objects": put.objects,
                "runs": stack.kinds(stack.runs(settings)),
                "load": round(os.getloadavg()[0], 2),
                **found,
            },
        ),
        Record(
            "exact", "rows, sums and rollups up to 1d are those of the objects", float(not problems), "yes=1",
            must=1, ok=not problems, counters={"problems": problems} if problems else {},
        ),
        Record(
            "errors", "ERROR events in Dagster's log and failed checks",
            float(sum(errors.values())), "events", must=0,
            ok=not errors, counters=errors,
        ),
    ]  # fmt: skip


def _facts(settings: Settings, put: Put) -> dict[str, Any]:
    problems = list(put.refused)
    with open_index(settings) as desk:
        logs = [s for org in put.orgs for s in desk.find_segments(SegmentQuery(org, "logs", 0, *stack.EVER))]
        samples = [
            s for org in put.orgs for s in desk.find_segments(SegmentQuery(org, "metrics", 0, *stack.EVER))
        ]
    with psycopg.connect(settings.index_dsn) as connection:
        states: dict[str, int] = dict(
            connection.execute("SELECT state, count(*) FROM lakerunner.raw_object GROUP BY 1").fetchall()
        )
        widths = connection.execute(
            "SELECT dataset, width_ns / 3600000000000, retired_at IS NULL, count(*), sum(bytes)::bigint "
            "FROM lakerunner.segment GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        ).fetchall()
        versions = connection.execute(
            "SELECT signal || ' ' || frequency_ms, max(version), avg(version)::double precision, count(*) "
            "FROM lakerunner.partition GROUP BY 1 ORDER BY 1"
        ).fetchall()
        kinds = connection.execute(
            "SELECT concat_ws(' ', kind, signal, state), count(*) FROM lakerunner.batch GROUP BY 1 ORDER BY 1"
        ).fetchall()
    if states != {"done": put.objects}:
        problems.append(f"{put.objects} objects were put, their states are {states}")
    if (rows := sum(s.rows for s in logs)) != put.log_rows:
        problems.append(f"{put.log_rows} log rows were put, {rows} are live")
    wanted = sum(each.count for each in put.samples.values())
    if (rows := sum(s.rows for s in samples)) != wanted:
        problems.append(f"{wanted} samples were put, {rows} are live")
    problems += _rollup_problems(settings, put)
    return {
        "problems": problems[:20],
        "segments": [
            f"{dataset}: {count} of {width} h, {size:,} bytes{'' if live else ' (retired)'}"
            for dataset, width, live, count, size in widths
        ],
        "versions": {
            name: f"mean {mean:.2f}, most {most}, {count} of them" for name, most, mean, count in versions
        },
        "batches": dict(kinds),
    }


def _rollup_problems(settings: Settings, put: Put) -> list[str]:
    problems: list[str] = []
    for org in put.orgs:
        view = stack.view_of(settings, org, put.hours[0] - DAY_NS, put.hours[-1] + DAY_NS)
        problems += [f"{org}: {what} is not current" for what in stack.stale(view, put.hours, days=True)]
        for frequency in (HOUR, DAY):
            sums = stack.rolled_sums(settings, org, frequency)
            if sums != put.samples[org]:
                problems.append(f"{org} at {frequency} ms: {sums}, sent were {put.samples[org]}")
    return problems


def main(arguments: Sequence[str]) -> None:
    from benchmarks.report import tell

    days, orgs, *rest = arguments
    keep = Path(rest[0]) if rest else None
    tell("history", measure(int(days), int(orgs), keep), None)


if __name__ == "__main__":
    main(sys.argv[1:])
