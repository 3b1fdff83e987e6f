"""Rows by label sets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.logql.frame import ABSENT, Category, Column, LogFrame, grouped_rows

VALUES = ("", "x", "y", "z")
ROWS = st.lists(st.tuples(*(st.integers(ABSENT, len(VALUES) - 1) for _ in "abc")), max_size=60)


def frame_of_codes(rows: list[tuple[int, ...]]) -> LogFrame:
    columns = zip(*rows, strict=True) if rows else [()] * 3
    labels = {
        name: Column(np.array(codes, np.int32), pa.array(VALUES), Category.PARSED)
        for name, codes in zip("abc", columns, strict=True)
    }
    return LogFrame(np.arange(len(rows), dtype=np.int64), pa.array([""] * len(rows), pa.string()), labels)


def expected(row: tuple[int, ...], names: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple((n, VALUES[code]) for n, code in zip("abc", row, strict=True) if n in names and code >= 0)


@given(ROWS, st.sets(st.sampled_from("abcd")), st.booleans())
def test_rows_are_in_the_group_of_their_labels(
    rows: list[tuple[int, ...]], named: set[str], without: bool
) -> None:
    codes, sets = grouped_rows(frame_of_codes(rows), named, without=without)
    names = set("abc") - named if without else named
    assert [sets[code] for code in codes] == [expected(row, names) for row in rows]
    assert len(set(sets)) == len(sets)
    assert sets == list(dict.fromkeys(expected(row, names) for row in rows))


def test_all_labels_group_when_none_are_named() -> None:
    codes, sets = grouped_rows(frame_of_codes([(1, 2, ABSENT), (1, 2, 0), (1, 2, ABSENT)]))
    assert codes.tolist() == [0, 1, 0]
    assert sets == [(("a", "x"), ("b", "y")), (("a", "x"), ("b", "y"), ("c", ""))]


def test_many_combinations_have_numbers_of_their_own() -> None:
    count = 5000
    codes = np.arange(count, dtype=np.int32)
    values = pa.array([str(code) for code in range(count)])
    labels = {
        "a": Column(codes % 100, values, Category.PARSED),
        "b": Column(codes // 100, values, Category.PARSED),
    }
    frame = LogFrame(np.zeros(count, np.int64), pa.array([""] * count), labels)
    found, sets = grouped_rows(frame)
    assert found.tolist() == codes.tolist()
    assert sets[4321] == (("a", "21"), ("b", "43"))
