"""Merging is writing all rows at once, however sources are grouped, ordered and repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments.merge.request import MergeKind
from tests.support.decode import messages, span_messages
from tests.support.decoding import decode_object as decode_logs
from tests.support.segments.merging import assert_same, index_facts, merged, only, written
from tests.support.segments.metric_tables import OTHER_NAN, STALE, Row, double, every_kind, row, table

LIMITS = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
MEMORY = st.sampled_from([1, 1 << 14, 64 << 20])

SAMPLE_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["up", "a", "é"]),
        st.sampled_from(["1", "2", "long " * 9, ""]),
        st.integers(0, 3),
        st.sampled_from([0.0, -0.0, 1.5, 0.1 + 0.2, 1e300, 17.25, double(STALE), double(OTHER_NAN)])
        | st.none(),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def log_tables(number: int, request: Any) -> list[pa.Table]:
    payload = request.SerializeToString()
    if not payload:
        return []
    found = decode_logs(payload, object_id=number, arrival_ns=1, max_bytes=1 << 20, slice_bytes=1 << 20)
    return [piece.table for piece in found if piece.table.num_rows]


def span_tables(number: int, request: Any) -> list[pa.Table]:
    payload = request.SerializeToString()
    found = span_messages.decode_object(payload, object_id=number) if payload else []
    return [each for each in found if each.num_rows]


def sample_tables(number: int, rows: Any) -> list[pa.Table]:
    made: list[Row] = []
    for position, (name, instance, ms, value, exact) in enumerate(rows):
        labels = {"__name__": name, "instance": instance}
        more: dict[str, Any] = {"chq_object": number}
        if exact:
            more |= {"chq_tsns": row(0, labels, ms, None)["chq_timestamp"] * 1_000_000 + number}
        made.append(row(position, labels, ms, value, **more))
    return [table(made)]


CASES: list[Any] = [
    pytest.param(MergeKind.LOGS, messages.REQUESTS, log_tables, id="logs"),
    pytest.param(MergeKind.TRACES, span_messages.REQUESTS, span_tables, id="traces"),
    pytest.param(MergeKind.SAMPLES, SAMPLE_ROWS, sample_tables, id="samples"),
]


@pytest.mark.parametrize(("kind", "payloads", "decode"), CASES)
@given(st.data())
@LIMITS
def test_any_grouping_gives_what_the_ordinary_writer_gives(
    tmp_path_factory: pytest.TempPathFactory,
    kind: MergeKind,
    payloads: st.SearchStrategy[Any],
    decode: Callable[[int, Any], list[pa.Table]],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("m")
    objects = [
        decode(number, each)
        for number, each in enumerate(data.draw(st.lists(payloads, min_size=1, max_size=5)))
    ]
    objects = [tables for tables in objects if tables]
    assume(objects)
    sources = []
    for number, tables in enumerate(objects):
        sources.append(folder / f"tbl_s{number}.parquet")
        written(kind, sources[-1], tables)
    expected = folder / "expected"
    facts = written(kind, expected, list(itertools.chain.from_iterable(objects)))

    once = merged(kind, folder / "once", sources, memory_bytes=data.draw(MEMORY))
    assert_same(only(once), expected)
    assert index_facts(once.segments[0].facts) == index_facts(facts)
    assert (once.rows_read, once.rows_written, once.duplicates) == (facts.rows, facts.rows, 0)

    waiting = data.draw(st.permutations(sources))
    step = itertools.count()
    read = 0
    while len(waiting) > 1 or not read:  # some of them into one, again and again; repeats are dropped
        size = data.draw(st.integers(min(2, len(waiting)), len(waiting)))
        again = data.draw(st.sampled_from(sources))
        result = merged(
            kind, folder / f"g{next(step)}", [*waiting[:size], again], memory_bytes=data.draw(MEMORY)
        )
        assert result.rows_read == result.rows_written + result.duplicates
        read += 1
        waiting = data.draw(st.permutations([*waiting[size:], only(result)]))
    if set(sources) <= set(waiting) or len(sources) == 1:
        assert result.duplicates > 0
    assert_same(waiting[0], expected)
    assert index_facts(result.segments[0].facts) == index_facts(facts)


def test_a_source_given_twice_counts_once(tmp_path: Path) -> None:
    tables = [table(every_kind())]
    facts = written(MergeKind.SAMPLES, tmp_path / "a", tables)
    result = merged(MergeKind.SAMPLES, tmp_path / "out", [tmp_path / "a"] * 3)
    assert_same(only(result), tmp_path / "a")
    assert (result.rows_read, result.duplicates) == (3 * facts.rows, 2 * facts.rows)


def test_histograms_exemplars_and_maps_survive_to_the_bit(tmp_path: Path) -> None:
    rows = every_kind()
    sources = [tmp_path / f"s{number}" for number in range(len(rows))]
    for path, each in zip(sources, rows, strict=True):
        written(MergeKind.SAMPLES, path, [table([each])])
    written(MergeKind.SAMPLES, tmp_path / "expected", [table(rows)])
    for memory in (1, 1 << 26):
        result = merged(MergeKind.SAMPLES, tmp_path / f"out{memory}", sources, memory_bytes=memory)
        assert_same(only(result), tmp_path / "expected")
