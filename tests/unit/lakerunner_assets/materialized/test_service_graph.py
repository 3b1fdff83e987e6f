"""Edges of random traces equal those that plain Python finds, however they arrive."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from lakerunner_assets.materialized import preset, spans
from lakerunner_assets.materialized.run import DeriveReport
from resources.index.types import SegmentQuery
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.support.cooking_lake import HOUR, Lake, lake_in
from tests.support.materialized.lake import arrive, cook, derive, derived_segments, due, rows, totals
from tests.support.materialized.spans import Call, distinct, plain_edges, traces

EDGE = ("client", "server", "connection_type")
REQUESTS, FAILED, UNPAIRED = (
    f"traces_service_graph_{name}_total" for name in ("request", "request_failed", "unpaired_spans")
)
HOURS = (HOUR - HOUR_NS, HOUR, HOUR + HOUR_NS)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def graph(lake: Lake) -> tuple[Counter[tuple[str, ...]], ...]:
    return tuple(totals(lake, metric, *EDGE) for metric in (REQUESTS, FAILED, UNPAIRED))


def expected(calls: list[Call]) -> tuple[Counter[tuple[str, str, str]], ...]:
    found = [plain_edges(calls, hour) for hour in HOURS]
    return tuple(sum((one[place] for one in found), Counter()) for place in range(3))


@pytest.mark.parametrize("seed", range(6))
def test_edges_of_random_traces_are_those_of_plain_python(
    lake: Lake, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    calls = traces(rng, 120, HOUR)
    if seed % 2:  # several slices give the same cells as one
        monkeypatch.setattr(preset, "read_slices", lambda hour, texts: spans.read_slices(hour, texts, 100))
    for number in range(4):  # halves of a trace lie in several segments
        arrive(lake, f"o{number}", calls[number::4])
    lake.cook(Signal.TRACES)
    derive(lake, *HOURS)
    assert graph(lake) == expected(calls)
    assert all(sum(each.values()) > 3 for each in graph(lake))
    own = distinct(calls)
    calls_total = totals(
        lake, "traces_spanmetrics_calls_total", "service", "span_name", "span_kind", "status_code"
    )
    assert calls_total == Counter(
        (
            c.service, c.name, f"SPAN_KIND_{c.kind.upper()}",
            "STATUS_CODE_ERROR" if c.is_error else "STATUS_CODE_UNSET",
        )
        for c in own
    )  # fmt: skip


def test_late_halves_join_when_their_hour_is_derived_again(lake: Lake) -> None:
    calls = traces(random.Random(7), 80, HOUR)
    first, late = calls[::2], calls[1::2]
    cook(lake, "first", first)
    assert due(lake) == list(HOURS)
    derive(lake, *HOURS)
    assert graph(lake) == expected(first)
    assert due(lake) == []
    assert derive(lake, *HOURS) == []
    cook(lake, "late", late)
    derive(lake, *due(lake))
    assert graph(lake) == expected(calls)
    assert len(derived_segments(lake)) == len(HOURS)


def test_a_request_over_the_boundary_is_one_edge(lake: Lake) -> None:
    end = HOUR + HOUR_NS
    client = Call(b"t" * 16, b"c" * 8, b"", "client", "shop", end - SECOND_NS)
    server = Call(b"t" * 16, b"s" * 8, b"c" * 8, "server", "cart", end + SECOND_NS)
    cook(lake, "client", [client])
    assert due(lake) == [HOUR, end]
    derive(lake, HOUR, end)
    assert graph(lake)[2] == {("shop", "", ""): 1}
    cook(lake, "server", [server])
    assert due(lake) == [HOUR, end]
    derive(lake, HOUR, end)
    assert graph(lake) == ({("shop", "cart", ""): 1}, {}, {})


def test_spans_inside_an_hour_leave_its_neighbours_alone(lake: Lake) -> None:
    cook(lake, "a", [Call(b"t" * 16, b"c" * 8, b"", "server", "shop", HOUR + 1800 * SECOND_NS)])
    assert due(lake) == [HOUR]


def test_durations_are_histograms_with_the_worst_trace_as_exemplar(lake: Lake) -> None:
    at = HOUR + 9 * SECOND_NS
    cook(
        lake,
        "a",
        [
            Call(bytes([n]) * 16, bytes([n]) * 8, b"", "server", "shop", at + n, duration_ns=took)
            for n, took in ((1, 2_000_000), (2, 2_000_001), (3, 60 * SECOND_NS))
        ],
    )
    derive(lake)
    (row,) = [r for r in rows(lake) if r["metric_name"] == "traces_spanmetrics_latency"]
    assert row["chq_hist_counts"] == [1, 1, *[0] * 12, 1]
    assert row["chq_hist_count"] == 3
    assert row["chq_hist_sum"] == pytest.approx(60.004_000_001, rel=1e-15)
    assert row["chq_timestamp"] * 1_000_000 == HOUR + 10 * SECOND_NS
    (exemplar,) = row["chq_exemplars"]
    assert (exemplar["trace_id"], exemplar["span_id"], exemplar["value"]) == (b"\3" * 16, b"\3" * 8, 60.0)
    assert row["metric_temporality"] == "delta"


def test_spans_without_ids_are_counted_and_make_no_edges_with_each_other(lake: Lake) -> None:
    nameless = [
        Call(b"", b"", b"", kind, "shop", HOUR + 100 + n) for n, kind in enumerate(("client", "server") * 3)
    ]
    cook(lake, "a", nameless)
    derive(lake)
    assert totals(lake, "traces_spanmetrics_calls_total") == {(): 6}
    assert graph(lake)[0] == {("user", "shop", "virtual_node"): 3}
    assert graph(lake)[2] == {("shop", "", ""): 3}


def test_an_organisation_switches_it_off_and_on(lake: Lake) -> None:
    lake.index.put_org_setting("acme", "span_metrics", False)
    cook(lake, "a", traces(random.Random(1), 5, HOUR + HOUR_NS // 2))
    report = DeriveReport()
    assert derive(lake, HOUR, report=report) == []
    assert report.off == ["acme"]
    assert HOUR not in due(lake)
    lake.index.put_org_setting("acme", "span_metrics", None)
    assert [d.hour.hour_ns for d in derive(lake, HOUR)] == [HOUR]


def test_what_an_hour_had_is_retired_when_its_spans_are_gone(lake: Lake) -> None:
    cook(lake, "a", [Call(b"t" * 16, b"c" * 8, b"", "server", "shop", HOUR + 1800 * SECOND_NS)])
    derive(lake)
    assert len(derived_segments(lake)) == 1
    before = lake.index.partitions("acme", Signal.METRICS, 0)
    assert [p.version for p in before] == [1]
    assert derive(lake, force=True)[0].records == 1
    assert len(derived_segments(lake)) == 1
    retired = lake.index.find_segments(SegmentQuery("acme", "metrics", 0, 0, 2**62))
    assert [s.origin for s in retired] == [preset.ORIGIN]


def test_rare_span_names_are_counted_together(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preset, "MAX_NAMES", 2)
    names = ["often"] * 5 + ["more"] * 3 + ["once", "twice"]
    calls = [
        Call(b"t" * 16, bytes([n + 1]) * 8, b"", "server", "shop", HOUR + 100 + n, name=name)
        for n, name in enumerate(names)
    ]
    cook(lake, "a", calls)
    derive(lake)
    assert totals(lake, "traces_spanmetrics_calls_total", "span_name") == {
        ("often",): 5, ("more",): 3, ("__overflow__",): 2,
    }  # fmt: skip
