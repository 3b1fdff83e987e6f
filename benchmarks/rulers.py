"""Rulers under load, and the way from an object to an alert.

    python -m benchmarks.rulers [--only load,delivery] [--rules 1000] [--seconds 120] [--alerts 50]

`load`: alert rules over fresh counters, every 30 s, one ruler and two workers; evaluations that were
missed, and the CPU that each process took. `delivery`: a whole stack of its own (Kafka, Spark, PostgreSQL);
objects are put, each makes an alert of its own true (interval 10 s, no `for`), and a webhook notes when it
hears of it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import psycopg

from benchmarks.promql.corpus import Floats
from benchmarks.promql.lake import BARE, LakeWriter, admit, table_of
from benchmarks.promql.samples import labels_of
from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import scratch_server
from benchmarks.traffic import Traffic
from lakerunner_cli.accounts import open_index
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import AlertRule, RuleGroup, RuleLanguage
from resources.index.postgres import PostgresIndex
from resources.index.ruling_types import GroupRecord
from resources.lake.timecut import HOUR_NS, cut
from resources.settings import Settings
from tests.support.query.lake import start_workers
from tests.support.query.ruler_process import RulerProcess
from tests.support.stack_fixture import start_stack, stop_stack

HOSTS, JOBS, OF_GROUP = 300, 20, 10
INTERVAL_MS, SCRAPE_MS, MARGIN_S = 30_000, 15_000, 900
PATIENCE_S = 240.0
DELIVERY_MS = 10_000
NS_PER_MS = 1_000_000


# --- a thousand rules ------------------------------------------------------------------------------


def rules_of(number: int) -> Iterator[AlertRule]:
    """Yield the rules of one group: ratios, rates, silence, of a host or a job."""
    host, job = f"host-{number % HOSTS}", f"job-{number % JOBS}"
    requests, errors = f'requests_total{{job="{job}"}}', f'errors_total{{job="{job}"}}'
    conditions = (
        f"sum(rate({errors}[5m])) / sum(rate({requests}[5m])) > 0.5",
        f"sum by (instance) (rate({errors}[5m])) > 50",
        f'rate(errors_total{{instance="{host}"}}[5m]) > 0.2',
        f'absent(requests_total{{instance="{host}"}})',
        f"sum(increase({requests}[10m])) < 1",
        f'changes(requests_total{{instance="{host}"}}[5m]) == 0',
        f"max(rate({requests}[2m])) > 4 * avg(rate({requests}[2m]))",
        f'requests_total{{instance="{host}"}} offset 1m > requests_total{{instance="{host}"}}',
        f"topk(3, rate({errors}[5m])) > 40",
        f"count(rate({requests}[5m]) > 0) < 3",
    )
    for place, condition in enumerate(conditions):
        yield AlertRule(
            f"Alert{place}", condition, for_ms=120_000, labels={"severity": "page"},
            annotations={"summary": "{{ $labels.job }}: {{ humanize $value }}"},
        )  # fmt: skip


def write_samples(lake: LakeWriter, from_ms: int, to_ms: int) -> None:
    """Write counters of all hosts, a segment a minute."""
    rng = np.random.default_rng(1)
    steps = 60_000 // SCRAPE_MS
    value = {"requests_total": np.zeros(HOSTS), "errors_total": np.zeros(HOSTS)}
    for start_ms in range(from_ms // 60_000 * 60_000, to_ms, 60_000):
        times = start_ms + 1 + np.arange(steps) * SCRAPE_MS + rng.integers(0, 14_000, (HOSTS, 1))
        tables = []
        for name, speed in (("requests_total", 450), ("errors_total", 15)):
            labels = tuple(labels_of(name, instance=f"host-{n}", job=f"job-{n % JOBS}") for n in range(HOSTS))
            grown = value[name][:, None] + np.cumsum(rng.poisson(speed, (HOSTS, steps)), axis=1)
            value[name] = grown[:, -1]
            tables.append(table_of(Floats(labels, times, grown)))
        lake.write(tables, cut(start_ms * NS_PER_MS + 1, HOUR_NS), HOUR_NS, (BARE,))


@dataclass(slots=True)
class Usage:
    """CPU seconds of processes with their children."""

    pids: dict[str, int]
    begun: dict[str, float] = field(default_factory=dict)
    started: float = 0.0

    def start(self) -> None:
        self.begun, self.started = self._now(), time.monotonic()

    def shares(self) -> dict[str, float]:
        """Return the share of a core that each took since the start."""
        seconds = time.monotonic() - self.started
        return {name: (now - self.begun[name]) / seconds for name, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: _cpu_s(psutil.Process(pid)) for name, pid in self.pids.items()}


def _cpu_s(process: psutil.Process) -> float:
    found = 0.0
    for one in (process, *process.children(recursive=True)):
        times = one.cpu_times()
        found += times.user + times.system
    return found


def measure_load(rules: int, seconds: float) -> list[Record]:
    with scratch_server() as server, tempfile.TemporaryDirectory(prefix="lakerunner-rulers-") as folder:
        index, dsn = server("rulers")
        admit(index)
        lake = Path(folder) / "lake"
        now_ms = round(time.time() * 1000)
        write_samples(LakeWriter(lake, index), now_ms - MARGIN_S * 1000, now_ms + MARGIN_S * 1000)
        groups = [
            RuleGroup(f"group-{n}", tuple(rules_of(n)), interval_ms=INTERVAL_MS)
            for n in range(rules // OF_GROUP)
        ]
        index.change_rules(BARE, [put_of(one, "bench") for one in groups], None)
        for stack in start_workers(Path(folder) / "data", lake, 2):
            settings = replace(stack.settings, index_dsn=dsn, query_timeout_s=30.0, log_level="WARNING")
            ruler = RulerProcess(settings)
            try:
                _wait_for_all(index, len(groups), now_ms)
                pids = {f"worker {n}": one.process.pid for n, one in enumerate(stack.workers)}
                return _observe(index, Usage({"ruler": ruler.process.pid, **pids}), rules, seconds)
            finally:
                ruler.stop()
    raise AssertionError("workers were started")


def _wait_for_all(index: PostgresIndex, groups: int, since_ms: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = index.group_records(BARE)
        if len(found) == groups and all(one.evaluated_ms > since_ms for one in found):
            return
        time.sleep(0.5)
    raise TimeoutError(f"not all of {groups} groups were evaluated within {PATIENCE_S:g} s")


def _observe(index: PostgresIndex, usage: Usage, rules: int, seconds: float) -> list[Record]:
    def missed(records: list[GroupRecord]) -> int:
        return sum(one.missed for one in records)

    before = index.group_records(BARE)
    usage.start()
    time.sleep(seconds)
    shares, after = usage.shares(), index.group_records(BARE)
    old = {one.rule_id: one.evaluated_ms for one in before}
    evaluations = sum((one.evaluated_ms - old[one.rule_id]) // INTERVAL_MS for one in after) * OF_GROUP
    errors = [one.error for one in after if one.error]
    lost = missed(after) - missed(before)
    slowest = max(one.duration_s for one in after)
    counters = {
        "rules": rules, "evaluations": evaluations, "seconds": seconds, "errors": len(errors),
        "first error": errors[0] if errors else "", "slowest group, s": round(slowest, 3), "load": _load(),
    }  # fmt: skip
    ruler = shares.pop("ruler")
    return [
        Record(
            "missed", f"evaluations missed, {rules} rules every 30 s", lost, "evaluations", must=0,
            ok=lost == 0 and not errors and evaluations > 0, counters=counters,
        ),
        Record("ruler", "CPU of the ruler", 100 * ruler, "% of a core", aim=30),
        Record("workers", "CPU of both workers", 100 * sum(shares.values()), "% of a core"),
    ]  # fmt: skip


def _load() -> str:
    return " ".join(f"{one:.1f}" for one in psutil.getloadavg())


# --- from an object to an alert --------------------------------------------------------------------


@contextmanager
def listening(heard: dict[int, float]) -> Iterator[str]:
    """Note when each number was heard first; yield the address of the webhook."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for alert in body["alerts"]:
                if alert["status"] == "firing":
                    heard.setdefault(int(alert["labels"]["number"]), time.time())
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        server.server_close()


