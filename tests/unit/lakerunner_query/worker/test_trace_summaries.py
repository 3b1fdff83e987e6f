"""Summaries tell which traces may match and where their rows are, also of segments that have none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_assets.segments.traces import write_span_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_query.traceql.lang.conditions import analyse
from lakerunner_query.traceql.lang.parser import parse
from lakerunner_query.worker.spans.summaries import ID, known_traces, rows_of, scan_summaries
from lakerunner_query.worker.tables.segments import OpenTable
from resources.lake import trace_summaries
from resources.lake.segment_file import read_facts
from resources.lake.trace_summaries import SCHEMA
from tests.support.decode.span_messages import START, decode_object, sample

Trace = tuple[int, int, int, int, str | None]
"""Id, start, width, roots, name of the root."""
TRACES = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(0, 50), st.integers(0, 50), st.integers(0, 2),
        st.sampled_from(["GET /", "POST /", None]),
    ),
    max_size=12,
    unique_by=lambda one: one[0],
)  # fmt: skip


def trace_id(number: int) -> bytes:
    """Return an id with zeros on both sides."""
    return (number << 56).to_bytes(16, "big")


def summaries(traces: Sequence[Trace]) -> pa.Table:
    rows = [
        {
            "trace_id": trace_id(number), "start_ns": start, "end_ns": start + width,
            "spans": 1 + number % 3, "errors": 0, "roots": roots,
            "root_name": name if roots == 1 else None, "root_service": "web" if roots == 1 else None,
        }
        for number, start, width, roots, name in sorted(traces, key=lambda one: one[0])
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=pa.schema(list(SCHEMA)[:-1]))


@given(st.lists(TRACES, min_size=1, max_size=4))
def test_joined_summaries_span_all_parts_of_a_trace(parts: list[list[Trace]]) -> None:
    known = known_traces([summaries(one) for one in parts], b"", b"")
    wanted: dict[bytes, list[Trace]] = {}
    for one in (trace for part in parts for trace in part):
        wanted.setdefault(trace_id(one[0]), []).append(one)
    assert known.table.column("trace_id").to_pylist() == sorted(wanted)
    for row in known.table.to_pylist():
        own = wanted[row["trace_id"]]
        assert row["start_ns"] == min(one[1] for one in own)
        assert row["end_ns"] == max(one[1] + one[2] for one in own)
        assert row["roots"] == sum(one[3] for one in own)
        names = [one[4] for one in own if one[3] == 1]
        assert row["root_name"] == (names[0] if row["roots"] == 1 else None)


@given(TRACES, st.sets(st.integers(0, 300)))
def test_rows_are_those_of_the_wanted_traces(traces: list[Trace], wanted: set[int]) -> None:
    table = summaries(traces)
    owners = [row["trace_id"] for row in table.to_pylist() for _ in range(row["spans"])]
    ids = sorted(map(trace_id, wanted))
    found = rows_of(table, np.array(ids, ID))
    assert found.tolist() == [row for row, owner in enumerate(owners) if owner in set(ids)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{ traceDuration > 30ns }", [1, 2]),
        ("{ traceDuration < 30ns }", [0, 1, 2, 3]),
        ('{ rootName = "GET /" }', [0, 2, 3]),
        ('{ rootName = "GET /" && traceDuration >= 40ns }', [2]),
        ('{ rootName = "none" || rootServiceName = "web" }', [0, 1, 2, 3]),
        ('{ name = "x" }', [0, 1, 2, 3]),
        ('{ rootName =~ "P.*" }', [0, 1, 2, 3]),
    ],
)
def test_times_and_roots_rule_traces_out(text: str, found: list[int]) -> None:
    traces: list[Trace] = [
        (0, 5, 10, 1, "GET /"), (1, 5, 35, 1, "POST /"), (2, 0, 40, 2, None), (3, 0, 1, 0, None),
    ]  # fmt: skip
    known = known_traces([summaries(traces)], b"", b"")
    assert np.flatnonzero(known.may_match(analyse(parse(text)).requirement)).tolist() == found


def test_a_segment_without_summaries_is_summarised_from_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "tbl_s.parquet"
    tables = decode_object(sample(40).SerializeToString(), object_id=1)
    write_span_segment(tables, path, SegmentIdentity("acme", "eu", "traces", START, "s"))
    metadata = pq.read_metadata(path)
    facts, length = read_facts(metadata), trace_summaries.read_length(metadata)
    stored = trace_summaries.read_table(path.read_bytes()[facts.bloom_offset - length : facts.bloom_offset])
    one: Any = SimpleNamespace(
        file=SimpleNamespace(source=lambda: str(path)),
        footer=SimpleNamespace(layout=SimpleNamespace(metadata=metadata)),
    )
    scanned = scan_summaries(cast("OpenTable", one))
    for name in ("trace_id", "start_ns", "end_ns", "spans"):
        assert scanned.column(name).to_pylist() == stored.column(name).to_pylist()
    assert set(scanned.column("roots").to_pylist()) == {2}
