"""Whole pipelines over real segments: results checked by hand, and what was read for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakerunner_query.protocol.units import LogMetricUnit, LogUnit, UnitReport, segment_ref
from lakerunner_query.worker.logs.lines import LineScanner
from lakerunner_query.worker.logs.page_counts import PageCounter
from lakerunner_query.worker.logs.samples import LogSampleScanner
from lakerunner_query.worker.logs.scan_intervals import IntervalSizes
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from resources.duckdb import Cancellation, CancelledQueryError, DuckLimits, DuckSession
from resources.index.types import Segment
from tests.support.query.homes import open_lake
from tests.support.query.lake import BASE, Client, Lake, Line

pytestmark = pytest.mark.integration

S = 1_000_000_000
TRACE, OTHER = bytes(range(16)), bytes(range(1, 17))
LINES = (
    Line(1 * S, '{"path":"/a","ms":12,"user":"x"}', "web", trace=TRACE, attributes={"user": "ann"}),
    Line(2 * S, '{"path":"/b","ms":700,"level":"hot"}', "web", 17, {"user": "bob", "n": 5}),
    Line(3 * S, "path=/c ms=3 peer=10.0.0.7", "db", trace=OTHER),
    Line(3 * S, "path=/d ms=4 peer=10.1.0.7", "db", attributes={"user": "ann", "service_name": "inner"}),
    Line(4 * S, "broken { json", "web", 13, {"user": ""}),
    Line(5 * S, "GET /e done in 7ms", "api", resource={"k8s.pod.name": "api-1"}),
)
QUERIES = [
    ('{service_name="web"} | json', [0, 1, 4]),
    ('{service_name="web"} | json | ms > 100', [1]),
    ('{service_name="web"} | json | ms > 100 | __error__=""', [1]),
    ('{service_name="web"} | json | __error__!=""', [4]),
    ('{service_name="web"} | json | user="ann"', [0]),  # metadata wins over the line
    ('{service_name="web"} | json | user_extracted="x"', [0]),
    ('{service_name=~".+"} | user="ann"', [0, 3]),
    ('{service_name=~".+"} | user!="ann" | user!=""', [1]),
    ('{service_name=~".+"} | user=""', [2, 4, 5]),
    ('{service_name=~".+"} | user=~"a.*|b.b"', [0, 1, 3]),
    ('{service_name=~".+"} | service_name="db"', [2, 3]),
    ('{service_name=~".+"} | service_name_extracted="inner"', [3]),
    ('{service_name=~".+"} | n="5"', [1]),
    ('{service_name=~".+"} | n > 4', [1]),
    ('{service_name=~".+"} | detected_level="error"', [1]),
    ('{service_name=~".+"} | detected_level=~"warn|error"', [1, 4]),
    (f'{{service_name=~".+"}} | trace_id="{TRACE.hex()}"', [0]),
    (f'{{service_name=~".+"}} | trace_id="{TRACE.hex().upper()}"', []),
    (f'{{service_name=~".+"}} | trace_id!="{TRACE.hex()}"', [1, 2, 3, 4, 5]),
    ('{service_name=~".+"} | trace_id=""', [1, 3, 4, 5]),
    ('{service_name=~".+"} | trace_id=~"0001.*"', [0]),
    ('{service_name=~".+"} | k8s_pod_name="api-1"', [5]),
    ('{service_name="db"} | logfmt | peer=ip("10.0.0.0/24")', [2]),
    ('{service_name="db"} | logfmt | ms >= 4 or path="/c"', [2, 3]),
    ('{service_name="api"} | pattern "<_> <path> done in <took>" | took < 8ms', [5]),
    ('{service_name="api"} | regexp "in (?P<took>\\\\d+)ms" | took="7"', [5]),
    ('{service_name=~".+"} |> "path=<_> ms=<_>"', [2, 3]),
    ('{service_name=~".+"} |= ip("10.1.0.0/16")', [3]),
    ('{service_name="web"} | json | line_format "{{.path}}" |= "/b"', [1]),
    ('{service_name=~".+"} | drop user | user="ann"', []),
    ('{service_name="web"} | json | drop user | user=""', [0, 1, 4]),
    ('{service_name=~".+"} | label_format who=user | who="ann"', [0, 3]),
]


@pytest.fixture(scope="module", autouse=True)
def rows(lake: Lake, client: Client) -> None:
    """Two segments, one of which has no attribute of some names."""
    lake.write("acme", LINES[0::2])
    lake.write("acme", LINES[1::2])


def positions(client: Client, query: str, **more: object) -> list[int]:
    """Which of LINES, by time and what was stored; lines may have been formatted."""
    known = {(str(BASE + line.at), line.service, number % 2): number for number, line in enumerate(LINES)}
    found, _ = client.ask(query, **more)
    ids = {id_of(number): number for number in known.values()}
    return [ids[row["id"]] for row in found]


def id_of(number: int) -> str:
    return f"{number % 2 + 1}:{number // 2}"


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=[query for query, _ in QUERIES])
def test_rows(client: Client, query: str, expected: list[int]) -> None:
    assert positions(client, query, reverse=False) == expected


@pytest.mark.parametrize(("query", "expected"), QUERIES, ids=[query for query, _ in QUERIES])
def test_last_rows_of_every_limit(client: Client, query: str, expected: list[int]) -> None:
    for limit in (1, 2, 10):
        assert positions(client, query, limit=limit) == expected[::-1][:limit]


def test_labels_of_rows_by_where_they_come_from(client: Client) -> None:
    (row, *_), _ = client.ask('{service_name="web"} | json | label_format service_name="{{.path}}"', limit=5,
                              reverse=False)  # fmt: skip
    assert row["labels"] == {}
    assert row["metadata"]["user"] == "ann"
    assert row["parsed"] == {"ms": "12", "path": "/a", "service_name": "/a", "user_extracted": "x"}


def test_categorised_labels_of_loki(client: Client) -> None:
    flags = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
    answer = client.loki('{service_name="web"} | json | path="/b"', headers=flags).json()["data"]
    (stream,) = answer["result"]
    assert stream["stream"]["service_name"] == "web"
    (_, line, extra), *_ = stream["values"]
    assert line == LINES[1].text
    assert extra["structuredMetadata"]["user"] == "bob"
    assert extra["parsed"] == {"level": "hot", "ms": "700", "path": "/b"}


def test_the_same_rows_are_one_stream_after_the_pipeline(client: Client) -> None:
    """Labels behind the pipeline decide, not those in front of it."""
    query = '{service_name=~".+"} | keep nothing | line_format "x"'
    result = client.loki(query).json()["data"]["result"]
    assert [stream["stream"] for stream in result] == [{}]
    assert len(result[0]["values"]) == 5  # two rows of one time became the same


def test_metric_queries_of_counts_and_of_numbers(client: Client) -> None:
    def instant(query: str) -> dict[str, float]:
        params = {"query": query, "time": str(BASE + 10 * S)}
        answer = client.http.get("/loki/api/v1/query", params=params, headers=client.headers)
        assert answer.status_code == 200, answer.text
        return {json.dumps(one["metric"]): float(one["value"][1]) for one in answer.json()["data"]["result"]}

    assert instant('sum by (service_name) (count_over_time({service_name=~".+"}[10s]))') == {
        '{"service_name": "api"}': 1, '{"service_name": "db"}': 2, '{"service_name": "web"}': 3
    }  # fmt: skip
    assert instant('sum by (user) (count_over_time({service_name=~".+"} | user!=""[10s]))') == {
        '{"user": "ann"}': 2, '{"user": "bob"}': 1
    }  # fmt: skip
    assert instant('sum by (detected_level) (count_over_time({service_name="web"}[10s]))') == {
        '{"detected_level": "error"}': 1, '{"detected_level": "info"}': 1, '{"detected_level": "warn"}': 1
    }  # fmt: skip
    assert instant('sum(sum_over_time({service_name="db"} | logfmt | unwrap ms [10s]))') == {"{}": 7}
    assert instant('sum(bytes_over_time({service_name="db"}[10s]))') == {
        "{}": len(LINES[2].text) + len(LINES[3].text)
    }


# ---- what is read


@dataclass(frozen=True)
class Worker:
    """One process' worth of scanners over a lake, its cache empty at first."""

    scanner: LineScanner
    metrics: LogSampleScanner
    cache: BlockCache

    def ask(self, query: str, segments: list[Segment], limit: int = 10) -> tuple[list[str], UnitReport]:
        refs = tuple(map(segment_ref, segments))
        start, end = min(r.min_ns for r in refs), max(r.max_ns for r in refs) + 1
        unit = LogUnit("", refs, query, start, end, limit, reverse=True, distinct=False)
        table, report = self.scanner.run(unit, Cancellation())
        return table["line"].to_pylist(), report

    def count(self, query: str, segments: list[Segment]) -> tuple[float, UnitReport]:
        refs = tuple(map(segment_ref, segments))
        end = max(r.max_ns for r in refs)
        answer = self.metrics.run(LogMetricUnit("", query, end, 0, 1, refs, 0), Cancellation())
        values = [json.loads(one.floats)[1] for one in answer.series]
        return sum(map(float, values)), answer.report


