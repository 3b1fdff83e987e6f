"""Histograms that are rows of a sheet against the same ones as they are made one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.histogram.arithmetic import equal
from lakerunner_query.histogram.batch import COUNT, FEW, SUM, Row, Sheet, columns_of, find_rows, totals_of
from lakerunner_query.histogram.batch_kernels import find_drops
from lakerunner_query.histogram.growth import detect_reset, find_hints
from lakerunner_query.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram
from lakerunner_query.histogram.quantiles import is_plain, quantile, sheet_quantiles
from lakerunner_query.histogram.stored import of_struct
from resources.lake.rollup_columns import HIST

MODEL = Histogram(2, zero_threshold=0.01)
FINITE = (0.0, 1.0, 2.5, 7.0, 1e18)
COUNTS = (*FINITE, float("inf"), float("nan"))


@st.composite
def sheets(draw: st.DrawFn, counts: tuple[float, ...] = COUNTS) -> Sheet:
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    size = draw(st.integers(FEW, 2 * FEW))
    positive, negative = (
        np.array(sorted(draw(st.sets(st.integers(-20, 20), max_size=5))), np.int64) for _ in range(2)
    )
    width = len(positive) + len(negative)
    listed = random.random((size, width)) < draw(st.sampled_from([0.5, 1.0]))
    numbers = random.choice(counts, (size, 3 + width))
    numbers[:, 3:][~listed] = 0.0
    return Sheet(MODEL, positive, negative, numbers, listed)


def same(one: Histogram, other: Histogram) -> bool:
    return (
        np.array_equal([one.count, one.sum, one.zero_count], [other.count, other.sum, other.zero_count], True)
        and (one.schema, one.zero_threshold, one.bounds, one.hint)
        == (other.schema, other.zero_threshold, other.bounds, other.hint)
        and np.array_equal(one.positive.index, other.positive.index)
        and np.array_equal(one.negative.index, other.negative.index)
        and np.array_equal(one.positive.count, other.positive.count, True)
        and np.array_equal(one.negative.count, other.negative.count, True)
    )


@given(st.lists(sheets(), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_columns_of_rows_are_those_of_single_histograms(drawn: list[Sheet], random: object) -> None:
    rows = [one for sheet in drawn for one in sheet.histograms([Hint.UNKNOWN] * len(sheet.numbers))]
    random.shuffle(rows)  # type: ignore[attr-defined]
    single = [one.sheet.histogram(one.row, one.hint) for one in rows]
    assert find_rows(rows) is not None
    assert find_rows(single) is None
    mine, theirs = columns_of(rows), columns_of(single)
    assert (mine is None) == (theirs is None)
    if mine is not None and theirs is not None:
        assert np.array_equal(mine.sheet.positive, theirs.sheet.positive)
        assert np.array_equal(mine.sheet.negative, theirs.sheet.negative)
        assert np.array_equal(mine.sheet.numbers, theirs.sheet.numbers, equal_nan=True)
        assert np.array_equal(mine.sheet.is_listed, theirs.sheet.is_listed)
    for number, name in ((COUNT, "count"), (SUM, "sum")):
        expected = [getattr(one, name) for one in single]
        assert np.array_equal(totals_of(rows, number), expected, equal_nan=True)


@given(sheets(FINITE), st.floats(-0.5, 1.5))
def test_quantiles_of_a_sheet_are_those_of_single_histograms(sheet: Sheet, q: float) -> None:
    rows = np.arange(len(sheet.numbers))[::-1]
    found, plain = sheet_quantiles(np.full(len(rows), q), sheet, rows)
    for row, value, is_told in zip(rows.tolist(), found.tolist(), plain.tolist(), strict=True):
        one = sheet.histogram(row, Hint.UNKNOWN)
        assert is_told == is_plain(one, q)
        if is_told:
            expected = quantile(q, one).value
            assert value == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_a_row_reads_its_numbers_when_asked_and_is_no_row_once_changed() -> None:
    numbers = np.tile([6.0, 9.0, 1.0, 2.0, 3.0], (FEW, 1))
    sheet = Sheet(MODEL, np.array([4, 9]), NO_BUCKETS.index, numbers, np.ones((FEW, 2), np.bool_))
    row = sheet.histograms([Hint.GAUGE] * FEW)[0]
    expected = Histogram(2, 6, 9, 0.01, 1, Buckets(np.array([4, 9]), np.array([2.0, 3.0])), hint=Hint.GAUGE)
    assert type(row) is Row
    assert same(row, expected)
    assert row.with_hint(Hint.RESET).hint is Hint.RESET
    assert type(row.with_hint(Hint.RESET)) is Row
    changed = replace(row, count=7.0)
    assert type(changed) is Histogram
    assert (changed.count, changed.sum) == (7.0, 9.0)
    with pytest.raises(AttributeError, match="other"):
        row.other  # noqa: B018


def test_few_histograms_are_made_at_once() -> None:
    few = Sheet(MODEL, NO_BUCKETS.index, NO_BUCKETS.index, np.ones((2, 3)), np.ones((2, 0), np.bool_))
    assert [type(one) for one in few.histograms([Hint.UNKNOWN] * 2)] == [Histogram, Histogram]


STORED = st.fixed_dictionaries(
    {
        "schema": st.just(3),
        "count": st.sampled_from([None, 0.0, 5.0]),
        "sum": st.sampled_from([None, 1.5, float("nan")]),
        "zero_threshold": st.sampled_from([0.0, 0.0, 0.0, 1.0]),
        "zero_count": st.sampled_from([None, 2.0]),
        "positive_offset": st.sampled_from([None, -3, 0, 2, 1 << 20]),
        "positive_counts": st.sampled_from([None, [], [1.0, 0.0, 3.0], [0.0], [4.0]]),
        "negative_offset": st.sampled_from([None, -3, 7]),
        "negative_counts": st.sampled_from([None, [], [1.0, 2.0], [0.0, 2.0]]),
    }
)


@given(st.lists(STORED, min_size=FEW, max_size=2 * FEW), st.booleans())
def test_stored_histograms_are_the_same_one_by_one(
    stored: list[dict[str, object]], is_one_layout: bool
) -> None:
    if is_one_layout:
        stored = [one | {"zero_threshold": 0.0} for one in stored]
    hints = [Hint.UNKNOWN, Hint.RESET] * len(stored)
    array = pa.array(stored, HIST)
    together = of_struct(array, hints)
    for place, one in enumerate(together):
        alone = of_struct(array.slice(place, 1), [hints[place]])[0]
        assert one is not None
        assert alone is not None
        assert same(one, alone)
        assert equal(one, alone) or np.isnan(alone.sum)


def test_stored_histograms_of_one_layout_share_a_sheet() -> None:
    one = {"schema": 3, "count": 4.0, "positive_offset": 1, "positive_counts": [1.0, 3.0]}
    found = of_struct(pa.array([one] * FEW, HIST))
    assert {type(each) for each in found} == {Row}
    far = one | {"positive_offset": 1 << 30}
    assert {type(each) for each in of_struct(pa.array([one, far] * FEW, HIST))} == {Histogram}


@given(sheets(FINITE), st.permutations([Hint.UNKNOWN, Hint.UNKNOWN, Hint.NO_RESET, Hint.RESET]))
def test_unknown_hints_are_found_for_a_whole_series(sheet: Sheet, hints: list[Hint]) -> None:
    rows = sheet.histograms((hints * FEW)[: len(sheet.numbers)]).tolist()
    found = find_hints(rows, np.arange(len(rows)), 1)
    assert found[0] is rows[0]
    for before, one, told in zip(rows, rows[1:], found[1:], strict=False):
        expected = Hint.RESET if detect_reset(one, before) else Hint.NO_RESET
        assert told is not None
        assert told.hint == (expected if one.hint == Hint.UNKNOWN else one.hint)
        assert same(told, one.with_hint(told.hint))


def test_counts_fall_and_sums_may() -> None:
    numbers = np.array([[2.0, 9, 0, 2], [3, 1, 0, 3], [4, 5, 0, 2], [1, 5, 0, 2]])
    assert find_drops(numbers).tolist() == [False, True, True]
    assert find_drops(numbers[:0]).tolist() == []
