"""A unit of work against brute force: any split, any limit, odd files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar.testing import TestClient

from lakerunner_query.coordinator import logql_lines
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.plan.logql import LogLinesRequest, TakeRows, build
from lakerunner_query.plan.optimise import optimise
from lakerunner_query.plan.slices import RowSliceSizes
from lakerunner_query.protocol.frames import TOKEN_HEADER
from lakerunner_query.protocol.tables import decode_answer
from lakerunner_query.protocol.units import LogUnit
from lakerunner_query.worker.logs.lines import LineScanner
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.logs.sql import files_by_schema
from lakerunner_query.worker.logs.stream_filter import StreamFilter
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from lakerunner_query.worker_app import create_worker_app
from resources.duckdb import Cancellation, CancelledQueryError, DuckLimits, DuckSession
from resources.index.types import Segment
from tests.support.query.homes import open_lake
from tests.support.query.lake import BASE, TOKEN, Lake, Line, worker_settings

pytestmark = pytest.mark.integration
LIMIT = 10_000
QUERIES = (
    '{service_name=~".+"}',
    '{service_name="api"} |= "row 3"',
    '{service_name=~"api|db", a=""} |~ "[02468] of"',
    '{service_name=~".+"} | pattern "row <n> of <_>" | n=~"[1-5]"',
    '{service_name=~".+"} | detected_level="info" | label_format n="{{.service_name}}" | n!="web"',
)


@pytest.fixture(scope="module")
def scanner(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineScanner]:
    home = tmp_path_factory.mktemp("scanner")
    store = open_lake(lake.folder)
    blocks = BlockCache(home / "cache", 1 << 30, store)
    session = DuckSession(DuckLimits(256, 2, home / "spill", (), LakeFileSystem(blocks.handle)))
    yield LineScanner(SegmentOpener(blocks), session)
    session.close()


@pytest.fixture(scope="module")
def segments(lake: Lake) -> list[Segment]:
    """Four segments that overlap; many rows share an instant."""
    made = []
    for number in range(4):
        lines = [
            Line(1 + (i * 7 + number) % 90, f"row {i % 11} of {number}", ("web", "api", "db")[i % 3])
            for i in range(150)
        ]
        made.append(lake.write("scan", lines))
    return made


def plan(
    text: str,
    *,
    limit: int = LIMIT,
    reverse: bool = False,
    start: int = 0,
    end: int = 1000,
    distinct: bool = False,
) -> tuple[str, TakeRows]:
    asked = LogLinesRequest("scan", BASE + start, BASE + end, limit, reverse, distinct)
    found = optimise(build(parse(text), asked)).plan
    assert isinstance(found, TakeRows)
    return text, found


def log_units(
    planned: tuple[str, TakeRows], segments: list[Segment], sizes: RowSliceSizes | None = None
) -> Iterator[LogUnit]:
    text, wanted = planned
    return logql_lines.log_units(wanted, segments, sizes, text=text)


def run(scanner: LineScanner, units: Iterator[LogUnit]) -> list[tuple[int, str, str, int, int]]:
    rows = []
    for unit in units:
        table, report = scanner.run(unit, Cancellation())
        assert not report.missing
        names = ("tsns", "labels", "line", "object", "position")
        rows += list(zip(*(table[name].to_pylist() for name in names), strict=True))
    return rows


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 200),
    st.sampled_from([0.05, 1.0]),
    st.booleans(),
    st.sampled_from(QUERIES),
    st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted).filter(lambda pair: pair[0] < pair[1]),
)
def test_the_union_of_any_slices_is_the_single_slice(
    scanner: LineScanner,
    segments: list[Segment],
    rows: int,
    first: float,
    reverse: bool,
    text: str,
    bound: list[int],
) -> None:
    wanted = plan(text, reverse=reverse, start=bound[0], end=bound[1])
    cut = run(scanner, log_units(wanted, segments, RowSliceSizes(rows, 1 << 40, 1 << 40, first)))
    whole = run(scanner, log_units(wanted, segments, RowSliceSizes(1 << 40, 1 << 60, 1 << 40, 1.0)))
    assert cut == whole
    assert cut == sorted(whole, key=lambda r: (r[0], r[1], r[3], r[4]), reverse=reverse)


def test_first_and_last_rows_of_every_limit_agree_with_the_whole(
    scanner: LineScanner, segments: list[Segment]
) -> None:
    text = '{service_name=~"web|db"}'
    single = RowSliceSizes(1 << 40, 1 << 60, 1 << 40, 1.0)
    whole = run(scanner, log_units(plan(text), segments, single))
    assert len(whole) == 400
    for limit in (1, 7, 399, 400, 500):
        assert run(scanner, log_units(plan(text, limit=limit), segments, single)) == whole[:limit]
        last = run(scanner, log_units(plan(text, limit=limit, reverse=True), segments, single))
        assert last == whole[::-1][:limit]


@pytest.mark.parametrize("value", ["gold", "tin", "only", "nothing"])
def test_rows_with_a_label_are_found_without_sql(
    lake: Lake, scanner: LineScanner, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    def refuse(_: DuckSession) -> None:
        raise AssertionError("a statement")

    monkeypatch.setattr(DuckSession, "cursor", refuse)
    tiers = [("gold", "tin", "tin")[row % 3] for row in range(120)]
    made = [
        lake.write("scan", [Line(1 + row, f"row {row}", "web", attributes={"tier": t}) for row, t in rows])
        for rows in (list(enumerate(tiers))[0::2], list(enumerate(tiers))[1::2])
    ]
    made.append(
        lake.write(
            "scan", [Line(row, f"row {row}", "web", attributes={"tier": "only"}) for row in (121, 122)]
        )
    )
    expected = [f"row {row}" for row, tier in enumerate(tiers) if tier == value]
    expected += ["row 121", "row 122"] if value == "only" else []
    for limit in (1, 30, 500):
        for reverse in (False, True):
            wanted = plan(f'{{service_name="web"}} | tier="{value}"', limit=limit, reverse=reverse)
            found = [line for _, _, line, _, _ in run(scanner, log_units(wanted, made))]
            assert found[:limit] == (expected[::-1] if reverse else expected)[:limit]


def test_a_column_of_two_types_keeps_both_spellings(lake: Lake, scanner: LineScanner) -> None:
    made = [
        lake.write("types", [Line(1, "a", attributes={"v": True})]),
        lake.write("types", [Line(2, "b", attributes={"v": 7})]),
        lake.write("types", [Line(3, "c", attributes={"v": 2.5})]),
        lake.write("types", [Line(4, "d", attributes={"v": "text"})]),
        lake.write("types", [Line(5, "e")]),
    ]
    (unit,) = log_units(plan('{service_name="web"}'), made, RowSliceSizes(first=1.0))
    table, _ = scanner.run(unit, Cancellation())
    shown = table["metadata"].to_pylist()
    assert [one.split('"v":')[1].rstrip("}") if '"v"' in one else None for one in shown] == [
        '"true"', '"7"', '"2.5"', '"text"', None
    ]  # fmt: skip


def test_names_that_collide(lake: Lake, scanner: LineScanner) -> None:
    """Log beats resource; an attribute named like a stream label gets Loki's suffix."""
    made = lake.write(
        "names",
        [Line(1, "a", attributes={"host.name": "log", "service_name": "x", "A.b": "1", "a_b": "2"},
              resource={"host.name": "resource"})],
    )  # fmt: skip
    (unit,) = log_units(plan('{service_name="web"}'), [made])
    (metadata,) = scanner.run(unit, Cancellation())[0]["metadata"].to_pylist()
    for expected in ('"host_name":"log"', '"service_name_extracted":"x"', '"A_b":"1"', '"a_b":"2"'):
        assert expected in metadata