@pytest.fixture
def worker(lake: Lake, tmp_path: Path) -> Iterator[Worker]:
    store = open_lake(lake.folder)
    cache = BlockCache(tmp_path / "cache", 1 << 30, store)
    session = DuckSession(DuckLimits(256, 2, tmp_path / "spill", (), LakeFileSystem(cache.handle)))
    opener = SegmentOpener(cache)
    yield Worker(
        LineScanner(opener, session, IntervalSizes(rows=1000, first=0.1)),
        LogSampleScanner(opener, session),
        cache,
    )
    session.close()


@pytest.fixture(scope="module")
def hours(lake: Lake) -> list[Segment]:
    """Three segments of an hour each, with words of their own."""
    return [
        lake.write(
            "needles",
            [
                Line(
                    hour * 3600 * S + (i + 1) * S,
                    f"step {i} id=token{hour}x{i} end",
                    attributes={"k": f"v{i}h{hour}"},
                    trace=bytes([hour + 1] * 16),
                )
                for i in range(100)
            ],
        )
        for hour in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "lines", "opened"),
    [
        ('{service_name="web"} |= "id=token1x7 "', ["step 7 id=token1x7 end"], 1),
        ('{service_name="web"} |= "id=absent "', [], 0),
        ('{service_name="web"} |~ "id=(?:token0x1|token2x1) end$"', None, 3),  # nothing is said of the group
        ('{service_name="web"} |~ "id=token0x1 end$|id=token2x1 end"',
         ["step 1 id=token2x1 end", "step 1 id=token0x1 end"], 2),
        ('{service_name="web"} | k="v5h2"', ["step 5 id=token2x5 end"], 1),
        ('{service_name="web"} | k="v5h9"', [], 0),
        ('{service_name="web"} | json | k="v5h9"', [], 3),  # the line might have said so
        ('{service_name="web"} | trace_id="' + "02" * 16 + '" |= "x99 "', ["step 99 id=token1x99 end"], 1),
        ('{service_name="web"} | trace_id="' + "09" * 16 + '"', [], 0),
        ('{service_name="web"} |= "id=token1x7 " or "id=absent "', ["step 7 id=token1x7 end"], 1),
    ],
)  # fmt: skip
def test_words_choose_segments(
    worker: Worker, hours: list[Segment], query: str, lines: list[str] | None, opened: int
) -> None:
    found, report = worker.ask(query, hours)
    assert lines is None or found == lines
    assert (report.segments_opened, report.segments_without_words) == (opened, 3 - opened)