def measure_delivery(alerts: int, warm: int, pace_s: float) -> list[Record]:
    """Put `warm` objects, wait until they were heard of, then measure `alerts` further ones."""
    heard: dict[int, float] = {}
    with listening(heard) as hook, tempfile.TemporaryDirectory(prefix="lakerunner-rulers-") as folder:
        settings = start_stack(Path(folder), (), extra={"LAKERUNNER_RULER_WEBHOOKS": hook}, patience_s=900.0)
        try:
            traffic = Traffic(settings, ("acme",))
            traffic.prepare()
            _apply_rule(settings, traffic.service)
            _send(traffic, range(warm), pace_s)
            _wait_to_hear(heard, warm)
            delays: list[float] = []
            _send(traffic, range(warm, warm + alerts), pace_s, lambda: delays.append(_delay_s(settings)))
            _wait_to_hear(heard, warm + alerts)
            return _delivered(traffic, heard, warm, alerts, delays, settings)
        finally:
            stop_stack(Path(folder))


def _apply_rule(settings: Settings, service: str) -> None:
    expr = (
        f'sum by (number) (count_over_time({{service_name="{service}"}} |= "row 0 of" '
        '| pattern "<_> of object <number>" [1m])) > 0'
    )
    rule = AlertRule("Object", expr, annotations={"summary": "object {{ $labels.number }}"})
    group = RuleGroup("objects", (rule,), RuleLanguage.LOGQL, interval_ms=DELIVERY_MS)
    with open_index(settings) as desk:
        desk.change_rules("acme", [put_of(group, "bench")], None)