def test_files_whose_stream_ids_collide_are_scanned_apart(lake: Lake, scanner: LineScanner) -> None:
    made = [lake.write("clash", [Line(1, "a", "web")]), lake.write("clash", [Line(2, "b", "api")])]
    (unit,) = log_units(plan('{service_name=~".+"}'), made, RowSliceSizes(first=1.0))
    everything = StreamFilter((), unit.start_ns, unit.end_ns)
    with scanner._opener.open(unit.segments, everything, Cancellation()) as files:
        from dataclasses import replace

        one, other = files.opened
        assert len(files_by_schema(files.opened)) == 1
        twin = replace(other.streams[0], stream_id=one.streams[0].stream_id)
        assert len(files_by_schema([one, replace(other, streams=(twin,))])) == 2


def test_repeats_are_dropped_before_the_limit_counts(lake: Lake, scanner: LineScanner) -> None:
    made = lake.write("repeats", [Line(1, "same")] * 40 + [Line(2, f"row {i}") for i in range(5)])
    wanted = plan('{service_name="web"}', limit=3, end=10, distinct=True)
    (unit,) = log_units(wanted, [made])
    table, report = scanner.run(unit, Cancellation())
    assert table["line"].to_pylist() == ["same", "row 0", "row 1"]
    assert report.truncated


