"""The short way to see that a histogram goes on from the one before agrees with the full arithmetic."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.model import Hint, Histogram, buckets_at
from lakerunner_query.worker.metrics.native_histograms import _fell, with_reset_hints

COUNTS = st.lists(st.integers(1, 3), max_size=3)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    positive, negative, zeros = draw(COUNTS), draw(COUNTS), draw(st.integers(0, 2))
    extra = draw(st.integers(0, 1))
    return Histogram(
        0, float(sum(positive) + sum(negative) + zeros + extra), 1.0, 0.001, float(zeros),
        buckets_at(draw(st.integers(0, 1)), [float(c) for c in positive]),
        buckets_at(0, [float(c) for c in negative]),
    )  # fmt: skip


@given(histograms(), histograms())
@settings(max_examples=300, deadline=None)
def test_both_ways_agree(now: Histogram, before: Histogram) -> None:
    assert _fell(now, before) == detect_reset(now, before)


def test_hints_of_a_series() -> None:
    def one(count: float, hint: Hint = Hint.UNKNOWN) -> Histogram:
        return Histogram(0, count, 1.0, positive=buckets_at(0, [count]), hint=hint)

    given_ = [one(10), one(20), one(5), one(7), one(8, Hint.RESET), one(9), one(9, Hint.GAUGE), one(9)]
    objects = np.empty(len(given_) + 1, np.object_)
    objects[: len(given_)] = given_
    found = with_reset_hints(objects, np.array([0, 8, 9]))
    assert [None if h is None else h.hint.name for h in found] == [
        "UNKNOWN", "NO_RESET", "UNKNOWN", "NO_RESET", "UNKNOWN", "NO_RESET", "GAUGE", "UNKNOWN", None,
    ]  # fmt: skip
