"""Values as scaled integers: exact for every double there is, and worth it for those people send."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments.metric_values import fewest_digits, read_metric_segment, split
from lakerunner_assets.segments.metrics import write_metric_segment
from lakerunner_assets.segments.written import SegmentIdentity
from resources.lake.metric_values import DOUBLE, MAX_DIGITS, POWERS, SCALED, VALUE_COLUMNS, values
from tests.support.segments.metric_tables import OTHER_NAN, STALE, double, doubles, samples

DECIMALS = st.builds(
    lambda number, digits: number / 10**digits, st.integers(-(2**54), 2**54), st.integers(0, MAX_DIGITS + 1)
)
ODD = st.sampled_from(
    [0.0, -0.0, double(STALE), double(OTHER_NAN), np.inf, -np.inf, 5e-324, 1.7e308, 2.0**53]
)
CELLS = st.one_of(st.none(), DECIMALS, ODD, st.floats(width=64), st.integers(0, 99).map(float))
SERIES = st.lists(st.lists(CELLS, min_size=1, max_size=40), min_size=1, max_size=5)


def there_and_back(columns: list[pa.Array]) -> tuple[pa.Array, pa.Array, dict[str, pa.Array]]:
    whole = pa.concat_arrays(columns)
    codes = np.repeat(np.arange(len(columns), dtype=np.int32), [len(column) for column in columns])
    found = split(whole, codes, np.arange(len(whole)), len(columns))
    return whole, values(found.columns), found.columns


def bits(column: pa.Array) -> list[int | None]:
    raw = np.frombuffer(column.buffers()[1], np.uint64)[column.offset :]
    return [int(one) if cell.is_valid else None for one, cell in zip(raw, column, strict=False)]


@settings(max_examples=100, deadline=None)
@given(SERIES)
def test_every_double_comes_back_to_the_bit(cells: list[list[float | None]]) -> None:
    sent, found, columns = there_and_back([doubles(each) for each in cells])
    assert bits(found) == bits(sent)
    both = columns[SCALED].is_valid().to_numpy(False) & columns[DOUBLE].is_valid().to_numpy(False)
    assert not both.any()


@pytest.mark.parametrize("digits", range(MAX_DIGITS + 1))
def test_decimals_are_scaled(digits: int) -> None:
    numbers = np.random.default_rng(digits).integers(-(10**6), 10**6, 500)
    numbers[0] = 10**6 + 1  # one that needs all the digits
    sent, found, columns = there_and_back([pa.array(numbers / 10**digits)])
    assert columns[SCALED].null_count == 0
    assert columns[DOUBLE].null_count == len(sent)
    assert set(columns["chq_value_exponent"].to_pylist()) == {digits}
    assert bits(found) == bits(sent)
    assert POWERS[digits] == float("1" + "0" * digits)


def test_what_cannot_be_scaled_stays_beside_the_rest() -> None:
    column = np.arange(200) / 10
    column[[3, 50]] = [double(STALE), 1 / 3]
    column[51] = -0.0
    _, _, columns = there_and_back([pa.array(column, from_pandas=False)])
    assert np.flatnonzero(columns[DOUBLE].is_valid().to_numpy(False)).tolist() == [3, 50, 51]
    assert columns[SCALED].null_count == 3


def test_each_series_is_decided_by_itself_and_joined_to_the_one_before() -> None:
    random = np.random.default_rng(1).uniform(0, 1, 100)
    _, _, columns = there_and_back(
        [pa.array(np.arange(100.0)), pa.array(random), pa.array(5000 + np.arange(100) / 4)]
    )
    scaled = columns[SCALED].to_pylist()
    assert scaled[:100] == list(range(100))
    assert scaled[100:200] == [None] * 100
    assert scaled[200:203] == [99, 124, 149]  # from where the first ended, in hundredths
    assert columns["chq_value_base"].to_pylist()[200] == 500_000 - 99
    assert columns["chq_value_exponent"].to_pylist()[200] == 2


def test_short_runs_get_no_base() -> None:
    _, _, columns = there_and_back([pa.array([float(n)]) for n in range(50)])
    assert set(columns["chq_value_base"].to_pylist()) == {0}
    assert columns[SCALED].to_pylist() == list(range(50))


def test_a_rare_digit_does_not_cost_all_rows() -> None:
    needed = np.zeros((2, MAX_DIGITS + 2), np.int64)
    needed[0, :2] = [1000, 20]
    needed[1, :2] = [1000, 80]
    assert fewest_digits(needed).tolist() == [0, 1]


def test_drift_of_the_base_never_leaves_64_bits() -> None:
    up = np.array([0.0, 2.0**53]).repeat(10)
    sent, found, columns = there_and_back([pa.array(up) for _ in range(400)])
    assert bits(found) == bits(sent)
    assert max(abs(number) for number in columns[SCALED].to_pylist()) <= 2**60 + 2**54


@pytest.mark.parametrize(
    ("series_count", "count", "most"),
    [(400, 240, 1.2), (100, 5760, 0.73)],
    ids=["hour", "day"],
)
def test_bytes_per_sample_of_counters(tmp_path: Path, series_count: int, count: int, most: float) -> None:
    """The whole file, with ids, labels, indexes and footer."""
    rng = np.random.default_rng(3)
    counters = {
        f"10.0.0.{n}:9100": 1e6 + np.cumsum(rng.poisson(rng.exponential(20) + 1, count)).astype(float)
        for n in range(series_count)
    }
    path = tmp_path / "s.parquet"
    written = write_metric_segment([samples(counters)], path, SegmentIdentity("a", "c", "metrics", 0, "s"))
    assert written.bytes / written.rows < most
    assert set(VALUE_COLUMNS) <= set(pq.read_schema(path).names)
    assert np.array_equal(
        np.sort(read_metric_segment(path)["chq_value"]), np.sort(np.concatenate(list(counters.values())))
    )
