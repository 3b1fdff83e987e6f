"""P28: 32 clients look at dashboards of 20 panels, PromQL and LogQL, which slide along the data.

`python -m benchmarks.dashboards [--quick] [--json OUT] [--peers DIR]`. Every client asks the panels of its
dashboard one after the other, then again for a window that ends a minute later. Lakerunner (an API, two
workers that keep answers, as by default) is asked everything; of the peers, Prometheus is asked PromQL and
Loki LogQL. Answers to every panel are compared first. What counts is answers per CPU-second of the servers.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.ingest.peers import DEFAULT_FOLDER, binary
from benchmarks.logql import corpus as lines
from benchmarks.logql import lake as log_lake
from benchmarks.logql.peers import LOKI, Loki
from benchmarks.promql import corpus as samples
from benchmarks.promql import lake as metric_lake
from benchmarks.promql.fuzz_compare import Likeness, Tolerance, answer_of, likeness
from benchmarks.promql.measure import settle
from benchmarks.promql.ours import Ours
from benchmarks.promql.peers import PROMETHEUS, Peer, cpu_ms
from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import scratch_server

CLIENTS = 32
SLIDE_S = 60
MUST, AIM = 2.0, 5.0
OF_SAMPLES = (
    "sum by (job) (rate(http_requests_total[5m]))",
    "sum(rate(http_requests_total[5m]))",
    "topk(5, sum by (instance) (rate(http_requests_total[5m])))",
    "sum by (job) (rate(http_errors_total[5m])) / sum by (job) (rate(http_requests_total[5m]))",
    "histogram_quantile(0.99, sum by (le) (rate(latency_seconds_bucket[5m])))",
    "histogram_quantile(0.5, sum by (le, job) (rate(latency_seconds_bucket[5m])))",
    'rate(http_requests_total{instance="host-7"}[5m])',
    "count(http_requests_total)",
    "max by (job) (increase(http_requests_total[10m]))",
    "sum(http_errors_total) > 0",
    "avg_over_time(http_errors_total{instance=~\"host-1.\"}[5m])",
    "histogram_quantile(0.9, sum(rate(latency_native[5m])))",
)  # fmt: skip
OF_LINES = (
    'sum by (service_name) (count_over_time({service_name=~"service-00.*"}[1m]))',
    'sum(rate({service_name=~".+"} |= "Timeout"[5m]))',
    'sum by (detected_level) (count_over_time({service_name="service-001"}[1m]))',
    'sum by (service_name) (rate({service_name=~"service-0.*"} |= "declined"[5m]))',
    'sum(count_over_time({service_name="service-003"} |~ "code=(404|500)"[5m]))',
    '{service_name="service-002"} |= "status=500"',
    '{service_name=~"service-00[12]"} | detected_level="error"',
    'sum(bytes_over_time({service_name="service-000"}[1m]))',
)


@dataclass(frozen=True, slots=True)
class Scale:
    samples: samples.Scale
    rows: int
    segments: int
    rounds: int
    seconds: float


QUICK = Scale(samples.Scale(100, 6, 4, 2, 0, 0), 400_000, 24, 2, 10.0)
FULL = Scale(samples.Scale(500, 24, 20, 5, 0, 0), 4_000_000, 96, 4, 30.0)


@dataclass(frozen=True, slots=True)
class Panel:
    text: str
    is_of_lines: bool

    def path(self, slides: int) -> str:
        """An hour of samples by the minute, or half an hour of lines by the half minute."""
        late = slides % 240 * SLIDE_S
        if not self.is_of_lines:
            end = samples.END_MS // 1000 - 3600 + late
            return _path("/api/v1/query_range", query=self.text, start=end - 3600, end=end, step=60)
        end = lines.START_NS // 10**9 + 12 * 3600 + late
        times = {"start": (end - 1800) * 10**9, "end": end * 10**9}
        step = {} if self.text.startswith("{") else {"step": 30}
        return _path("/loki/api/v1/query_range", query=self.text, limit=100, **times, **step)


PANELS = (*(Panel(text, False) for text in OF_SAMPLES), *(Panel(text, True) for text in OF_LINES))


def _path(path: str, **values: object) -> str:
    return f"{path}?{urllib.parse.urlencode(values)}"


@dataclass(slots=True)
class Side:
    """A side of the comparison: its addresses, and what its processes took."""

    name: str
    ports: tuple[int, int]
    """Ports for samples and for lines."""
    prefix: str
    """Before the paths of Prometheus' API."""
    keys: tuple[str, str]
    cpu_s: Callable[[], float]
    answers: int = 0
    spent_s: float = 0.0
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)

    def ask(self, connections: dict[int, http.client.HTTPConnection], panel: Panel, slides: int) -> bytes:
        port = self.ports[panel.is_of_lines]
        if port not in connections:
            connections[port] = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        path = panel.path(slides)
        if not panel.is_of_lines:
            path = self.prefix + path
        connections[port].request("GET", path, headers={"Api-Key": self.keys[panel.is_of_lines]})
        answer = connections[port].getresponse()
        body = answer.read()
        self.statuses[str(answer.status)] += 1
        return body

    def look(self, seconds: float, slides: Iterator[int]) -> None:
        """Let all clients look at their dashboards for so long."""
        over = time.monotonic() + seconds
        before = self.cpu_s()
        threads = [threading.Thread(target=self._refresh, args=(over, slides)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.spent_s += self.cpu_s() - before

    def _refresh(self, over: float, slides: Iterator[int]) -> None:
        connections: dict[int, http.client.HTTPConnection] = {}
        while time.monotonic() < over:
            window = next(slides)
            for panel in PANELS:
                if time.monotonic() >= over:
                    break
                began = time.perf_counter()
                self.ask(connections, panel, window)
                self.seconds.append(time.perf_counter() - began)
                self.answers += 1
        for connection in connections.values():
            connection.close()


@contextmanager
def running(scale: Scale, programs: Path) -> Iterator[tuple[Side, Side | None]]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-dashboards-")))
        index, dsn = opened.enter_context(scratch_server())("dashboards")
        log_lake.admit(index)
        metric_lake.admit(index)
        prometheus, loki = None, None
        if (program := binary(programs, PROMETHEUS)) and (other := binary(programs, LOKI)):
            prometheus, loki = Peer(PROMETHEUS, program, folder / PROMETHEUS), Loki(other, folder / LOKI)
            opened.callback(prometheus.stop)
            opened.callback(loki.stop)
        (folder / "lake" / "rolling").mkdir(parents=True)
        of_samples = metric_lake.LakeWriter(folder / "lake", index)
        for hour in samples.Corpus(scale.samples).hours():
            of_samples.add(hour)
            series = list(hour.series())
            for at in range(0, len(series) if prometheus else 0, 500):
                prometheus.send(series[at : at + 500])  # type: ignore[union-attr]
        of_samples.finish()
        of_lines = log_lake.LakeWriter(folder / "lake", index, segments=1 << 20)
        for part in lines.parts(scale.rows, scale.segments):
            of_lines.add(part)
            if loki:
                loki.send(part)
        ours = Ours(folder / "ours", folder / "lake", dsn, memory_mb=1024, answers_mb=64)
        opened.callback(ours.stop)
        ours.start()
        keys = metric_lake.BARE, log_lake.KEY
        mine = Side(ours.name, (ours.port, ours.port), "/prometheus", keys, lambda: ours.cpu_ms() / 1000)
        if prometheus is None or loki is None:
            yield mine, None
            return
        settle(prometheus)
        loki.settle(of_lines.rows)
        pids = prometheus.server.pid, loki.server.pid
        ports = prometheus.server.port, loki.server.port
        yield mine, Side("Prometheus + Loki", ports, "", ("", ""), lambda: sum(map(cpu_ms, pids)) / 1000)


def check(mine: Side, theirs: Side) -> None:
    """Compare the answers to all panels; raise where they differ."""
    connections: tuple[dict[int, http.client.HTTPConnection], ...] = ({}, {})
    for panel in PANELS:
        found = [json.loads(side.ask(connections[n], panel, 3)) for n, side in enumerate((mine, theirs))]
        if panel.text.startswith("{"):
            same = _lines(found[0]) == _lines(found[1])
        else:
            close = Tolerance(1e-9, 1e-9)
            same = likeness(answer_of(found[0]), answer_of(found[1]), close)[0] is not Likeness.DIFFERENT
        if not same or not found[0]["data"]["result"]:
            raise RuntimeError(f"{panel.text}: {str(found[0])[:500]} against {str(found[1])[:500]}")


def _lines(answer: dict[str, Any]) -> list[Any]:
    return sorted(value[:2] for stream in answer["data"]["result"] for value in stream["values"])


def measure(scale: Scale, programs: Path) -> list[Record]:
    with running(scale, programs) as (mine, theirs):
        sides = [mine] if theirs is None else [mine, theirs]
        if theirs is not None:
            check(mine, theirs)
        slides = itertools.count()
        for side in sides:
            side.look(2.0, slides)
            side.answers, side.spent_s = 0, 0.0
            side.seconds.clear()
        for _ in range(scale.rounds):
            window = next(slides)
            for side in sides:
                side.look(scale.seconds, itertools.count(window))
    records = [_record(side) for side in sides]
    if theirs is None:
        missing = f"{PROMETHEUS} and {LOKI} are not in {programs}"
        return [*records, Record("P28", "answers per CPU-second", None, "times", MUST, AIM, reason=missing)]
    ratio = mine.answers / mine.spent_s / (theirs.answers / theirs.spent_s)
    return [
        *records,
        Record("P28", "answers per CPU-second against peers", ratio, "times", MUST, AIM, ratio >= MUST),
    ]


def _record(side: Side) -> Record:
    known = sorted(side.seconds)
    facts = {
        "answers": side.answers,
        "CPU s": round(side.spent_s, 1),
        "p50 ms": round(1e3 * known[len(known) // 2], 1),
        "p99 ms": round(1e3 * known[int(len(known) * 0.99)], 1),
        **side.statuses,
    }
    value = side.answers / side.spent_s
    return Record(
        side.name.split()[0].lower(), f"{side.name}: answers per CPU-second", value, "1/s", counters=facts
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="less data, 2 rounds of 10 s instead of 4 of 30 s"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER)
    args = parser.parse_args()
    tell("dashboards", measure(QUICK if args.quick else FULL, args.peers), args.json)


if __name__ == "__main__":
    main()