def test_a_cancelled_unit_does_no_work(scanner: LineScanner, segments: list[Segment]) -> None:
    cancelled = Cancellation()
    cancelled.cancel()
    (unit, *_) = log_units(plan('{service_name="web"}'), segments)
    with pytest.raises(CancelledQueryError):
        scanner.run(unit, cancelled)


def asked_of_a_worker(lake: Lake, folder: Path, unit: LogUnit, memory_mb: int) -> httpx.Response:
    app = create_worker_app(worker_settings(folder, lake.folder, 1, memory_mb=memory_mb))
    with TestClient(app) as http:
        headers = {TOKEN_HEADER: TOKEN}
        return http.post("/work", content=msgspec.json.encode(unit), headers=headers)


def test_a_thousand_attributes_need_little_memory(lake: Lake, tmp_path: Path) -> None:
    """They would be a thousand columns of vectors."""
    lines = [Line(i + 1, f"wide {i}", attributes={f"k{k}": f"v{i}" for k in range(900)}) for i in range(20)]
    (unit,) = log_units(plan('{service_name="web"} | k7="v3"'), [lake.write("wide", lines)])
    answer = asked_of_a_worker(lake, tmp_path, unit, memory_mb=100)
    table, _ = decode_answer(answer.content)
    assert table["line"].to_pylist() == ["wide 3"]
    assert len(json.loads(table["metadata"][0].as_py())) > 900


def test_a_scan_beyond_the_memory_of_a_worker_says_what_to_narrow(lake: Lake, tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = [Line(i + 1, rng.randbytes(30_000).hex()) for i in range(400)]
    made = lake.write("long", lines)
    (unit, *_) = log_units(plan('{service_name="web"} |= "a"'), [made], RowSliceSizes(first=1.0))
    answer = asked_of_a_worker(lake, tmp_path, unit, memory_mb=20)
    assert (answer.status_code, answer.json()["code"]) == (422, "limit_exceeded")
    assert "narrow the time range" in answer.json()["message"]


@pytest.mark.parametrize("footer", [True, False])
def test_a_local_copy_that_rotted_is_fetched_again(lake: Lake, tmp_path: Path, footer: bool) -> None:
    made = lake.write("rot", [Line(i, f"row {i} " + "x" * 50) for i in range(500)])
    (unit, *_) = log_units(plan('{service_name="web"}'), [made])
    for _start in range(2):  # a fresh process each time, so that nothing is remembered
        store = open_lake(lake.folder)
        blocks = BlockCache(tmp_path / "cache", 1 << 30, store)
        session = DuckSession(DuckLimits(256, 1, tmp_path / "spill", (), LakeFileSystem(blocks.handle)))
        scanner = LineScanner(SegmentOpener(blocks), session)
        table, report = scanner.run(unit, Cancellation())
        assert (table.num_rows, report.missing) == (500, ())
        session.close()
        copy = tmp_path / "cache" / made.key
        content = bytearray(copy.read_bytes())
        where = slice(len(content) - 60, len(content)) if footer else slice(8, len(content) // 3)
        content[where] = b"\xff" * len(content[where])
        copy.write_bytes(content)
