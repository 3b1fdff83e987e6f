"""Dictionary codes are read from pages without Arrow, and what is no such page is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.logs.footer import Footer, RowGroups
from lakerunner_query.worker.logs.page_counts import column_locations
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.parquet.column_chunks import (
    Chunk,
    Constant,
    DictionaryChunk,
    may_hold,
    plain_texts,
)
from lakerunner_query.worker.parquet.dictionary_kernels import add_codes
from lakerunner_query.worker.parquet.page_kernels import UNKNOWN
from lakerunner_query.worker.parquet.run_kernels import OUT_OF_RANGE, count_rows
from lakerunner_query.worker.shared.segment_file import LocalFile

NONE = np.zeros(0, np.int64)
NO_GROUPS = RowGroups(NONE, NONE, NONE, NONE, NONE, NONE)


def written(path: Path, values: list[str | None], **options: object) -> OpenSegment:
    nullable = bool(options.pop("nullable", False)) or None in values
    schema = pa.schema([pa.field("level", pa.string(), nullable)])
    table = pa.table([pa.array(values, pa.string())], schema=schema)
    pq.write_table(table, path, **{"compression": "zstd", **options})
    footer = Footer({"level": "string"}, (), len(values), NO_GROUPS, pq.read_metadata(path))
    segment = SegmentRef("s", "s", 0, 0, 0, 0, 0)
    return OpenSegment(segment, LocalFile(segment, path), footer, ())


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 40)), min_size=2, max_size=300),
    st.booleans(),
    st.sampled_from(["zstd", "none"]),
    st.sampled_from([64, 1 << 20]),
)
def test_texts_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[tuple[int, int]],
    nullable: bool,
    codec: str,
    page_size: int,
) -> None:
    values: list[str | None] = [f"v{value}" for value, count in runs for _ in range(count)]
    one = written(
        tmp_path_factory.mktemp("codes") / "segment", values,
        nullable=nullable, compression=codec, data_page_size=page_size, write_batch_size=50,
    )  # fmt: skip
    ((place,),) = column_locations(one, ["level"])
    if len(set(values)) == 1:
        assert place == Constant(values[0])
        return
    assert isinstance(place, Chunk)
    codes = DictionaryChunk.read(one, place)
    texts = plain_texts(codes.dictionary)
    keys = np.full(len(values), 2, np.int32)
    codes.add_to(keys, len(texts))
    assert [texts[key - 2 * len(texts)] for key in keys.tolist()] == values


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["a", "b", None], {}, None),
        ([None, None], {}, Constant(None)),
        (["a", "a"], {}, Constant("a")),
        (["a", "b"], {"use_dictionary": False}, None),
        (["a", "b"], {"compression": "gzip"}, None),
        (["a", "b"], {"write_statistics": False}, None),
    ],
)
def test_other_columns_are_left_to_arrow(
    tmp_path: Path, values: list[str | None], options: dict[str, object], expected: Constant | None
) -> None:
    assert column_locations(written(tmp_path / "segment", values, **options), ["level", "absent"]) == [
        (expected,), (Constant(None),)
    ]  # fmt: skip


def test_pages_that_are_not_of_codes_are_refused(tmp_path: Path) -> None:
    values: list[str | None] = [f"{number}" * 50 for number in range(3000)]
    one = written(tmp_path / "segment", values, dictionary_pagesize_limit=1000, write_batch_size=50)
    ((place,),) = column_locations(one, ["level"])
    assert isinstance(place, Chunk)
    with pytest.raises(ValueError, match="encoding 0, not of codes"):
        DictionaryChunk.read(one, place).add_to(np.zeros(len(values), np.int32), 3000)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.integers(1, 300), st.integers(1, 70))
def test_codes_of_anything_stay_within_the_dictionary_or_are_refused(
    data: bytes, size: int, rows: int
) -> None:
    keys = np.zeros(rows, np.int32)
    if add_codes(np.frombuffer(data, np.uint8), 0, size, keys) != UNKNOWN:
        assert keys.min() >= 0
        assert keys.max() < size


@pytest.mark.parametrize(
    "page", [b"", b"\x19", b"\x01", b"\x01\x04", b"\x01\x00", b"\x02\x08\x03", b"\x03\x03\xff"]
)
def test_broken_pages_are_refused(page: bytes) -> None:
    assert add_codes(np.frombuffer(page, np.uint8), 0, 3, np.zeros(5, np.int32)) == UNKNOWN


def test_rows_are_counted_by_key_and_time_as_one_by_one() -> None:
    random = np.random.default_rng(3)
    times = random.integers(-50, 150, 2000)
    keys = random.integers(0, 4, 2000).astype(np.int32)
    counts = np.zeros((4, 10), np.int64)
    assert count_rows(times, keys, 1, 101, 10, counts) == 0
    inside = (times >= 1) & (times < 101)
    expected = np.zeros((4, 10), np.int64)
    np.add.at(expected, (keys[inside], (times[inside] - 1) // 10), 1)
    np.testing.assert_array_equal(counts, expected)
    assert count_rows(times, keys, 1, 101, 10, counts[:, :9].copy()) == OUT_OF_RANGE


def test_bloom_filters_exclude_absent_ids_and_no_present_one(tmp_path: Path) -> None:
    dice = np.random.default_rng(7)
    ids = [dice.bytes(16) for _ in range(3000)]
    table = pa.table({"trace_id": pa.array(ids, pa.binary(16))})
    blooms = {"trace_id": {"ndv": len(ids), "fpp": 0.01}}
    pq.write_table(table, tmp_path / "s", compression="zstd", bloom_filter_options=blooms)
    offset = pq.read_metadata(tmp_path / "s").row_group(0).column(0).bloom_filter_offset
    size = (tmp_path / "s").stat().st_size
    with LocalFile(SegmentRef("s", "s", size, 0, 0, 0, 0), tmp_path / "s") as file:
        assert all(may_hold(file, offset, one) for one in ids)
        assert sum(may_hold(file, offset, dice.bytes(16)) for _ in range(1000)) < 60
        assert may_hold(file, 4, bytes(16))  # no header of a bloom filter
