"""Lines at an interval: against going through them one by one, however they are cut into tables."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.api.loki.queries import Thinning

TIMES = st.lists(st.lists(st.integers(-50, 50), max_size=8), max_size=5)


def naive(times: list[int], interval: int) -> list[int]:
    kept: list[int] = []
    for time in times:
        if not kept or abs(time - kept[-1]) >= interval:
            kept.append(time)
    return kept


@given(TIMES, st.integers(1, 30), st.booleans())
def test_every_kept_row_is_an_interval_from_the_one_before(
    parts: list[list[int]], interval: int, reverse: bool
) -> None:
    ordered = sorted((time for part in parts for time in part), reverse=reverse)
    thinning = Thinning(interval, reverse)
    found: list[int] = []
    for part in parts:
        table = pa.table({"tsns": pa.array(ordered[: len(part)], pa.int64())})
        ordered = ordered[len(part) :]
        found += thinning.thin(table)["tsns"].to_pylist()
    whole = sorted((time for part in parts for time in part), reverse=reverse)
    assert found == naive(whole, interval)


def test_without_an_interval_all_rows_stay() -> None:
    table = pa.table({"tsns": pa.array([1, 1, 2], pa.int64())})
    assert Thinning(0, False).thin(table) is table
