"""Lines found in pages are those that the filters keep; what is stored in another way is left to DuckDB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.stages.filters import matching_lines
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.logs.footer import Footer, RowGroups
from lakerunner_query.worker.logs.line_search import LineSearch, search_groups
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.parquet.text_kernels import mark_texts, text_places
from lakerunner_query.worker.shared.segment_file import LocalFile
from resources.duckdb import Cancellation

FILTERS = (
    '|= "ab"',
    '|= "a"',
    '|= "abc" or "é"',
    '|= "ab" != "b c"',
    '|~ "abc[ =]c"',
    '|~ "^abc"',
    '|~ "abc$"',
    '|~ "abc|cab"',
    '!~ "b+" |= "c"',
    '|~ "(?i)ABC" |= "c"',
    '|~ "bca."',
    '|= "\\x00"',
    '|= "aaaa"',
    '|= "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxab"',
)
PIECES = st.sampled_from(["a", "b", "c", "ab", "abc", "cab", " ", "=", "é", "\n", "\0", "x" * 30])
LINES = st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=1, max_size=60)


def written(path: Path, lines: list[str | None], **options: object) -> OpenSegment:
    table = pa.table({"log_message": pa.array(lines, pa.string())})
    pq.write_table(table, path, **{"compression": "zstd", "use_dictionary": False, **options})
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    nothing = np.zeros(len(sizes), np.int64)
    groups = RowGroups(np.cumsum([0, *sizes]), nothing, nothing, nothing, nothing, nothing)
    segment = SegmentRef("s", "s", 0, 0, 0, 0, 0)
    footer = Footer({"log_message": "string"}, (), len(lines), groups, metadata)
    return OpenSegment(segment, LocalFile(segment, path), footer, ())


def searched(one: OpenSegment, search: LineSearch, most: int | None = None) -> list[tuple[int, str]] | None:
    wanted = [(one, number) for number in range(len(one.footer.groups.min_ns))]
    found = list(search_groups(search, wanted, Cancellation(), most))
    one.file.close()
    if any(each is None for each in found):
        return None
    return [
        (int(row + one.footer.groups.first[each.number]), line)
        for each in found
        if each is not None
        for row, line in zip(each.rows.tolist(), each.lines.to_pylist(), strict=True)
    ]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.sampled_from(FILTERS), st.sampled_from([16, 1 << 20]), st.sampled_from([7, 1000]))
def test_lines_that_are_found_are_those_that_pass(
    tmp_path: Path, lines: list[str], text: str, page: int, group: int
) -> None:
    one = written(tmp_path / "s", list(lines), data_page_size=page, write_batch_size=3, row_group_size=group)
    stages = parse("{a=`b`} " + text).stages
    search = LineSearch.of(stages)
    assert search is not None
    passing = np.ones(len(lines), np.bool_)
    for stage in search.filters:
        passing &= matching_lines(pa.array(lines, pa.string()), stage)
    assert searched(one, search) == [(row, lines[row]) for row in np.flatnonzero(passing).tolist()]


@pytest.mark.parametrize(
    "text", ['!= "abc"', '|= ""', '|~ "(?i)abc"', '|~ "[a-c]+"', '|~ "a."', '|> "<_>abc"', "| json"]
)
def test_filters_without_a_certain_text_are_left_to_duckdb(text: str) -> None:
    assert LineSearch.of(parse("{a=`b`} " + text).stages) is None


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (["abc", None, "abc"], {}),
        (["abc"] * 9, {"use_dictionary": True}),
        (["abc"] * 9, {"compression": "gzip"}),
        (["abc"] * 9, {"column_encoding": {"log_message": "DELTA_BYTE_ARRAY"}}),
        (["abc"] * 9, {"data_page_version": "2.0"}),
    ],
)
def test_messages_stored_in_another_way_are_left_to_duckdb(
    tmp_path: Path, lines: list[str | None], options: dict[str, object]
) -> None:
    search = LineSearch.of(parse('{a="b"} |= "abc"').stages)
    assert search is not None
    assert searched(written(tmp_path / "s", lines, **options), search) is None


def test_more_lines_than_wanted_are_left_to_duckdb(tmp_path: Path) -> None:
    search = LineSearch.of(parse('{a="b"} |= "abc"').stages)
    assert search is not None
    one = written(tmp_path / "s", ["abc", "x", "abc"])
    assert (searched(one, search, 1), searched(one, search, 2)) == (None, [(0, "abc"), (2, "abc")])


@given(
    st.lists(st.text("ab\0", max_size=150), min_size=1, max_size=8),
    st.text("ab\0", min_size=1, max_size=12),
)
@settings(max_examples=300, deadline=None)
def test_texts_are_marked_wherever_a_block_begins(texts: list[str], needle: str) -> None:
    raw = [one.encode() for one in texts]
    page = np.frombuffer(b"".join(len(one).to_bytes(4, "little") + one for one in raw), np.uint8)
    begin, found = np.empty(len(raw) + 1, np.int64), np.zeros(len(raw), np.bool_)
    assert text_places(page, 0, begin) == len(page)
    mark_texts(page, begin, np.frombuffer(needle.encode(), np.uint8), found)
    assert found.tolist() == [needle in one for one in texts]
