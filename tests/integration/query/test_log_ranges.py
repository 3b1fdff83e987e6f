"""Log queries over an object store read the ranges they need, and no others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.logql.corpus import START_NS, parts
from benchmarks.logql.lake import ORG, table_of
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.protocol.units import LogMetricUnit, LogUnit, SegmentRef, UnitReport
from lakerunner_query.worker.logs import (
    late_materialisation,
    line_counts,
    row_fetch,
    row_lookup,
    samples,
)
from lakerunner_query.worker.logs.footer import read_footer
from lakerunner_query.worker.logs.lines import LineScanner
from lakerunner_query.worker.logs.samples import LogSampleScanner
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.shared.block_cache import BLOCK, BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from lakerunner_query.worker.shared.segment_file import LocalFile, SegmentsInPlace
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.lake.timecut import hour_start
from resources.objects.errors import UnavailableError

pytestmark = pytest.mark.integration
MINUTE = 60 * 10**9
ROWS, SEGMENTS = 120_000, 3
"""Rows of an hour in each segment: twelve row groups."""
SERVICE = '{service_name="service-040"}'
REQUEST_SPARE = 2 * BLOCK
"""Bytes that a request may have beside its range: whole blocks are fetched."""


class Ranges:
    """An object store on disk that notes what is asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, int, int]] = []
        self.broken: set[str] = set()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.asked.append((key, start, start + length))
        if key in self.broken:
            raise UnavailableError("the store is away", key)
        with (self.folder / key).open("rb") as file:
            file.seek(start)
            return file.read(length)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[SegmentRef, ...]]:
    folder = tmp_path_factory.mktemp("ranges")
    found = []
    for number, part in enumerate(parts(ROWS * SEGMENTS, SEGMENTS)):
        times = START_NS + 1 + np.arange(ROWS, dtype=np.int64) * (60 * MINUTE // ROWS)
        table = table_of(dataclasses.replace(part, tsns=times), number)
        key = f"segment-{number}"
        identity = SegmentIdentity(ORG, "c", "logs", hour_start(START_NS + 1), f"{number:032x}")
        made = write_log_segment([table], folder / key, identity)
        found.append(
            SegmentRef(
                identity.segment_id, key, made.bytes, made.min_ns, made.max_ns, made.series_offset,
                made.series_length, made.rows, made.bloom_offset, made.bloom_length,
            )
        )  # fmt: skip
    return folder, tuple(found)


@dataclasses.dataclass
class Worker:
    store: Ranges
    segments: tuple[SegmentRef, ...]
    lines: LineScanner
    samples: LogSampleScanner

    def ask(self, text: str, *, minutes: int = 60, limit: int = 100) -> tuple[list[str], UnitReport]:
        end = START_NS + minutes * MINUTE
        unit = LogUnit("", self.segments, text, START_NS, end, limit, reverse=True, distinct=False)
        table, report = self.lines.run(unit, Cancellation())
        return table["line"].to_pylist(), report

    def count(self, text: str) -> tuple[list[str], UnitReport]:
        unit = LogMetricUnit("", text, START_NS + 60 * MINUTE, 0, 1, self.segments, 0)
        answer = self.samples.run(unit, Cancellation())
        return sorted(f"{dict(one.labels)} {one.floats!r}" for one in answer.series), answer.report


@pytest.fixture
def worker(lake: tuple[Path, tuple[SegmentRef, ...]], tmp_path: Path) -> Iterator[Worker]:
    folder, segments = lake
    store = Ranges(folder)
    blocks = BlockCache(tmp_path / "blocks", 1 << 30, store)
    limits = DuckLimits(256, 2, tmp_path / "spill", (), LakeFileSystem(blocks.handle))
    session = DuckSession(limits)
    opener = SegmentOpener(blocks)
    yield Worker(store, segments, LineScanner(opener, session), LogSampleScanner(opener, session))
    session.close()


def test_the_last_lines_open_the_newest_segments_only(worker: Worker) -> None:
    """Of nine hours the newest four are opened: a hundred lines are found there."""
    newest, hour = worker.segments[0], 60 * MINUTE
    worker.segments = tuple(
        msgspec.structs.replace(
            newest, segment_id=f"{n:032x}", min_ns=newest.min_ns - n * hour, max_ns=newest.max_ns - n * hour
        )
        for n in range(9)
    )
    lines, report = worker.ask('{service_name=~".+"}', minutes=60)
    assert (len(lines), report.segments_opened) == (100, 4)


def chunk_bytes(worker: Worker, columns: set[str] | None, minutes: int) -> int:
    """Bytes of these columns, or all, in the row groups of the first minutes."""
    size = 0
    for segment in worker.segments:
        with LocalFile(segment, worker.store.folder / segment.key) as file:
            footer = read_footer(file)
        groups = footer.groups.min_ns < START_NS + minutes * MINUTE
        chosen = footer.columns if columns is None else columns
        size += sum(end - start for start, end in footer.chunk_ranges(chosen, groups))
    return size


def test_five_minutes_cost_a_request_for_the_tail_and_few_for_the_rows(worker: Worker) -> None:
    lines, report = worker.ask(f'{SERVICE} |= "GET"', minutes=5, limit=5000)
    assert len(lines) > 50
    assert not report.missing
    tails = sum(segment.bytes - segment.series_offset for segment in worker.segments)
    needed = chunk_bytes(worker, None, 5)
    assert report.bytes_fetched <= 1.1 * needed + tails + REQUEST_SPARE * report.requests
    assert report.bytes_fetched < sum(segment.bytes for segment in worker.segments) / 3
    assert report.requests == len(worker.store.asked) <= 4 * SEGMENTS


def test_row_groups_without_the_stream_are_not_read(tmp_path: Path) -> None:
    (part,) = parts(60_000, 1)
    times = START_NS + 1 + np.arange(60_000, dtype=np.int64) * (60 * MINUTE // 60_000)
    slots = np.arange(60_000) // 5_000
    service = np.where(slots == 3, 7, part.service % 6).astype(np.int32)
    table = table_of(dataclasses.replace(part, tsns=times, service=service), 1)
    identity = SegmentIdentity(ORG, "c", "logs", hour_start(START_NS + 1), "1" * 32)
    made = write_log_segment([table], tmp_path / "one", identity)
    segment = SegmentRef(
        "one", "one", made.bytes, made.min_ns, made.max_ns, made.series_offset, made.series_length,
        made.rows, made.bloom_offset, made.bloom_length,
    )  # fmt: skip
    store = Ranges(tmp_path)
    blocks = BlockCache(tmp_path / "blocks", 1 << 30, store)
    session = DuckSession(DuckLimits(256, 2, tmp_path / "spill", (), LakeFileSystem(blocks.handle)))
    opener = SegmentOpener(blocks)
    asking = Worker(store, (segment,), LineScanner(opener, session), LogSampleScanner(opener, session))
    lines, report = asking.ask('{service_name="service-007"} | detected_level!="none"', limit=5001)
    assert len(lines) == 5_000
    assert (report.row_groups, report.row_groups_read) == (12, 1)
    with LocalFile(segment, tmp_path / "one") as file:
        groups = read_footer(file)
    others = np.arange(12) != 3
    columns = {"chq_tsns", "chq_stream_id", "log_message", "detected_level"}
    untouched = list(groups.chunk_ranges(columns, others))
    asked = [(start, end) for _, start, end in store.asked if end < segment.bytes]
    hit = [one for one in untouched if any(a <= one[0] and one[1] <= b for a, b in asked)]
    assert len(hit) <= 4  # what lies in the same blocks as its neighbours
    session.close()


def test_columns_that_nobody_needs_are_not_read(worker: Worker) -> None:
    _, report = worker.count(f'sum(count_over_time({SERVICE} |= "GET"[5m] offset 55m))')
    needed = chunk_bytes(worker, {"chq_tsns", "chq_stream_id", "log_message"}, 5)
    assert needed < report.bytes_fetched < chunk_bytes(worker, None, 60) / 4


def test_segments_without_the_stream_cost_their_tail_only(worker: Worker) -> None:
    lines, report = worker.ask('{service_name="nobody"}')
    assert (lines, report.segments_skipped, report.requests) == ([], SEGMENTS, SEGMENTS)
    assert report.bytes_fetched <= SEGMENTS * REQUEST_SPARE


def test_bloom_stream_table_and_footer_are_one_request(worker: Worker) -> None:
    lines, report = worker.ask(f'{SERVICE} |= " absentword "')
    assert (lines, report.segments_without_words, report.requests) == ([], SEGMENTS, SEGMENTS)
    for key, start, end in worker.store.asked:
        segment = next(one for one in worker.segments if one.key == key)
        assert start <= segment.bloom_offset
        assert end == segment.bytes


def test_an_id_costs_its_row_group_only(worker: Worker) -> None:
    segment = worker.segments[1]
    path = worker.store.folder / segment.key
    wanted = pq.read_table(path, columns=["trace_id"])["trace_id"][777].as_py()
    lines, report = worker.ask(f'{{service_name=~".+"}} | trace_id="{wanted.hex()}"')
    assert (len(lines), report.segments_opened) == (1, 1)
    with LocalFile(segment, path) as file:
        footer = read_footer(file)
    ids = list(footer.chunk_ranges(["trace_id"], np.ones(len(footer.groups.min_ns), np.bool_)))
    asked = [(start, end) for key, start, end in worker.store.asked if key == segment.key]
    touched = [any(start < behind and first < end for start, end in asked) for first, behind in ids]
    assert len(ids) >= 12
    assert sum(touched) <= 3  # its own, and what lies in the same blocks


def test_what_is_known_is_not_asked_again(worker: Worker) -> None:
    first = worker.ask(SERVICE)
    asked = len(worker.store.asked)
    second = worker.ask(SERVICE)
    assert second[0] == first[0]
    assert (second[1].requests, len(worker.store.asked)) == (0, asked)


@pytest.mark.parametrize(
    "text",
    [
        SERVICE,
        f'{SERVICE} | attr_none="" |= "GET"',
        f'{SERVICE} | detected_level="error" | host=~"host-1.*"',
    ],
)
def test_reads_that_were_not_foreseen_give_the_same_rows(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    for module in (late_materialisation, line_counts, row_fetch, samples, row_lookup):
        monkeypatch.setattr(module, "fetch", lambda _: None)
    counts = f"sum by (detected_level) (count_over_time({text}[1h]))"
    found, counted = worker.ask(text)[0], worker.count(counts)[0]
    folder = worker.store.folder
    session = DuckSession(DuckLimits(256, 2, tmp_path / "local", (folder,)))
    opener = SegmentOpener(SegmentsInPlace(folder))
    local = Worker(
        worker.store, worker.segments, LineScanner(opener, session), LogSampleScanner(opener, session)
    )
    assert len(found) > 5
    assert (local.ask(text)[0], local.count(counts)[0]) == (found, counted)
    session.close()


def test_a_store_that_fails_while_rows_are_read_makes_its_segment_missing(
    lake: tuple[Path, tuple[SegmentRef, ...]], tmp_path: Path
) -> None:
    folder, segments = lake
    store = Ranges(folder)
    blocks = BlockCache(tmp_path / "blocks", 1 << 30, store)
    session = DuckSession(DuckLimits(256, 2, tmp_path / "spill", (), LakeFileSystem(blocks.handle)))
    opener = SegmentOpener(blocks)
    worker = Worker(store, segments, LineScanner(opener, session), LogSampleScanner(opener, session))
    worker.ask('{service_name="nobody"}')  # footers are known from here on
    lost = segments[1]
    store.broken = {lost.key}
    lines, report = worker.ask(SERVICE, limit=5000)
    assert [one.segment_id for one in report.missing] == [lost.segment_id]
    _, counted = worker.count(f"sum(count_over_time({SERVICE}[1h]))")
    assert [one.segment_id for one in counted.missing] == [lost.segment_id]
    store.broken = set()
    again, report = worker.ask(SERVICE, limit=5000)
    assert not report.missing
    assert len(lines) < len(again)
    session.close()