def test_an_absent_word_opens_no_segment(worker: Worker, hours: list[Segment]) -> None:
    _, report = worker.ask('{service_name="web"} |= "id=absent "', hours)
    assert (report.segments_opened, report.requests) == (0, len(hours))  # for blooms, none for rows
    count, counted = worker.count('count_over_time({service_name="web"} |= "id=absent "[3h])', hours)
    assert (count, counted.segments_opened, counted.segments_without_words) == (0, 0, 3)


def test_a_damaged_bloom_excludes_nothing(
    lake: Lake, worker: Worker, hours: list[Segment], tmp_path: Path
) -> None:
    made = lake.write("damaged", [Line(1, "here id=abc end")])
    path = lake.folder / made.key
    content = bytearray(path.read_bytes())
    content[made.bloom_offset : made.bloom_offset + 8] = b"\xff" * 8
    path.unlink()
    path.write_bytes(content)
    assert worker.ask('{service_name="web"} |= " id=abc "', [made])[0] == ["here id=abc end"]


def test_a_label_of_the_stream_is_not_looked_for_in_the_words(
    lake: Lake, worker: Worker, hours: list[Segment]
) -> None:
    found, report = worker.ask('{service_name="web"} | service_name="web"', hours, limit=1)
    assert (len(found), report.segments_without_words) == (1, 0)
    found, report = worker.ask('{service_name=~".+"} | service_name="nobody"', hours)
    assert (found, report.segments_opened, report.segments_skipped) == ([], 0, 3)