def _send(traffic: Traffic, numbers: range, pace_s: float, after: Any = None) -> None:
    rng = random.Random(len(numbers))
    for number in numbers:
        traffic.send(number)
        if after is not None:
            after()
        time.sleep(pace_s * rng.uniform(0.5, 1.5))


def _delay_s(settings: Settings) -> float:
    with open_index(settings) as desk:
        return max((one.delay_s for one in desk.group_records("acme")), default=0.0)


def _wait_to_hear(heard: dict[int, float], count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(heard) < count and time.monotonic() < deadline:
        time.sleep(0.2)


def _delivered(
    traffic: Traffic,
    heard: dict[int, float],
    warm: int,
    alerts: int,
    delays: list[float],
    settings: Settings,
) -> list[Record]:
    sent = {one.number: one.put_at for one in traffic.sent if one.number >= warm}
    found = sorted(heard[number] - put_at for number, put_at in sent.items() if number in heard)
    missing = alerts - len(found)
    worst = found[min(len(found) - 1, int(len(found) * 0.99))] if found else float("inf")
    visible = _seconds_to_visible(settings, alerts)
    counters = {
        "load": _load(), "missing": missing, "slowest five, s": [round(one, 1) for one in found[-5:]],
        "ruler looks back, s": [round(float(q), 1) for q in np.quantile(delays, [0, 0.5, 1])],
        "registered to visible, s": [round(float(q), 1) for q in np.quantile(visible, [0.5, 0.99])],
    }  # fmt: skip
    return [
        Record("p50", "object put to alert delivered, median", median(found) if found else None, "s"),
        Record(
            "p99", f"object put to alert delivered, p99 of {alerts}", worst, "s", must=60, aim=20,
            ok=missing == 0 and worst <= 60, counters=counters,
        ),
    ]  # fmt: skip


def _seconds_to_visible(settings: Settings, last: int) -> list[float]:
    statement = (
        "SELECT extract(EPOCH FROM done_at - registered_at)::float8 FROM lakerunner.raw_object "
        "WHERE org_id = 'acme' AND done_at IS NOT NULL ORDER BY registered_at DESC LIMIT %s"
    )
    with psycopg.connect(settings.require("index_dsn")) as connection:
        return [seconds for (seconds,) in connection.execute(statement, (last,)).fetchall()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rulers", description=__doc__)
    parser.add_argument("--only", default="load,delivery")
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--alerts", type=int, default=50)
    parser.add_argument("--warm", type=int, default=5, help="objects before those that are measured")
    parser.add_argument("--pace", type=float, default=3.0, help="seconds between objects")
    parser.add_argument("--quick", action="store_true", help="200 rules for 60 s, 10 alerts")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.rules, options.seconds, options.alerts = 200, 60.0, 10
    records: list[Record] = []
    if "load" in options.only:
        records += measure_load(options.rules, options.seconds)
    if "delivery" in options.only:
        records += measure_delivery(options.alerts, options.warm, options.pace)
    tell("rulers", records, options.json)


if __name__ == "__main__":
    main()
