"""Histograms that are read and hinted together are those of the full arithmetic, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.arithmetic import equal
from lakerunner_query.histogram.growth import detect_reset
from lakerunner_query.histogram.model import Hint, Histogram, buckets_at
from lakerunner_query.vectors.vector import Series
from lakerunner_query.worker.metrics import native_histograms
from lakerunner_query.worker.metrics.native_histograms import _fell, with_reset_hints
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import Sample
from tests.unit.lakerunner_query.worker.test_samples_of_segments import STALE, UP, Lake

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
    found = with_reset_hints(objects, np.array([0, 8, 9]), np.arange(9), np.ones(9, np.bool_))
    assert [None if h is None else h.hint.name for h in found] == [
        "UNKNOWN", "NO_RESET", "UNKNOWN", "NO_RESET", "UNKNOWN", "NO_RESET", "GAUGE", "UNKNOWN", None,
    ]  # fmt: skip


@st.composite
def counters(draw: st.DrawFn) -> list[Histogram]:
    """Histograms of one series: some fall, some change their buckets, few are gauges or reset by hint."""
    found, count = [], draw(st.integers(1, 5))
    for _ in range(draw(st.integers(4, 9))):
        count = max(1, count + draw(st.sampled_from([0, 1, 2, 3, -2])))
        hint = draw(st.sampled_from([Hint.UNKNOWN] * 9 + [Hint.RESET] * 2 + [Hint.GAUGE]))
        first, size = draw(st.sampled_from([(0, 2), (0, 3), (1, 2)]))
        buckets = buckets_at(first, [float(count)] * size)
        found.append(
            Histogram(0, float(count * size), draw(st.sampled_from([1.0, STALE])), 0.0, 0.0, buckets)
        )
        found[-1] = found[-1].with_hint(hint)
    return found


def select_histograms(folder: Path, series: Sequence[Sequence[Histogram]], segments: int) -> Series:
    """Write each part of the time as a segment of its own, and select what lies behind the first sample."""
    lake = Lake(folder)
    rows = [
        ((("__name__", "up"), ("a", str(number))), Sample(1000 * (at + 1), 0.0, one))
        for number, some in enumerate(series)
        for at, one in enumerate(some)
    ]
    for part in range(segments):
        lake.write(sample_table([row for row in rows if row[1].time_ms // 1000 % segments == part]))
    return lake.select(UP, 1000)


@settings(max_examples=60, deadline=None)
@given(series=st.lists(counters(), min_size=2, max_size=4), segments=st.integers(1, 2))
def test_histograms_read_together_are_those_read_one_by_one(
    series: list[list[Histogram]], segments: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = select_histograms(tmp_path_factory.mktemp("together"), series, segments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_histograms, "histograms_together", lambda *_, **__: None)
        expected = select_histograms(tmp_path_factory.mktemp("single"), series, segments)
    assert found.labels == expected.labels
    assert found.time_ms.tolist() == expected.time_ms.tolist()
    assert found.are_real == expected.are_real
    assert found.histograms is not None
    assert expected.histograms is not None
    for one, other in zip(found.histograms.tolist(), expected.histograms.tolist(), strict=True):
        assert equal(one, other)
        assert one.hint is other.hint


def test_histograms_of_one_layout_share_a_sheet(tmp_path: Path) -> None:
    counting = [Histogram(0, float(n), 1.0, positive=buckets_at(0, [float(n)])) for n in range(1, 20)]
    found = select_histograms(tmp_path, [counting, counting], 2)
    assert found.histograms is not None
    assert len({id(one.sheet) for one in found.histograms.tolist()}) == 1
    assert found.are_real
