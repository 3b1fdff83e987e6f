"""Row groups of scaled values alone are decoded without Arrow, to the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.worker.parquet.page_kernels import UNKNOWN, deltas, pages_of
from lakerunner_query.worker.parquet.scaled_groups import ScaledGroup, scaled_group
from resources.lake import metric_values
from tests.unit.conftest import Run

WIDE = st.integers(-(2**63), 2**63 - 1)
NARROW = st.integers(-40, 40)
NO_BASE, ONES = np.zeros(1, np.int64), np.zeros(1, np.int32)


def written(
    path: Path, times: Sequence[int], scaled: Sequence[int | None], **options: object
) -> ScaledGroup | None:
    """One row group; `nullable` columns have levels, whether there are nulls or not."""
    nullable = bool(options.pop("nullable", False))
    temporality = options.pop("temporality", "cumulative")
    columns = {
        "chq_timestamp": pa.array(times, pa.int64()),
        metric_values.SCALED: pa.array(scaled, pa.int64()),
        "metric_temporality": pa.array([temporality] * len(times), pa.string()),
    }
    fields = [pa.field(name, each.type, nullable or each.null_count > 0) for name, each in columns.items()]
    encodings = dict.fromkeys(("chq_timestamp", metric_values.SCALED), "DELTA_BINARY_PACKED")
    pq.write_table(
        pa.table(list(columns.values()), schema=pa.schema(fields)), path,
        **{"use_dictionary": False, "column_encoding": encodings, "compression": "zstd", **options},
    )  # fmt: skip
    footer = pq.read_metadata(path)
    return scaled_group(footer, {name: (place,) for place, name in enumerate(footer.schema.names)}, 0)


class OnDisk:
    """A file that is read by range."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, start: int, length: int) -> bytes:
        return self.path.read_bytes()[start : start + length]


def values_of(path: Path, group: ScaledGroup) -> list[float]:
    found = np.empty(group.rows)
    begin, end = np.zeros(1, np.int64), np.array([group.rows])
    group.values_to(OnDisk(path), begin, end, begin, NO_BASE, ONES, found)
    return found.tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(NARROW, WIDE), min_size=1, max_size=400),
    st.booleans(),
    st.sampled_from(["zstd", "none"]),
)
def test_numbers_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], nullable: bool, codec: str
) -> None:
    path = tmp_path_factory.mktemp("plain") / "segment"
    group = written(path, numbers, numbers, nullable=nullable, compression=codec)
    assert group is not None
    whole = np.zeros(1, np.int64), np.array([len(numbers)])
    assert group.times_of(OnDisk(path), *whole).tolist() == numbers
    assert values_of(path, group) == [float(number) for number in numbers]


def test_runs_go_to_their_places_across_pages(tmp_path: Path) -> None:
    times = np.cumsum(np.random.default_rng(1).integers(1, 1000, 50_000))
    path = tmp_path / "s"
    group = written(path, times.tolist(), times.tolist(), max_rows_per_page=7000)
    assert group is not None
    begin, end = np.array([10, 6990, 30_000]), np.array([20, 21_010, 49_999])
    sizes = end - begin
    to = np.array([sizes[1] + sizes[2], 0, sizes[1]])
    placed, values = np.full(sizes.sum(), -1, np.int64), np.zeros(sizes.sum())
    assert group.times_to(OnDisk(path), begin, end, to, placed) == 0
    group.values_to(OnDisk(path), begin, end, to, np.array([5, 0, -3]), np.array([0, 2, 1], np.int32), values)
    for run, (low, high) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        there = slice(int(to[run]), int(to[run]) + high - low)
        assert placed[there].tolist() == times[low:high].tolist()
        scaled = (times[low:high] + [5, 0, -3][run]).astype(np.float64) / [1.0, 100.0, 10.0][run]
        assert values[there].tolist() == scaled.tolist()


def test_times_that_repeat_are_counted_within_runs_only(tmp_path: Path) -> None:
    times = [1, 2, 2, 3, 1, 2, 3, 3]
    path = tmp_path / "s"
    group = written(path, times, times, max_rows_per_page=3)
    assert group is not None
    begin, end = np.array([0, 4]), np.array([4, 8])
    assert group.times_to(OnDisk(path), begin, end, begin, np.empty(8, np.int64)) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"temporality": "delta"},
        {"column_encoding": None},
        {"column_encoding": None, "use_dictionary": True},
        {"compression": "gzip"},
        {"write_statistics": False},
    ],
)
def test_other_row_groups_are_left_to_arrow(tmp_path: Path, options: dict[str, object]) -> None:
    assert written(tmp_path / "s", [1, 2, 3], [1, 2, 3], **options) is None


def test_values_that_are_not_all_scaled_are_left_to_arrow(tmp_path: Path) -> None:
    assert written(tmp_path / "s", [1, 2, 3], [1, None, 3]) is None


def test_damage_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s"
    group = written(path, list(range(1000)), list(range(1000)))
    assert group is not None
    raw = bytearray(path.read_bytes())
    raw[group.scaled.offset : group.scaled.offset + group.scaled.length] = bytes(group.scaled.length)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="pages do not hold the rows"):
        values_of(path, group)
    path.write_bytes(raw[: group.scaled.offset])
    with pytest.raises(OSError, match="the file ends before"):
        values_of(path, group)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_pages_or_none(raw: bytes) -> None:
    data = np.frombuffer(raw, np.uint8)
    pages = pages_of(data, 100)
    assert not len(pages) or int(pages[:, 3].sum()) == 100
    room = np.empty(50, np.int64)
    found = deltas(data, 0, room)
    assert found == UNKNOWN or 0 < found <= 50


@pytest.mark.slow
def test_no_over_read_with_bounds_checking_on(run_checked: Run) -> None:
    assert "rejected" in run_checked("tests.support.query.metrics.hostile_pages", "6000")
