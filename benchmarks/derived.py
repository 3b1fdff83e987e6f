"""Queries that derived metrics answer, against records here and in VictoriaLogs and Loki.

`python -m benchmarks.derived [--quick] [--only dashboard,P13] [--json OUT] [--peers DIR] [--without-loki]`.
`dashboard`: 20 panels in LogQL, TraceQL and PromQL over a lake with rules, with and without `rewrite=false`.
`P13`: counts of lines by service, level and minute, and by level and five minutes, against peers over lines.
Answers are compared first, rounds are interleaved, and nobody remembers answers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.ingest.peers import DEFAULT_FOLDER, binary
from benchmarks.logql import corpus as lines
from benchmarks.logql.lake import KEY, ORG, LakeWriter, admit
from benchmarks.logql.measure import asker
from benchmarks.logql.peers import LOKI, VICTORIA, Loki, Peer, Victoria
from benchmarks.logql.questions import ALL, END_NS, LOGSQL_RANGE, QUERY_RANGE
from benchmarks.promql import corpus as samples
from benchmarks.promql import lake as metric_lake
from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell
from benchmarks.rules import TasksHere
from benchmarks.tiers.scratch import scratch_server
from benchmarks.traces import data as spans
from lakerunner_assets.materialized.run import DeriveReport, derive_hours
from lakerunner_assets.run_context import Heartbeat, RunContext
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import DerivedMetric
from resources.index.postgres import PostgresIndex
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS, hour_start
from resources.settings import Settings

WITH, WITHOUT = "with rules", "rewrite=false"
SERVICES = "resource.service.name"
RULES = (
    DerivedMetric("lines", Signal.LOGS, ALL, ("service_name", "detected_level")),
    DerivedMetric("declined", Signal.LOGS, f'{ALL} |= "declined"', ("service_name",)),
    DerivedMetric("waits", Signal.LOGS, f'{ALL} |= "Timeout"', ("service_name",)),
    DerivedMetric("spans", Signal.TRACES, "{ }", (SERVICES, "name", "status")),
    DerivedMetric("took", Signal.TRACES, "{ kind = server }", (SERVICES, "name"), "duration"),
)
RULES_OF_SAMPLES = (
    DerivedMetric("requests", Signal.METRICS, "http_requests_total", ("job",), "sample"),
    DerivedMetric("errors", Signal.METRICS, "http_errors_total", ("job",), "sample"),
)
OF_LINES = (
    f"sum by (service_name) (count_over_time({ALL}[1m]))",
    f"sum by (detected_level) (rate({ALL}[5m]))",
    f"sum(rate({ALL}[5m]))",
    f'sum by (service_name) (rate({ALL} | detected_level="error" [5m]))',
    f"topk(5, sum by (service_name) (rate({ALL}[5m])))",
    f'sum by (service_name) (rate({ALL} |= "declined" [5m]))',
    f'sum(rate({ALL} |= "Timeout" [5m])) / sum(rate({ALL}[5m]))',
    f'sum by (service_name) (count_over_time({ALL} | detected_level="fatal" [1h]))',
    'sum by (detected_level) (count_over_time({service_name="service-001"}[1m]))',
    f'sum(count_over_time({ALL} |= "declined" [5m])) / sum(count_over_time({ALL} |= "lag=" [5m]))',
)
OF_SPANS = (
    f"{{ }} | rate() by ({SERVICES})",
    "{ status = error } | rate() by (name)",
    "({ status = error } | rate()) / ({ } | rate())",
    "{ kind = server } | avg_over_time(duration) by (name)",
    f"{{ kind = server }} | max_over_time(duration) by ({SERVICES}) | topk(5)",
)
OF_SAMPLES = (
    "sum by (job) (count_over_time(http_requests_total[5m]))",
    "sum by (job) (sum_over_time(http_requests_total[5m])) / 2 ^ 20",
    "max by (job) (max_over_time(http_requests_total[5m]))",
    "sum(sum_over_time(http_errors_total[5m])) / sum(sum_over_time(http_requests_total[5m]))",
    "sum(count_over_time(http_errors_total[5m])) / count(http_requests_total)",
)


@dataclass(frozen=True, slots=True)
class Plan:
    rows: int
    """Lines of a day; each hour has the same number."""
    spans: int
    hosts: int
    rounds: int


QUICK, FULL = Plan(960_000, 200_000, 200, 5), Plan(9_600_000, 2_000_000, 500, 9)
TINY = Plan(48_000, 16_000, 20, 2)


@dataclass(frozen=True, slots=True)
class Panel:
    language: str
    text: str
    path: str
    values: Mapping[str, object]
    key: str = KEY


@dataclass(slots=True)
class World:
    """Everything that is asked, and what loading it took."""

    ours: Ours
    peers: list[Peer]
    first_span_ns: int
    facts: dict[str, Any] = field(default_factory=dict)

    def panels(self) -> Iterator[Panel]:
        """Yield panels of the last six hours of lines, two of spans, five of samples, all by the minute."""
        end = END_NS // SECOND_NS
        for text in OF_LINES:
            yield Panel(
                "LogQL", text, QUERY_RANGE, {"query": text, "start": end - 21_600, "end": end, "step": 60}
            )
        first = self.first_span_ns // SECOND_NS
        for text in OF_SPANS:
            values = {"q": text, "start": first + 60, "end": first + spans.HOURS * 3600, "step": "60s"}
            yield Panel("TraceQL", text, "/tempo/api/metrics/query_range", values)
        last = samples.END_MS // 1000
        for text in OF_SAMPLES:
            values = {"query": text, "start": last - 18_000, "end": last, "step": 60}
            yield Panel("PromQL", text, "/prometheus/api/v1/query_range", values, metric_lake.BARE)


@contextmanager
def running(
    plan: Plan, programs: Path, kinds: Sequence[type[Peer]], *, is_for_lines: bool
) -> Iterator[World]:
    """Load a lake and the peers, derive all metrics, and start the processes."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-derived-")))
        index, dsn = opened.enter_context(scratch_server())("derived")
        admit(index)
        peers: list[Peer] = []
        for kind in kinds:
            program = binary(programs, kind.name)
            if program:
                peers.append(kind(program, folder / kind.name))  # type: ignore[call-arg]
                opened.callback(peers[-1].stop)
        writer = LakeWriter(folder / "lake", index, segments=1 << 20)
        for part in lines.parts(plan.rows, 24 * max(1, plan.rows // 2_400_000)):
            writer.add(part)
            for peer in peers:
                peer.send(part)
        for peer in peers:
            peer.settle(plan.rows)
        facts: dict[str, Any] = {"lines": writer.rows}
        hours = [(ORG, Signal.LOGS, [lines.START_NS + n * HOUR_NS for n in range(24)])]
        first_span_ns = 0
        if not is_for_lines:
            loaded = spans.load(folder, plan.spans, spans.HOURS * 4, None)
            loaded.publish(index)
            first_span_ns, facts["spans"] = loaded.start_ns, loaded.spans
            hours.append(
                (ORG, Signal.TRACES, sorted({hour_start(one.min_ns - 1) for one in loaded.segments()}))
            )
            hours.append((metric_lake.BARE, Signal.METRICS, _write_samples(folder, index, plan, facts)))
        index.change_rules(ORG, [put_of(one) for one in RULES], None)
        facts["derived in s of CPU"] = {each[1].value: _derive(folder, index, *each) for each in hours}
        ours = Ours(folder / "ours", folder / "lake", dsn)
        opened.callback(ours.stop)
        ours.start()
        print(f"loaded: {facts}", flush=True)
        yield World(ours, peers, first_span_ns, facts)


def _write_samples(folder: Path, index: PostgresIndex, plan: Plan, facts: dict[str, Any]) -> list[int]:
    metric_lake.admit(index)
    (folder / "lake" / "rolling").mkdir(parents=True, exist_ok=True)
    writer = metric_lake.LakeWriter(folder / "lake", index, _serial=1 << 30)
    scale = samples.Scale(plan.hosts, 6, 4, 0, 0, 0)
    starts: list[int] = []
    for hour in samples.Corpus(scale).hours():
        writer.add(hour)
        starts.append(hour.start_ms * 1_000_000)
    writer.finish()
    facts["samples"] = writer.rows
    index.change_rules(metric_lake.BARE, [put_of(one) for one in RULES_OF_SAMPLES], None)
    return starts


def _derive(folder: Path, index: PostgresIndex, org: str, signal: Signal, hours: Sequence[int]) -> float:
    settings = Settings(data_dir=folder / "deriving", lake_url=(folder / "lake").as_uri(), span_metrics=False)
    tasks, report = TasksHere(), DeriveReport()
    run = RunContext(index, tasks, settings, Heartbeat(index, "bench", 60), lambda *_: None)  # type: ignore[arg-type]
    list(derive_hours(run, signal, {org: list(hours)}, report, force=True))
    if report.failed or report.ineligible:
        raise RuntimeError(f"{signal.value}: failed {report.failed}, ineligible {report.ineligible}")
    return round(tasks.seconds, 1)


def dashboard(plan: Plan, programs: Path) -> list[Record]:
    """Ask all panels with and without rules, round by round."""
    with running(plan, programs, (), is_for_lines=False) as world:
        panels = list(world.panels())
        asks = {
            (panel.text, way): asker(
                world.ours.port, panel.path, {**panel.values, **more}, {"Api-Key": panel.key}
            )
            for panel in panels
            for way, more in ((WITH, {}), (WITHOUT, {"rewrite": "false"}))
        }
        for panel in panels:
            _compare(panel, *(json.loads(asks[panel.text, way]()) for way in (WITH, WITHOUT)))
        wall: dict[tuple[str, str], list[float]] = {key: [] for key in asks}
        cpu: dict[str, list[float]] = {WITH: [], WITHOUT: []}
        for _ in range(plan.rounds):
            for way in (WITH, WITHOUT):
                before = world.ours.cpu_ms()
                for panel in panels:
                    wall[panel.text, way].append(_ms(asks[panel.text, way]))
                cpu[way].append(world.ours.cpu_ms() - before)
        medians = {key: statistics.median(each) for key, each in wall.items()}
        shown = {
            panel.text: f"{medians[panel.text, WITH]:.1f} ms, {WITHOUT} {medians[panel.text, WITHOUT]:.1f} ms"
            for panel in panels
        }
        facts = {**shown, **world.facts, "load": round(os.getloadavg()[0], 2)}
        found = []
        for language in ("LogQL", "TraceQL", "PromQL", "all"):
            mine = [one.text for one in panels if language in {one.language, "all"}]
            ratio = sum(medians[text, WITHOUT] for text in mine) / sum(medians[text, WITH] for text in mine)
            what = f"dashboard, {len(mine)} panels, {language}: wall, {WITHOUT} against {WITH}"
            found.append(Record(f"dashboard-{language.lower()}", what, ratio, "times"))
        ratio = statistics.median(cpu[WITHOUT]) / statistics.median(cpu[WITH])
        facts |= {f"CPU ms, {way}": round(statistics.median(each)) for way, each in cpu.items()}
        return [*found, Record("dashboard-cpu", "dashboard, all panels: CPU", ratio, "times", counters=facts)]


def _compare(panel: Panel, mine: Any, theirs: Any) -> None:
    first, second = _points(mine), _points(theirs)
    if not first or first.keys() != second.keys():
        raise RuntimeError(f"{panel.text}: {len(first)} points, from records {len(second)}")
    for key, value in first.items():
        if abs(value - second[key]) > 1e-9 * max(abs(value), abs(second[key])):
            raise RuntimeError(f"{panel.text}, {key}: {value}, from records {second[key]}")


def _points(answer: Any) -> dict[tuple[str, str], float]:
    """Return values by series and time, of Tempo's answers or of the others'."""
    if "series" in answer:
        return {
            (json.dumps(one["labels"], sort_keys=True), each["timestampMs"]): float(each.get("value", 0))
            for one in answer["series"]
            for each in one["samples"]
        }
    return {
        (json.dumps(one["metric"], sort_keys=True), str(at)): float(value)
        for one in answer["data"]["result"]
        for at, value in one["values"]
    }


def counts(plan: Plan, programs: Path, *, with_loki: bool) -> list[Record]:
    """Ask for counts of lines, of which peers read every one (P13)."""
    kinds: tuple[type[Peer], ...] = (Victoria, Loki) if with_loki else (Victoria,)
    found: list[Record] = []
    with running(plan, programs, kinds, is_for_lines=True) as world:
        for name, by, victoria, step_s in (
            ("service, level, minute", "service_name, detected_level", "service_name, level", 60),
            ("level, five minutes", "detected_level", "level", 300),
        ):
            asks = _sides(world, by, victoria, step_s)
            answers = {side: _counted(side, json.loads(ask()), step_s) for side, ask in asks.items()}
            for side, answer in answers.items():
                if answer != answers[WITHOUT]:
                    raise RuntimeError(f"{name}: {side} differs from {WITHOUT}")
            times: dict[str, list[float]] = {side: [] for side in asks}
            for _ in range(plan.rounds):
                for side, ask in asks.items():
                    times[side].append(_ms(ask))
            mine = statistics.median(times[WITH])
            facts = {
                side: f"{statistics.median(each):.1f} ms, best {min(each):.1f}"
                for side, each in times.items()
            }
            facts |= {**world.facts, "points": len(answers[WITH]), "load": round(os.getloadavg()[0], 2)}
            for side, must, aim in ((VICTORIA, 100.0, 300.0), (LOKI, 1000.0, 3000.0), (WITHOUT, None, None)):
                identity, what = f"P13-derived-{side}-{step_s}", f"counts by {name}, against {side}"
                if side not in times:
                    reason = f"no {side} to compare with"
                    found.append(Record(identity, what, None, "times", must, aim, peer=side, reason=reason))
                    continue
                ratio = statistics.median(times[side]) / mine
                is_ok = None if must is None else ratio >= must
                found.append(
                    Record(identity, what, ratio, "times", must, aim, is_ok, side, 1.0, ratio, counters=facts)
                )
    return found


def _sides(world: World, by: str, victoria: str, step_s: int) -> dict[str, Any]:
    begin = lines.START_NS + step_s * SECOND_NS
    text = f"sum by ({by}) (count_over_time({ALL}[{step_s // 60}m]))"
    values = {"query": text, "start": begin, "end": END_NS, "step": step_s}
    key = {"Api-Key": KEY}
    found = {
        WITH: asker(world.ours.port, QUERY_RANGE, values, key),
        WITHOUT: asker(world.ours.port, QUERY_RANGE, {**values, "rewrite": "false"}, key),
    }
    for peer in world.peers:
        if peer.name == LOKI:
            found[LOKI] = asker(peer.server.port, QUERY_RANGE, values)
        else:
            query = f"* | stats by ({victoria}) count() n"
            asked = {"query": query, "start": lines.START_NS, "end": END_NS - 1, "step": f"{step_s}s"}
            found[VICTORIA] = asker(peer.server.port, LOGSQL_RANGE, asked)
    return found


def _counted(side: str, answer: Any, step_s: int) -> dict[tuple[str, str, int], int]:
    """Return counts by service, level and end of the step."""
    shift = step_s if side == VICTORIA else 0
    found = {}
    for series in answer["data"]["result"]:
        labels = series["metric"]
        level = labels.get("detected_level", labels.get("level", ""))
        for at, value in series["values"]:
            if float(value):
                found[labels.get("service_name", ""), level, int(at) + shift] = int(float(value))
    return found


def _ms(ask: Any) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.derived", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, fewer rounds")
    parser.add_argument("--tiny", action="store_true", help="hardly any data: only whether everything runs")
    parser.add_argument("--only", default="dashboard,P13", help="comma-separated: dashboard, P13")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of their programs")
    parser.add_argument("--without-loki", action="store_true", help="it takes longest to load")
    options = parser.parse_args()
    plan = TINY if options.tiny else QUICK if options.quick else FULL
    only = set(options.only.split(","))
    if unknown := only - {"dashboard", "P13"}:
        parser.error(f"no part {sorted(unknown)}; there are dashboard and P13")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)
    records: list[Record] = []
    if "P13" in only:
        records += counts(plan, options.peers, with_loki=not options.without_loki)
    if "dashboard" in only:
        records += dashboard(plan, options.peers)
    tell("derived", records, options.json)


if __name__ == "__main__":
    main()
