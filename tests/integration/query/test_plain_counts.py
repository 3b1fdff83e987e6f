"""Lines counted from pages alone are as many as DuckDB counts, and as rows one by one give."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakerunner_query.protocol.units import LogMetricUnit, UnitReport, segment_ref
from lakerunner_query.worker.logs.line_counts import LineCounter
from lakerunner_query.worker.logs.page_counts import Cells, PageCounter
from lakerunner_query.worker.logs.samples import LakeLogSource, LogSampleScanner
from lakerunner_query.worker.logs.segment_opener import OpenSegment, SegmentOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from resources.duckdb import Cancellation, DuckLimits, DuckSession
from resources.index.types import Segment
from tests.support.query.homes import open_lake
from tests.support.query.lake import BASE, Lake, Line

pytestmark = pytest.mark.integration

S = 1_000_000_000
MINUTES = 12
Answer = dict[str, list[tuple[float, str]]]
QUERIES = (
    'sum by (service_name, detected_level) (count_over_time({service_name=~".+"}[1m]))',
    'sum by (detected_level) (count_over_time({service_name=~"a|c"}[1m]))',
    'sum by (detected_level, zone) (rate({service_name="b"}[90s]))',
    'sum by (service_name, zone, host) (rate({service_name=~".", service_name!="b"}[2m] offset 17s))',
    'sum(count_over_time({service_name=~".+"}[1h]))',
    'count_over_time({service_name="c"} | keep service_name [5m])',
    'sum by (nothing, user) (count_over_time({service_name=~".+"}[1m]))',
    'sum by (service_name, detected_level) (count_over_time({service_name=~".+"} |= "11" [1m]))',
    'sum by (host) (rate({service_name=~"a|c"} |~ "line [0-9]*7" != "33" [90s] offset 17s))',
    'sum(count_over_time({service_name=~".+"} |= "77" or "55" [1h]))',
)


class Ways:
    """Counts of files by the way they were made."""

    plain = left = 0


@pytest.fixture(scope="module")
def segments(lake: Lake) -> list[Segment]:
    """Some with one row group, one with several; hosts of one kind, users in some rows, zones in one file."""
    choose = random.Random(5)

    def line(at: int, number: int) -> Line:
        found: dict[str, object] = {"host": f"h{choose.randrange(9)}"}
        if choose.random() < 0.5:
            found["user"] = choose.choice(("ann", "bob", ""))
        if number == 1:
            found["zone"] = choose.choice(("x", "y"))
        return Line(at, f"line {at}", choose.choice("aaabbc"), choose.choice((9, 9, 9, 13, 17)), found)

    def written(number: int, rows: int) -> Segment:
        times = sorted(choose.randrange(1, MINUTES * 60 * S) for _ in range(rows))
        return lake.write("plain", [line(at, number) for at in times])

    return [written(number, rows) for number, rows in enumerate((3000, 4000, 1, 52_000))]


@pytest.fixture
def scanner(lake: Lake, tmp_path: Path) -> Iterator[LogSampleScanner]:
    store = open_lake(lake.folder)
    blocks = BlockCache(tmp_path / "cache", 1 << 30, store)
    session = DuckSession(DuckLimits(256, 2, tmp_path / "spill", (), LakeFileSystem(blocks.handle)))
    yield LogSampleScanner(SegmentOpener(blocks), session)
    session.close()


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    ways, plainly = Ways(), PageCounter.count

    def count(self: PageCounter, one: OpenSegment, *chosen: Any) -> list[Cells] | None:
        found = plainly(self, one, *chosen)
        ways.plain, ways.left = ways.plain + (found is not None), ways.left + (found is None)
        return found

    monkeypatch.setattr(PageCounter, "count", count)
    return ways


def ask(
    scanner: LogSampleScanner, query: str, segments: list[Segment], step: int = 60
) -> tuple[Answer, UnitReport]:
    refs = tuple(map(segment_ref, segments))
    steps = MINUTES * 60 // step + 2
    unit = LogMetricUnit("", query, BASE + 23 * S, step * S, steps, refs, 0)
    answer = scanner.run(unit, Cancellation())
    series = {
        json.dumps(dict(one.labels)): [(at, value) for at, value in json.loads(b"[" + one.floats + b"]")]
        for one in answer.series
    }
    return series, answer.report


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("step", [7, 60, 420])
def test_all_ways_count_the_same(
    scanner: LogSampleScanner,
    segments: list[Segment],
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    step: int,
) -> None:
    plain, _ = ask(scanner, query, segments, step)
    assert plain
    monkeypatch.setattr(PageCounter, "count", lambda *_: None)
    assert ask(scanner, query, segments, step)[0] == plain
    monkeypatch.setattr(LakeLogSource, "buckets", lambda *_, **__: None)
    assert ask(scanner, query, segments, step)[0] == plain


def test_many_counts_are_added_up_as_they_come(
    scanner: LogSampleScanner, segments: list[Segment], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = ask(scanner, QUERIES[0], segments)
    folded = LineCounter._fold
    calls: list[LineCounter] = []
    monkeypatch.setattr(LineCounter, "_fold", lambda self: [calls.append(self), folded(self)])
    monkeypatch.setattr("lakerunner_query.worker.logs.line_counts.BATCH_CELLS", 3)
    monkeypatch.setattr("lakerunner_query.worker.logs.line_counts.MOST_PARTS", 5)
    assert ask(scanner, QUERIES[0], segments)[0] == expected
    assert calls


def test_which_files_need_no_duckdb(scanner: LogSampleScanner, segments: list[Segment], ways: Ways) -> None:
    ask(scanner, QUERIES[0], segments)
    assert (ways.plain, ways.left) == (4, 0)
    ask(scanner, 'sum by (user) (count_over_time({service_name=~".+"}[1m]))', segments)  # nulls in three
    assert ways.left == 3
    ways.plain = ways.left = 0
    ask(scanner, 'sum(count_over_time({service_name=~".+"} |= "line" [1m]))', segments)
    assert (ways.plain, ways.left) == (4, 0)
    ways.plain = ways.left = 0
    ask(scanner, 'sum(count_over_time({service_name=~".+"} != "line" [1m]))', segments)
    assert (ways.plain, ways.left) == (0, 0)


def test_a_file_with_damaged_pages_is_missing_and_the_others_answer(
    lake: Lake, scanner: LogSampleScanner, segments: list[Segment], ways: Ways
) -> None:
    times = [at * S // 100 for at in range(1, 3000)]
    bad = lake.write("broken", [Line(at, "x", "a", 9 + 4 * (at % 3)) for at in times])
    path = lake.folder / bad.key
    raw = bytearray(path.read_bytes())
    raw[4 : bad.series_offset] = bytes(bad.series_offset - 4)
    path.unlink()
    path.write_bytes(raw)
    expected, _ = ask(scanner, QUERIES[0], segments)
    found, report = ask(scanner, QUERIES[0], [*segments, bad])
    assert found == expected
    assert [one.segment_id for one in report.missing] == [bad.segment_id]
    assert ways.left == 2  # it is fetched a second time
