"""PromQL counts every span once, over hours, rebuilds and rollups."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from lakerunner_assets.cooked.rebuild import rebuild
from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.languages import PROMQL
from lakerunner_query.coordinator.merge import SampleResult
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.coordinator.service_map import (
    ServiceMap,
    dependencies,
    read_service_map,
)
from lakerunner_query.vectors.vector import Labels
from resources.lake.frequency import FIVE_MINUTES, TEN_SECONDS
from resources.lake.frequency import HOUR as HOUR_MS
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.materialized.lake import cook, derive, due
from tests.support.materialized.spans import Call, distinct, plain_edges, traces
from tests.support.query.in_process import InProcess, engine_over
from tests.support.rolling_lake import arrive, every, gauge, roll_hours, rows

HOURS = (HOUR - HOUR_NS, HOUR, HOUR + HOUR_NS)
END = HOUR + 2 * HOUR_NS
CALLS = "traces_spanmetrics_calls_total"


def fresh_engine(lake: Lake) -> Engine:
    """An engine whose workers remember nothing."""
    return engine_over(lake.index, InProcess(lake.folder / "lake", Path(tempfile.mkdtemp(dir=lake.folder))))


def ask(lake: Lake, text: str, end_ns: int = END) -> dict[Labels, float]:
    """The values of an instant query."""
    engine = fresh_engine(lake)

    async def answer() -> dict[Labels, float]:
        request = PromQLRequest("acme", end_ns // 1_000_000, end_ns // 1_000_000)
        found = await engine.collect(await engine.prepare(PROMQL, text, request))
        assert not found.missing
        return {one.labels: float(json.loads(f"[{one.floats.decode()}]")[0][1]) for one in found.series}

    return asyncio.run(answer())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def load(lake: Lake, seed: int = 3) -> list[Call]:
    """Spans of three hours in two arrivals, with a rebuild between them and behind them."""
    calls = traces(random.Random(seed), 60, HOUR)
    cook(lake, "first", calls[::2])
    derive(lake, *HOURS)
    roll_hours(lake, *HOURS)
    cook(lake, "late", calls[1::2])
    derive(lake, *due(lake))
    return calls


def number(found: dict[Labels, float]) -> float:
    (value,) = found.values()
    return value


def by_label(found: dict[Labels, float], *names: str) -> Counter[tuple[str, ...]]:
    return Counter(
        {tuple(dict(labels).get(n, "") for n in names): round(v, 9) for labels, v in found.items() if v}
    )  # fmt: skip


def test_the_increase_of_calls_is_the_number_of_spans(lake: Lake) -> None:
    own = distinct(load(lake))
    assert number(ask(lake, f"sum(increase({CALLS}[3h]))")) == len(own)
    for hour in HOURS:
        expected = sum(hour < call.start_ns <= hour + HOUR_NS for call in own)
        assert number(ask(lake, f"sum(increase({CALLS}[1h]))", hour + HOUR_NS)) == expected
        rate = number(ask(lake, f"sum(rate({CALLS}[1h]))", hour + HOUR_NS))
        assert rate == pytest.approx(expected / 3600, rel=1e-12)


def test_rollups_of_derived_metrics_say_the_same(lake: Lake) -> None:
    own = distinct(load(lake))
    for hour in HOURS:
        arrive(lake, f"other{hour}", gauge(every(60, hour)), hour)
    lake.cook(Signal.METRICS)
    roll_hours(lake, *HOURS)
    assert number(ask(lake, f"sum(increase({CALLS}[3h]))")) == len(own)
    for frequency in (TEN_SECONDS, FIVE_MINUTES, HOUR_MS):
        mine = [row for row in rows(lake, frequency, HOURS[0], 3 * HOUR_NS) if row["metric_name"] == CALLS]
        assert sum(row["chq_rollup_sum"] for row in mine) == len(own)
        assert {row["metric_temporality"] for row in mine} == {"delta"}


def test_counts_of_busy_hours_are_read_from_rollups(lake: Lake) -> None:
    for hour in HOURS:
        busy = [
            Call(b"t" * 16, number.to_bytes(8, "big"), b"", "server", "shop", hour + number * 2 * 10**9)
            for number in range(1, 1800)
        ]
        cook(lake, f"busy{hour}", busy, hour)
    derive(lake, *HOURS)
    roll_hours(lake, *HOURS)
    request = PromQLRequest("acme", END // 1_000_000, END // 1_000_000)

    async def answer() -> SampleResult:
        engine = fresh_engine(lake)
        return await engine.collect(await engine.prepare(PROMQL, f"sum(increase({CALLS}[3h]))", request))

    found = asyncio.run(answer())
    assert found.rollup_rows.total() > 0
    assert json.loads(found.series[0].floats)[1] == str(3 * 1799)
    requests = read_map(lake, HOURS[0], END).edges["user", "shop", "virtual_node"].requests
    assert requests == 3 * 1799


def test_edges_and_their_histograms_agree(lake: Lake) -> None:
    calls = load(lake)
    requests = sum((plain_edges(calls, hour)[0] for hour in HOURS), Counter())
    names = ("client", "server", "connection_type")
    grouped = f"sum by ({', '.join(names)})"
    graph = "traces_service_graph_request"
    assert by_label(ask(lake, f"{grouped} (increase({graph}_total[3h]))"), *names) == requests
    for suffix in ("count", 'bucket{le="+Inf"}'):
        metric = f"{graph}_server_seconds_{suffix}"
        assert by_label(ask(lake, f"{grouped} (increase({metric}[3h]))"), *names) == requests
    seconds = ask(lake, f"{grouped} (increase({graph}_server_seconds_sum[3h]))")
    longest = ask(
        lake, f"histogram_quantile(0.99, {grouped[:-1]}, le) (rate({graph}_server_seconds_bucket[3h])))"
    )
    assert sum(seconds.values()) > 0
    assert len(longest) == len(requests)
    assert all(0 < value <= 4.1 for value in longest.values())


def test_a_rebuild_of_sent_metrics_leaves_derived_ones_alone(lake: Lake) -> None:
    own = distinct(load(lake))
    arrive(lake, "sent", gauge(every(60)), HOUR)
    lake.cook(Signal.METRICS)
    assert list(rebuild(lake.run_context(), Signal.METRICS, "acme", [HOUR], False, lake.report))
    assert number(ask(lake, f"sum(increase({CALLS}[3h]))")) == len(own)
    assert number(ask(lake, "count_over_time(level[1h])", HOUR + HOUR_NS)) == 60


def read_map(lake: Lake, start_ns: int, end_ns: int) -> ServiceMap:
    found = read_service_map(fresh_engine(lake), "acme", start_ns // 1_000_000, end_ns // 1_000_000)
    return asyncio.run(found)


def test_the_service_map_is_that_of_the_spans(lake: Lake) -> None:
    calls = load(lake)
    found = read_map(lake, HOUR, HOUR + HOUR_NS)
    requests, failed, unpaired = plain_edges(calls, HOUR)
    assert {edge: load.requests for edge, load in found.edges.items()} == requests
    assert Counter({edge: load.errors for edge, load in found.edges.items()}) == failed
    assert found.unpaired == unpaired.total()
    served = [
        c for c in distinct(calls) if c.kind in {"server", "consumer"} and HOUR < c.start_ns <= HOUR + HOUR_NS
    ]
    services = {name: load for (name, kind), load in found.nodes.items() if kind == "service"}
    assert {n: load.requests for n, load in services.items()} == Counter(c.service for c in served)
    assert {n: load.errors for n, load in services.items() if load.errors} == Counter(
        c.service for c in served if c.is_error
    )
    ends = {end for client, server, _ in requests for end in (client, server)}
    assert {name for name, _ in found.nodes} == ends | services.keys()
    kinds = dict(found.nodes.keys())
    assert (kinds["user"], kinds["stripe"], kinds["redis"]) == ("virtual_node", "virtual_node", "database")
    for load_ in found.nodes.values():
        if load_.requests:
            p50, p95, p99 = (value or 0 for value in load_.quantiles)
            assert 0 < p50 <= p95 <= p99 <= 4.1


def test_dependencies_are_the_edges_without_their_kinds(lake: Lake) -> None:
    calls = load(lake)
    requests = plain_edges(calls, HOUR)[0]
    expected: Counter[tuple[str, str]] = Counter()
    for (client, server, _), count in requests.items():
        if client != "user":
            expected[client, server] += count
    found = dependencies(read_map(lake, HOUR, HOUR + HOUR_NS))
    assert {(parent, child): count for parent, child, count in found} == expected


def test_an_interval_without_spans_has_an_empty_map(lake: Lake) -> None:
    found = read_map(lake, HOUR + 1, HOUR + 2)
    assert (found.nodes, found.edges, found.unpaired) == ({}, {}, 0)
    assert found.end_ms - found.start_ms == 10_000
