"""Rollups of one event hour that ten organisations send to: how soon they are there, and what that costs.

A stack of its own. Every organisation puts a metrics object every few seconds for some minutes, all samples
in one event hour. The clock runs from the last object until that hour of rollup/1h, and of all below it, is
current for everybody; then sums are compared with what was sent.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from pathlib import Path

import psycopg

from benchmarks.report import Record
from benchmarks.tiers import stack
from benchmarks.tiers.stack import Sums
from benchmarks.traffic import Traffic, raw_store
from lakerunner_assets.keys import DAY_ROLLUP_JOB, ROLLUP_JOB
from resources.lake.frequency import DAY
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import HOUR_NS, MINUTE_NS, SECOND_NS, hour_start, to_datetime
from resources.settings import Settings
from tests.support.stack_fixture import start_stack, stop_stack

ORGS = tuple(f"org-{number}" for number in range(10))
SERIES = tuple(f"queue-{number}" for number in range(20))
POINTS = 5
MUST_S, MUST_RUNS = 180.0, 2.0
PATIENCE_S = 900.0


def measure(minutes: float, pace_s: float = 5.0) -> list[Record]:
    """`pace_s`: seconds between two objects of one organisation."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-hour-") as folder:
        try:
            settings = start_stack(Path(folder), ())
            traffic = Traffic(settings, ORGS)
            traffic.prepare()
            stack.wait_for_orgs(settings, ORGS)
            return _measure(traffic, minutes, pace_s)
        finally:
            stop_stack(Path(folder))


def _measure(traffic: Traffic, minutes: float, pace_s: float) -> list[Record]:
    settings = traffic.settings
    hour = hour_start(time.time_ns() + int(minutes * MINUTE_NS) + MINUTE_NS)
    before = {run.run_id for run in stack.runs(settings)}
    sent = {org: Sums() for org in ORGS}
    began = time.monotonic()
    rounds = int(minutes * 60 / pace_s)
    senders = [
        threading.Thread(target=_send, args=(traffic, org, number, hour, rounds, pace_s, sent[org]))
        for number, org in enumerate(ORGS)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    last = time.monotonic()
    current_after = _until_current(settings, hour, rounds * len(ORGS), last)
    watched_min = (time.monotonic() - began) / 60
    mine = [run for run in stack.runs(settings) if run.run_id not in before]
    rollup_runs = [run for run in mine if _rolls_up(run)]
    per_org_minute = len(rollup_runs) / watched_min / len(ORGS)
    time.sleep(30)  # what is under way when everything is current must leave everything current
    problems = _problems(settings, hour, sent)
    errors = stack.complaints(settings) | stack.failed_checks(settings)
    return [
        Record(
            "hour", f"last object to rollup/1h current, {len(ORGS)} organisations",
            max(current_after.values(), default=float("inf")), "s", must=MUST_S,
            ok=len(current_after) == len(ORGS) and max(current_after.values()) <= MUST_S,
            counters={
                "first_s": round(min(current_after.values(), default=-1.0), 1),
                "objects": rounds * len(ORGS),
                "minutes_sending": round((last - began) / 60, 1),
                "samples": sum(each.count for each in sent.values()),
                "load": round(os.getloadavg()[0], 2),
                "versions": _versions(settings, hour),
            },
        ),
        Record(
            "hour-runs", "runs that targeted rollups, per organisation's hour and minute",
            per_org_minute, "runs", must=MUST_RUNS, ok=per_org_minute <= MUST_RUNS,
            counters={
                "runs_per_minute": round(len(rollup_runs) / watched_min, 2),
                "all_runs": stack.kinds(mine),
            },
        ),
        Record(
            "hour-exact", "sums in 1h are those sent, nothing is stale, nothing is due", float(not problems),
            "yes=1", must=1, ok=not problems, counters={"problems": problems} if problems else {},
        ),
        Record(
            "hour-errors", "ERROR events in Dagster's log and failed checks",
            float(sum(errors.values())), "events", must=0,
            ok=not errors, counters=errors,
        ),
    ]  # fmt: skip


def _rolls_up(run: stack.Run) -> bool:
    """Runs of a job name no assets of their own."""
    return run.job in {ROLLUP_JOB, DAY_ROLLUP_JOB} or any(name.startswith("rollup/") for name in run.assets)


def _send(traffic: Traffic, org: str, number: int, hour: int, rounds: int, pace_s: float, sent: Sums) -> None:
    """Organisations begin one after the other within the pace; each sample has a moment of its own."""
    chance = random.Random(number)
    begins = time.monotonic() + number * pace_s / len(ORGS)
    step_ns = HOUR_NS // (rounds * POINTS)
    for turn in range(rounds):
        time.sleep(max(0.0, begins + turn * pace_s - time.monotonic()))
        points = [
            (
                hour + min(HOUR_NS, (turn * POINTS + point + 1) * min(step_ns, SECOND_NS)),
                [chance.randrange(1000) for _ in SERIES],
            )
            for point in range(POINTS)
        ]
        data = stack.gauges(SERIES, points)
        key = raw_key(org, "bench", Signal.METRICS, to_datetime(time.time_ns()), f"{turn:05}.binpb")
        traffic.announce(key, len(data), raw_store(traffic.settings).put(key, data))
        for _, values in points:
            sent.add(values)


def _until_current(settings: Settings, hour: int, objects: int, last: float) -> dict[str, float]:
    """Seconds after `last` by organisation; missing: never."""
    found: dict[str, float] = {}
    while len(found) < len(ORGS) and time.monotonic() - last < PATIENCE_S:
        if _done(settings) >= objects:  # looked at first: rollups of all that was sent, not of most of it
            for org in ORGS:
                view = stack.view_of(settings, org, hour, hour + HOUR_NS)
                if stack.stale(view, [hour], days=False):
                    found.pop(org, None)
                else:
                    found.setdefault(org, time.monotonic() - last)
        time.sleep(0.5)
    return found


def _done(settings: Settings) -> int:
    with psycopg.connect(settings.index_dsn) as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM lakerunner.raw_object WHERE state = 'done' AND signal = 'metrics'"
        ).fetchone() or (0,)
    return int(count)


def _problems(settings: Settings, hour: int, sent: dict[str, Sums]) -> list[str]:
    problems: list[str] = []
    for org in ORGS:
        view = stack.view_of(settings, org, hour, hour + HOUR_NS)
        problems += [f"{org}: {what} is not current" for what in stack.stale(view, [hour], days=False)]
        problems += [
            f"{org}: {p.frequency_ms} ms is due"
            for p in view.partitions
            if p.due and p.start_ns == hour and p.frequency_ms != DAY
        ]
        if (sums := stack.rolled_sums(settings, org)) != sent[org]:
            problems.append(f"{org}: 1h says {sums}, sent were {sent[org]}")
    return problems


def _versions(settings: Settings, hour: int) -> dict[str, str]:
    """How often the hour was changed and built, over all organisations."""
    with psycopg.connect(settings.index_dsn) as connection:
        rows = connection.execute(
            "SELECT frequency_ms, avg(version)::double precision, max(version) FROM lakerunner.partition "
            "WHERE signal = 'metrics' AND start_ns = %s GROUP BY 1 ORDER BY 1",
            (hour,),
        ).fetchall()
    return {f"{frequency} ms": f"mean {mean:.1f}, most {most}" for frequency, mean, most in rows}