def test_the_last_rows_are_found_in_the_newest_row_groups(lake: Lake, worker: Worker) -> None:
    lines = [Line((i + 1) * S // 25, f"row {i} {'even' if i % 2 else 'odd'}") for i in range(60_000)]
    made = lake.write("long", lines)  # forty minutes
    found, report = worker.ask('{service_name="web"} |= "even"', [made], limit=3)
    assert found == ["row 59999 even", "row 59997 even", "row 59995 even"]
    assert report.row_groups >= 8
    assert report.row_groups_read == 1
    found, report = worker.ask(
        '{service_name="web"} | pattern "row <n> <_>" | n=~"12|59990"', [made], limit=1
    )
    assert (found, report.row_groups_read) == (["row 59990 odd"], 1)
    found, report = worker.ask('{service_name="web"} | pattern "row <n> <_>" | n="12"', [made], limit=1)
    assert (found, report.row_groups_read) == (["row 12 odd"], report.row_groups)


def test_many_rows_at_one_time_are_told_apart_behind_a_parser(
    lake: Lake, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakerunner_query.worker.logs.scan_intervals.FEWEST_ROWS", 7)
    monkeypatch.setattr("lakerunner_query.worker.logs.late_materialisation.STATEMENT_ROWS", 7)
    lines = [Line(1 + i // 20, f"n={i} parity={i % 2}") for i in range(100)]
    made = lake.write("ties", lines)
    whole, _ = worker.ask('{service_name="web"}', [made], limit=1000)
    odd = [line for line in whole if line.endswith("1")]
    for limit in (1, 9, 10, 11, 50, 60):
        assert worker.ask('{service_name="web"} | logfmt | parity="1"', [made], limit=limit)[0] == odd[:limit]


def test_unreadable_segments_of_a_metric_query_are_told(lake: Lake, worker: Worker) -> None:
    good = lake.write("partial", [Line(1 * S, "a")])
    bad = lake.write("partial", [Line(2 * S, "b" * 100)])
    (lake.folder / bad.key).write_bytes(b"PAR1 not really")
    for stages in ("", "| json | drop __error__, __error_details__"):
        query = f'sum(count_over_time({{service_name="web"}} {stages} [1h]))'
        count, report = worker.count(query, [good, bad])
        assert count == 1
        assert [one.segment_id for one in report.missing] == [bad.segment_id]


@pytest.fixture(scope="module")
def cases(lake: Lake) -> list[Segment]:
    """Two labels that differ in case only have one physical name, each in its own segment."""
    written = [({"Foo": "x"}, "upper"), ({"foo": "y"}, "lower y"), ({"foo": "x"}, "lower x")]
    return [
        lake.write("cases", [Line((at + 1) * S, text, attributes=dict(pairs))])
        for at, (pairs, text) in enumerate(written)
    ]


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        ('foo="x"', ["lower x"]),
        ('foo=""', ["upper"]),
        ('foo!="x"', ["lower y", "upper"]),
        ('foo=~"x|y"', ["lower x", "lower y"]),
        ('Foo="x"', ["upper"]),
        ('Foo!="x"', ["lower x", "lower y"]),
    ],
)
def test_a_column_of_another_label_is_not_asked(
    worker: Worker, cases: list[Segment], condition: str, lines: list[str]
) -> None:
    query = f'{{service_name="web"}} | {condition}'
    assert worker.ask(query, cases)[0] == lines
    assert worker.count(f"sum(count_over_time({query}[1h]))", cases)[0] == len(lines)


def test_lines_are_not_counted_by_a_column_of_another_label(worker: Worker, cases: list[Segment]) -> None:
    refs = tuple(map(segment_ref, cases))
    query = 'sum by (foo) (count_over_time({service_name="web"}[1h]))'
    unit = LogMetricUnit("", query, max(one.max_ns for one in refs), 0, 1, refs, 0)
    answer = worker.metrics.run(unit, Cancellation())
    counted = {one.labels: json.loads(one.floats)[1] for one in answer.series}
    assert counted == {(): "1", (("foo", "x"),): "1", (("foo", "y"),): "1"}


@pytest.mark.parametrize(
    "query",
    [
        '{service_name="web"} | line_format "{{ if contains `1` __line__ }}{{ __line__ }}{{ end }}"',
        '{service_name="web"} | label_format a="{{ if contains `1` __line__ }}x{{ end }}" | a="x"',
    ],
)
def test_templates_end_with_the_query(lake: Lake, worker: Worker, query: str) -> None:
    """Cancelled while the first of many distinct lines is rendered."""
    made = lake.write("endless", [Line(n + 1, f"line {n}") for n in range(30_000)])
    refs = (segment_ref(made),)
    for run in (
        lambda on: worker.scanner.run(
            LogUnit("", refs, query, made.min_ns, made.max_ns + 1, 30_000, reverse=True, distinct=False), on
        ),
        lambda on: worker.metrics.run(
            LogMetricUnit("", f"bytes_over_time({query}[1h])", made.max_ns, 0, 1, refs, 0), on
        ),
    ):
        with pytest.raises(CancelledQueryError):
            run(CancelledWithin("gotext.limits"))


class CancelledWithin(Cancellation):
    """By whoever asks from a module of this package."""

    def __init__(self, package: str) -> None:
        super().__init__()
        self._package = package

    def check(self) -> None:
        asking = sys._getframe(1).f_globals["__name__"]
        if self._package in asking:
            self.cancel()
        super().check()


def test_files_that_are_left_to_duckdb_may_lack_a_column_of_the_others(
    lake: Lake, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [
        lake.write("mixed", [Line(S, "a", attributes={"bar": "x"})]),
        lake.write("mixed", [Line(2 * S, "b")]),
    ]
    plainly = PageCounter.count
    monkeypatch.setattr(
        PageCounter,
        "count",
        lambda self, one, *chosen: plainly(self, one, *chosen) if "attr_bar" in one.footer.columns else None,
    )
    refs = tuple(map(segment_ref, made))
    query = 'sum by (bar) (count_over_time({service_name="web"}[1h]))'
    unit = LogMetricUnit("", query, max(one.max_ns for one in refs), 0, 1, refs, 0)
    answer = worker.metrics.run(unit, Cancellation())
    assert {one.labels: json.loads(one.floats)[1] for one in answer.series} == {
        (): "1",
        (("bar", "x"),): "1",
    }
