"""Units name the segments of each selector, and workers read for a selector no others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.coordinator.languages import (
    EXEMPLARS,
    LOG_SAMPLES,
    PROMQL,
    SERIES,
    STREAM_SIZES,
)
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.names import SeriesRequest, StreamsRequest
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.errors import WorkFailedError
from lakerunner_query.protocol.units import (
    LogMetricUnit,
    SegmentRef,
    SeriesSelector,
    select_places,
    selected_segments,
    share_segments,
)
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.worker.metrics.segment_opener import UnitReader
from lakerunner_query.worker.units import AnswerCache
from resources.index.types import Segment
from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS
from tests.support.query.in_process import InProcess, engine_over
from tests.support.query.lake import BASE, Lake, Line
from tests.support.query.metric_lake import BASE_MS, labels, write_samples

END_NS, END_MS = BASE + 600 * SECOND_NS, BASE_MS + 600_000


def segment(number: int) -> Segment:
    return Segment(
        segment_id=f"{number:032x}", key=f"db/acme/default/2026010100/logs/{number:032x}.parquet", org="acme",
        collector="default", signal=Signal.LOGS, dataset="logs", frequency_ms=0, hour_ns=BASE,
        width_ns=3600 * SECOND_NS, min_ns=BASE + number, max_ns=BASE + number + 9, rows=1000, bytes=10_000,
        level=0, origin="", format_version=1, sort_version=1, terms=(), label_names=(), metric_names=(),
        series_offset=4, series_length=100, bloom_offset=104, bloom_length=20,
    )  # fmt: skip


def names(found: Sequence[SegmentRef | Segment]) -> list[int]:
    return [int(one.segment_id, 16) for one in found]


@given(st.lists(st.sets(st.integers(0, 40)), max_size=6))
def test_each_selector_gets_back_its_own_segments(chosen: list[set[int]]) -> None:
    lists = [[segment(number) for number in sorted(each)] for each in chosen]
    refs, selected = share_segments(lists)
    assert names(refs) == sorted({number for each in chosen for number in each})
    received = msgspec.json.decode(
        msgspec.json.encode((refs, selected)), type=tuple[tuple[SegmentRef, ...], tuple[bytes, ...]]
    )
    assert [names(one) for one in selected_segments(*received, len(lists))] == [
        sorted(each) for each in chosen
    ]


def test_selectors_with_the_same_segments_share_them_without_a_word() -> None:
    one, two = segment(1), segment(2)
    assert share_segments([[one, two], [one, two]])[1] == ()
    assert select_places([one.segment_id], [[one, two], [one]]) == ()
    assert select_places([one.segment_id, two.segment_id], [[one], [two], []]) == (b"\1", b"\2", b"\0")


def test_units_do_not_grow_with_selectors_and_segments() -> None:
    """A unit of 50 selectors over 5,000 segments is hardly longer than one of a single selector."""
    every = [segment(number) for number in range(5000)]
    refs, selected = share_segments([every[number % 7 :] for number in range(50)])
    alone = len(msgspec.json.encode(refs))
    assert len(msgspec.json.encode((refs, selected))) - alone < alone / 20


def test_a_unit_of_another_version_is_refused() -> None:
    with pytest.raises(WorkFailedError, match="segments of 2 selectors, its text has 3"):
        selected_segments((), (b"", b""), 3)


def test_units_differ_by_their_lists_for_the_cache_of_answers() -> None:
    refs, selected = share_segments([[segment(1)], [segment(2)]])
    unit = LogMetricUnit("", "text", 0, 0, 1, refs, 0, selected=selected)
    cache = AnswerCache(1 << 20)
    cache.put(unit, b"answer")
    assert cache.get(msgspec.structs.replace(unit, turn=3, affinity="x")) == b"answer"
    assert cache.get(msgspec.structs.replace(unit, selected=())) is None


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Segments whose series tables are read, by read."""
    found: list[list[int]] = []
    tables = UnitReader.tables

    def noted(reader: UnitReader, segments: Sequence[SegmentRef]) -> Any:
        found.append(names(segments))
        return tables(reader, segments)

    monkeypatch.setattr(UnitReader, "tables", noted)
    return found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A segment of the service web, one of db, one of metric a, one of metric b."""
    lake = Lake(tmp_path / "lake")
    for service in ("web", "db"):
        lake.write("acme", [Line((n + 1) * SECOND_NS, f"{n}", service) for n in range(10)])
    for name in ("a", "b"):
        write_samples(lake, "acme", {labels(name): [(n * 1000, 1.0) for n in range(1, 40)]})
    return lake


def test_every_question_reads_for_a_selector_its_own_segments(
    lake: Lake, tmp_path: Path, opened: list[list[int]]
) -> None:
    dispatcher = InProcess(lake.folder, tmp_path / "worker")
    engine = engine_over(lake.index, dispatcher)
    services = tuple((Matcher("service_name", MatchOp.EQUAL, one),) for one in ("web", "db"))
    metrics = tuple(
        SeriesSelector((Matcher("__name__", MatchOp.EQUAL, one),), BASE_MS, END_MS) for one in "ab"
    )
    text = 'sum(count_over_time({service_name="web"}[10m])) + sum(count_over_time({service_name="db"}[10m]))'

    async def ask() -> list[Any]:
        logs = await engine.prepare(LOG_SAMPLES, text, LogSamplesRequest("acme", END_NS, END_NS))
        samples = await engine.prepare(
            PROMQL, "sum(a) + sum(b)", PromQLRequest("acme", BASE_MS, BASE_MS + 30_000)
        )
        return [
            [one.floats for one in (await engine.collect(logs)).series],
            [one.floats for one in (await engine.collect(samples)).series],
            len((await engine.ask(SERIES, SeriesRequest("acme", BASE_MS, END_MS, metrics))).series),
            (await engine.ask(STREAM_SIZES, StreamsRequest("acme", BASE, END_NS, services))).rows,
            (await engine.ask(EXEMPLARS, SeriesRequest("acme", BASE_MS, END_MS, metrics))).exemplars,
        ]

    counts, sums, series, rows, exemplars = asyncio.run(ask())
    assert counts[0].endswith(b'"20"]')
    assert sums[0].endswith(b'"2"]')
    assert (series, rows, exemplars) == (2, 20, [])
    assert [unit.selected for unit in dispatcher.units] == [(b"\1", b"\2")] * 5
    assert opened[:4] == [[3], [4], [3], [4]], "PromQL, then series"
    lists = selected_segments(dispatcher.units[0].segments, dispatcher.units[0].selected, 2)
    assert [names(one) for one in lists] == [[1], [2]]
