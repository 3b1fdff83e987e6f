"""P17, P19, P26 and P27: the lake on an S3 server with 20 ms per request and 100 MB/s per connection.

    python -m benchmarks.object_store [--quick] [--only P26,P27] [--rounds N] [--json OUT] [--peers DIR]

Cold: processes started again, workers' disks empty. Bytes and requests are those that the proxy counted; what
had to be read is taken from footers, independently of our readers.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.ingest.peers import DEFAULT_FOLDER, binary
from benchmarks.logql.corpus import DAY_NS, START_NS, parts, service_name
from benchmarks.logql.lake import KEY, admit
from benchmarks.logql.lake import LakeWriter as LogWriter
from benchmarks.object_store_site import DELAY_MS, MEGABYTES, Cold, LokiOnS3, Site, get, site, stream
from benchmarks.promql.corpus import END_MS, HOUR_MS, Corpus, Scale
from benchmarks.promql.lake import BARE
from benchmarks.promql.lake import LakeWriter as MetricWriter
from benchmarks.promql.lake import admit as admit_metrics
from benchmarks.promql.ours import Ours
from benchmarks.report import Record, tell
from benchmarks.tiers.scratch import Database, scratch_server
from resources.lake.segment_file import read_facts
from tests.support.slow_store import Counts

TARGETS = ("P17", "P19", "P26", "P27")
MINUTE_NS, HOUR_NS = 60 * 10**9, 3600 * 10**9
LOKI_RANGE, PROM_RANGE = "/loki/api/v1/query_range", "/prometheus/api/v1/query_range"
SERVICE = service_name(3)
FIVE_MINUTES = f'sum by (detected_level) (count_over_time({{service_name="{SERVICE}"}} |= "status=404" [5m]))'
MANY_SEGMENTS = (
    'sum by (instance) (rate({__name__=~"http_requests_total|http_errors_total|latency_seconds_bucket"}[5m]))'
)
COLUMNS = ("chq_tsns", "chq_stream_id", "log_message", "detected_level")
"""Columns that the question of P26 is about."""
NO_METRICS_PEER = "no Prometheus-compatible server that reads S3 was built"


@dataclass(frozen=True, slots=True)
class Plan:
    large_rows: int
    """Rows of an hour of one segment; 44 bytes each."""
    large_segments: int
    log_rows: int
    hosts: int
    rounds: int


IDS = {"last 100 lines": "last", "trace id in logs": "trace", "1 h of 20 series": "promql"}
QUICK, FULL = Plan(600_000, 2, 120_000, 200, 2), Plan(12_000_000, 2, 2_400_000, 1000, 5)
LOG_SEGMENTS, METRIC_HOURS = 24, 24


@dataclass
class Asked:
    """A question, asked cold and again."""

    name: str
    cold_ms: list[float] = field(default_factory=list)
    again_ms: list[float] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)
    peer_ms: list[float] = field(default_factory=list)
    peer_counts: list[Counts] = field(default_factory=list)

    def line(self) -> str:
        text = f"cold {_shown(self.cold_ms)}, again {_shown(self.again_ms)}, {_cost(self.counts)}"
        if self.peer_ms:
            text += f"; loki cold {_shown(self.peer_ms)}, {_cost(self.peer_counts)}"
        return text


def measure(plan: Plan, programs: Path, only: set[str]) -> list[Record]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-object-store-")))
        place = opened.enter_context(site(folder, programs))
        database = opened.enter_context(scratch_server())
        print(f"S3 server: {place.kind}", flush=True)
        records: list[Record] = []
        asked: list[Asked] = []
        if "P26" in only or "P19" in only:
            records += _large_segments(place, database, plan, asked)
        if "P27" in only or "P19" in only:
            asked += _logs(place, database, plan, programs)
        if only & {"P17", "P19", "P27"}:
            records += _metrics(place, database, plan, asked)
        records += _from_questions(asked)
        return [record for record in records if record.id.split("-")[0] in only]


def _large_segments(place: Site, database: Database, plan: Plan, asked: list[Asked]) -> list[Record]:
    """Five minutes of one service, in the middle of each hour."""
    index, dsn = database("large")
    admit(index)
    lake = place.lake("large")
    writer = LogWriter(lake, index)
    hours = parts(24 * plan.large_rows, 24)
    for _ in range(plan.large_segments):
        writer.add(next(hours))
    hours.close()  # type: ignore[attr-defined]
    files = sorted(lake.rglob("*.parquet"))
    print(f"large segments: {[round(path.stat().st_size / 1e6) for path in files]} MB", flush=True)
    found = Asked("5 minutes of one service")
    ratios, requests, needs = [], [], []
    with _ours(place, lake, dsn) as cold:
        for number in range(plan.large_segments * plan.rounds):
            hour = number % plan.large_segments
            end = START_NS + hour * HOUR_NS + 35 * MINUTE_NS
            values = {"query": FIVE_MINUTES, "start": end, "end": end, "step": 60}
            _ask_cold(found, cold, place, lambda v=values: get(cold.ours.port, LOKI_RANGE, v, _KEY))  # type: ignore[misc]
            counts = found.counts[-1]
            keys = {key for method, key in counts.requests if method == "GET"}
            needed = sum(_needed(lake.parent / key, end - 5 * MINUTE_NS, end) for key in keys)
            needs.append(needed)
            ratios.append(counts.bytes_read() / needed)
            requests.append(counts.gets() / len(keys))
    asked.append(found)
    print(f"{found.name}: {found.line()}", flush=True)
    counters = {
        "segments_mb": [round(path.stat().st_size / 1e6) for path in files],
        "needed_mb": round(statistics.median(needs) / 1e6, 2),
        "fetched_mb": round(statistics.median(one.bytes_read() for one in found.counts) / 1e6, 2),
        "end_mb": [_end(path) for path in files],
        "ranges": [_range(text) for _, text in found.counts[-1].ranges],
        found.name: found.line(),
    }
    for path in files:
        path.unlink()
    bytes_ratio, each = statistics.median(ratios), statistics.median(requests)
    return [
        Record("P26", "bytes fetched / bytes of the column chunks needed", bytes_ratio, "times", 1.5, 1.1,
               bytes_ratio <= 1.5, counters=counters),
        Record("P26-requests", "requests per segment", each, "requests", 4, 2, each <= 4),
    ]  # fmt: skip


def _needed(path: Path, start_ns: int, end_ns: int) -> int:
    """Bytes of the wanted columns in row groups that may have rows of the service in these five minutes."""
    footer = pq.ParquetFile(path).metadata
    places = {footer.row_group(0).column(at).path_in_schema: at for at in range(footer.num_columns)}
    needed = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        times = group.column(places["chq_tsns"]).statistics
        services = group.column(places["resource_service_name"]).statistics
        if times.max > start_ns and times.min <= end_ns and services.min <= SERVICE <= services.max:
            needed += sum(group.column(places[name]).total_compressed_size for name in COLUMNS)
    return needed


def _end(path: Path) -> dict[str, float]:
    """Sizes of what lies at the end of a segment."""
    footer = pq.ParquetFile(path).metadata
    facts = read_facts(footer)
    sizes = {"footer": footer.serialized_size, "table": facts.series_length, "bloom": facts.bloom_length}
    return {name: round(size / 1e6, 2) for name, size in sizes.items()}


def _range(header: str) -> str:
    """Show a Range header in megabytes.

    >>> _range("bytes=1000000-1499999")
    '0.50 at 1.0'
    """
    first, _, last = header.removeprefix("bytes=").partition("-")
    return f"{(int(last) + 1 - int(first)) / 1e6:.2f} at {int(first) / 1e6:.1f}" if first and last else header


def _logs(place: Site, database: Database, plan: Plan, programs: Path) -> list[Asked]:
    """The last lines of a service and the lines of a trace, beside Loki where it is found."""
    index, dsn = database("logs")
    admit(index)
    lake = place.lake("logs")
    writer = LogWriter(lake, index)
    program = binary(programs, "loki")
    with ExitStack() as opened:
        loki = LokiOnS3(program, place.folder / "loki", place.proxy) if program else None
        if loki:
            opened.callback(loki.stop)
        trace = ""
        for number, part in enumerate(parts(plan.log_rows, LOG_SEGMENTS)):
            writer.add(part)
            if loki:
                loki.send(part)
            if number == LOG_SEGMENTS // 2:
                trace = part.trace_ids[len(part.tsns) // 3].as_py()
        if loki:
            loki.settle()
        day = {"start": START_NS, "end": START_NS + DAY_NS, "limit": 100, "direction": "backward"}
        questions = {
            "last 100 lines": {"query": f'{{service_name="{SERVICE}"}}', **day},
            "trace id in logs": {"query": f'{{service_name=~".+"}} | trace_id="{trace}"', **day},
        }
        found = [Asked(name) for name in questions]
        cold = opened.enter_context(_ours(place, lake, dsn))
        before = {"query": '{service_name="none"}', "start": START_NS - DAY_NS, "end": START_NS - HOUR_NS}
        for _ in range(plan.rounds):
            for one in found:
                values = questions[one.name]
                cold.restart()
                get(cold.ours.port, LOKI_RANGE, before, _KEY)
                mine = _ask_twice(one, place, lambda v=values: get(cold.ours.port, LOKI_RANGE, v, _KEY))  # type: ignore[misc]
                if loki:
                    _ask_loki(one, loki, place, values, before, mine)
                print(f"{one.name}: {one.line()}", flush=True)
        return found


def _ask_loki(
    one: Asked,
    loki: LokiOnS3,
    place: Site,
    values: Mapping[str, object],
    before: Mapping[str, object],
    mine: bytes,
) -> None:
    loki.restart()
    get(loki.server.port, LOKI_RANGE, before, {})
    place.proxy.take_counts()
    began = time.perf_counter()
    theirs = get(loki.server.port, LOKI_RANGE, values, {})
    one.peer_ms.append((time.perf_counter() - began) * 1000)
    one.peer_counts.append(place.proxy.take_counts())
    if _lines(mine) != _lines(theirs):
        raise RuntimeError(f"{one.name}: {len(_lines(mine))} lines here, {len(_lines(theirs))} in Loki")


def _lines(body: bytes) -> list[tuple[str, str]]:
    found = json.loads(body)["data"]["result"]
    return sorted((value[0], value[1]) for each in found for value in each["values"])


def _metrics(place: Site, database: Database, plan: Plan, asked: list[Asked]) -> list[Record]:
    """One hour of twenty series, and a question over many segments, streamed."""
    index, dsn = database("metrics")
    admit_metrics(index)
    lake = place.lake("metrics")
    writer = MetricWriter(lake, index)
    for hour in Corpus(Scale(plan.hosts, METRIC_HOURS, 40, 0, 0, 0)).hours():
        writer.add(hour)
    writer.finish()
    few = Asked("1 h of 20 series")
    hosts = "|".join(f"host-{number}" for number in range(20))
    text = f'rate(http_requests_total{{instance=~"{hosts}"}}[5m])'
    values = {"query": text, "start": END_MS / 1000 - 3600, "end": END_MS / 1000, "step": 15}
    with _ours(place, lake, dsn) as cold:
        for _ in range(plan.rounds):
            body = _ask_cold(few, cold, place, lambda: get(cold.ours.port, PROM_RANGE, values, _BARE))
            if len(json.loads(body)["data"]["result"]) != 20:
                raise RuntimeError(f"{few.name}: {body[:300]!r}")
        asked.append(few)
        print(f"{few.name}: {few.line()}", flush=True)
        return _streamed(cold, place, plan)


def _streamed(cold: Cold, place: Site, plan: Plan) -> list[Record]:
    start, end = END_MS - (METRIC_HOURS - 1) * HOUR_MS, END_MS
    sse = {"q": MANY_SEGMENTS, "s": str(start), "e": str(end), "step": "30s"}
    plain = {"query": MANY_SEGMENTS, "start": start / 1000, "end": end / 1000, "step": 30}
    shares, firsts, wholes, segments, streams, plains = [], [], [], [], [], []
    for _ in range(plan.rounds):
        cold.restart()
        _warm(cold.ours.port)
        place.proxy.take_counts()
        found = stream(cold.ours.port, "/api/v1/metrics/query", sse, _BARE)
        if found.status != "complete":
            raise RuntimeError(f"P17: {found}")
        segments.append(len({key for method, key in place.proxy.take_counts().requests if method == "GET"}))
        shares.append(found.first / found.whole)
        firsts.append(found.first * 1000)
        wholes.append(found.whole * 1000)
        for _again in range(3):
            streams.append(stream(cold.ours.port, "/api/v1/metrics/query", sse, _BARE).whole)
            plains.append(_seconds(lambda: get(cold.ours.port, PROM_RANGE, plain, _BARE)))
    share, overhead = 100 * statistics.median(shares), statistics.median(streams) / statistics.median(plains)
    is_long = statistics.median(wholes) >= 1000 and min(segments) >= 50
    counters = {
        "first": _shown(firsts), "whole": _shown(wholes), "segments": segments, "load": _load(),
        "hot": f"streamed {_shown([1000 * s for s in streams])}, plain {_shown([1000 * s for s in plains])}",
    }  # fmt: skip
    reason = "" if is_long else "the whole answer took less than a second, or read fewer than 50 segments"
    return [
        Record("P17", "first datapoint, share of the whole answer, cold", share, "%", 30, 5,
               share <= 30 if is_long else None, reason=reason, counters=counters),
        Record("P17-overhead", "streamed / plain endpoint, again", overhead, "times", 1.15, 1.03,
               overhead <= 1.15),
    ]  # fmt: skip


_KEY, _BARE = {"Api-Key": KEY}, {"Api-Key": BARE}


@contextmanager
def _ours(place: Site, lake: Path, dsn: str) -> Iterator[Cold]:
    ours = Ours(place.folder / f"ours-{lake.name}", lake, dsn, store=place.publish(lake))
    try:
        ours.start()
        yield Cold(ours)
    finally:
        ours.stop()


def _warm(port: int) -> None:
    get(port, "/prometheus/api/v1/query", {"query": "vector(1)", "time": 0}, _BARE)


def _ask_cold(one: Asked, cold: Cold, place: Site, ask: Callable[[], bytes]) -> bytes:
    cold.restart()
    headers = _BARE if cold.ours.lake.name == "metrics" else _KEY
    get(cold.ours.port, "/prometheus/api/v1/query", {"query": "vector(1)", "time": 0}, headers)
    return _ask_twice(one, place, ask)


def _ask_twice(one: Asked, place: Site, ask: Callable[[], bytes]) -> bytes:
    place.proxy.take_counts()
    began = time.perf_counter()
    body = ask()
    one.cold_ms.append((time.perf_counter() - began) * 1000)
    one.counts.append(place.proxy.take_counts())
    one.again_ms.append(1000 * _seconds(ask))
    if b"partial:" in body[:2000] or b'"status":"success"' not in body[:60]:
        raise RuntimeError(f"{one.name}: {body[:300]!r}")
    return body


def _from_questions(asked: Sequence[Asked]) -> list[Record]:
    """P27 for each question, P19 for all of them."""
    records = []
    for one in asked[1:] if asked and asked[0].name.startswith("5 minutes") else asked:
        mine = statistics.median(one.cold_ms)
        name = f"P27-{IDS[one.name]}"
        counters = {one.name: one.line(), "load": _load()}
        records.append(
            Record(f"{name}-ms", f"{one.name}, cold", mine, "ms", 300, 150, mine <= 300, counters=counters)
        )
        if one.peer_ms:
            theirs = statistics.median(one.peer_ms)
            ratio = theirs / mine
            records.append(
                Record(
                    name, f"{one.name}, against loki", ratio, "times", 2, 5, ratio >= 2, "loki", theirs, ratio
                )
            )
        else:
            reason = NO_METRICS_PEER if "series" in one.name else "no loki to compare with"
            records.append(Record(name, f"{one.name}, against a peer", None, "times", 2, 5, reason=reason))
    each = {
        one.name: round(statistics.median(_requests_per_segment(counts) for counts in one.counts), 2)
        for one in asked
    }
    if each:
        worst = max(each.values())
        records.append(
            Record("P19", "GETs per segment that is read, worst question", worst, "requests", 2, 1.2,
                   worst <= 2, counters=each)
        )  # fmt: skip
    return records


def _requests_per_segment(counts: Counts) -> float:
    keys = {key for method, key in counts.requests if method == "GET"}
    return counts.gets() / max(1, len(keys))


def _cost(counts: Sequence[Counts]) -> str:
    last = counts[-1]
    keys = {key for method, key in last.requests if method == "GET"}
    heads = sum(n for (method, _), n in last.requests.items() if method == "HEAD")
    return f"{last.gets()} GETs of {len(keys)} objects, {heads} HEADs, {last.bytes_read() / 1e6:.2f} MB"


def _seconds(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _shown(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.0f} ms (best {min(times):.0f})"


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the processes too
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller segments, fewer rounds")
    parser.add_argument("--only", default=",".join(TARGETS), help="comma-separated targets")
    parser.add_argument("--rounds", type=int, default=0, help="cold ones, instead of 2 or 5")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peers", type=Path, default=DEFAULT_FOLDER, help="folder of versitygw and loki")
    options = parser.parse_args()
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    if unknown := only - set(TARGETS):
        parser.error(f"no target {sorted(unknown)}; there are {', '.join(TARGETS)}")
    print(
        f"load {_load()} on {os.cpu_count()} cores; {DELAY_MS} ms, {MEGABYTES} MB/s per connection",
        flush=True,
    )
    plan = QUICK if options.quick else FULL
    plan = replace(plan, rounds=options.rounds or plan.rounds)
    tell("object_store", measure(plan, options.peers, only), options.json)


if __name__ == "__main__":
    main()
