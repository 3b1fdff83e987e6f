"""Histograms of one layout, all windows at once, against the same windows one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.arithmetic import equal
from lakerunner_query.histogram.batch_windows import dense_of
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.model import CUSTOM, NO_BUCKETS, Buckets, Hint, Histogram, buckets_at
from lakerunner_query.promql.functions import windows as ranged_module
from lakerunner_query.vectors.vector import Series, Steps
from tests.support.query.promql.functions_at_hand import Changed, answer, labels, source_of

COUNTS = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=4)


@st.composite
def series(draw: st.DrawFn) -> list[Histogram]:
    """Counters that begin anew now and then, all of one layout."""
    is_custom = draw(st.booleans())
    model = Histogram(CUSTOM, bounds=(1.0, 2.0, 5.0)) if is_custom else Histogram(2, zero_threshold=0.01)
    size = draw(st.integers(1, 12))
    hints = draw(st.sampled_from([[Hint.UNKNOWN], [Hint.GAUGE], [Hint.UNKNOWN, Hint.NO_RESET], list(Hint)]))
    found, positive, negative, zeros, total = [], np.zeros(4), np.zeros(4), 0.0, 0.0
    for _ in range(size):
        if draw(st.integers(0, 5)) == 0:
            positive, negative, zeros, total = np.zeros(4), np.zeros(4), 0.0, 0.0
        positive = positive + np.resize(draw(COUNTS), 4)
        zeros += 0 if is_custom else draw(st.integers(0, 2))
        negative = negative if is_custom else negative + np.resize(draw(COUNTS), 4)
        total += draw(st.floats(-10, 10))
        found.append(
            replace(
                model,
                count=float(positive.sum() + negative.sum() + zeros),
                sum=total,
                zero_count=float(zeros),
                positive=sparse(positive, 0),
                negative=NO_BUCKETS if is_custom else sparse(negative, -2),
                hint=draw(st.sampled_from(hints)),
            )
        )
    return found


def sparse(counts: np.ndarray, first: int) -> Buckets:
    """Zeros are not listed: not every histogram has every bucket."""
    listed = buckets_at(first, counts)
    keep = counts != 0
    return Buckets(listed.index[keep], listed.count[keep])


def source(histograms: list[Histogram]) -> Changed:
    def change(_: Series) -> Series:
        objects = np.empty(len(histograms), np.object_)
        objects[:] = histograms
        times = 15_000 * np.arange(len(histograms), dtype=np.int64)
        offsets = np.array([0, len(histograms)], np.int64)
        return Series([labels(name="h")], offsets, times, np.full(len(times), np.nan), objects)

    return source_of("h 1", change=change)


@pytest.mark.parametrize(
    "text",
    [
        "rate(h[50s])", "increase(h[2m])", "delta(h[50s])", "sum_over_time(h[40s])", "avg_over_time(h[1m])",
        "resets(h[2m])", "increase(h[1m] @ 60)",
    ],
)  # fmt: skip
@settings(max_examples=25, deadline=None)
@given(histograms=series())
def test_all_windows_at_once_are_as_one_by_one(text: str, histograms: list[Histogram]) -> None:
    steps = Steps(10_000, 25_000, 8)
    fast = answer(source(histograms), text, steps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranged_module, "dense_of", lambda histograms: None)
        slow = answer(source(histograms), text, steps)
    assert set(fast.annotations) == set(slow.annotations)
    assert fast.value.labels == slow.value.labels
    assert (fast.value.present == slow.value.present).all()
    if slow.value.histograms is None:
        assert fast.value.histograms is None
        assert (fast.value.values == slow.value.values)[slow.value.present].all()
        return
    for one, other in zip(
        fast.value.histograms[fast.value.present], slow.value.histograms[slow.value.present], strict=True
    ):
        assert equal(one, other)
        assert one.hint == other.hint


@settings(max_examples=50, deadline=None)
@given(series())
def test_falls_are_those_that_histograms_find(histograms: list[Histogram]) -> None:
    dense = dense_of(np.array(histograms, np.object_))
    assert dense is not None
    for at, (before, after) in enumerate(pairwise(histograms), start=1):
        assert dense.fell()[at] == detect_reset(after, before)


def test_layouts_that_change_are_not_dense() -> None:
    one = Histogram(count=1, positive=buckets_at(0, [1]))
    for other in (
        replace(one, schema=1),
        replace(one, zero_threshold=0.5),
        Histogram(CUSTOM, bounds=(1.0,)),
    ):
        assert dense_of(np.array([one, other], np.object_)) is None
    inside = replace(one, zero_threshold=2.0)
    assert dense_of(np.array([inside, inside], np.object_)) is None


def test_sums_that_get_too_large_go_the_careful_way() -> None:
    large = Histogram(count=1.5e308, sum=1.0, positive=buckets_at(0, [1.5e308]))
    [found] = answer(source([large, large]), "avg_over_time(h[1m])", Steps(15_000, 0, 1)).value.histograms[0]
    assert found.count == pytest.approx(1.5e308)
