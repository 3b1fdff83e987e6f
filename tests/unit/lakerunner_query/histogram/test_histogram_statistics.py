"""`histogram_count`, `histogram_sum` and `histogram_avg` read the histograms of a selector."""

from __future__ import annotations

import numpy as np

from lakerunner_query.histogram.growth import detect_reset, find_hints
from lakerunner_query.histogram.model import Hint, Histogram, buckets_at


def test_of_gauges_only_count_and_sum_are_read_so_a_bucket_that_fell_is_no_reset() -> None:
    first = Histogram(0, 5.0, 1.0, positive=buckets_at(0, [4.0, 1.0]), hint=Hint.GAUGE)
    second = Histogram(0, 6.0, 2.0, positive=buckets_at(0, [3.0, 3.0]), hint=Hint.GAUGE)
    assert detect_reset(second, first)
    before, after = find_hints([first, second], np.array([0, 60_000]), 60_000)
    assert before is not None
    assert after is not None
    assert not detect_reset(after, before)
    assert (after.count, after.sum, after.positive.size) == (6.0, 2.0, 0)


def test_counters_keep_their_buckets_and_say_whether_they_fell() -> None:
    first = Histogram(0, 5.0, 1.0, positive=buckets_at(0, [4.0, 1.0]))
    second = Histogram(0, 6.0, 2.0, positive=buckets_at(0, [3.0, 3.0]))
    _, after = find_hints([first, second], np.array([0, 60_000]), 60_000)
    assert after is not None
    assert (after.hint, after.positive.size) == (Hint.RESET, 2)


def test_a_histogram_that_follows_late_is_compared_with_nothing() -> None:
    samples = [Histogram(0, count, 1.0, positive=buckets_at(0, [count])) for count in (5.0, 4.0, 3.0)]
    found = find_hints(samples, np.array([0, 60_001, 120_001]), 60_000)
    assert [one and one.hint for one in found] == [Hint.UNKNOWN, Hint.UNKNOWN, Hint.RESET]
    found = find_hints([samples[0], None, *samples[1:]], np.array([0, 1, 60_001, 120_001]), 60_000)
    assert [one and one.hint for one in found] == [Hint.UNKNOWN, None, Hint.UNKNOWN, Hint.RESET]


def test_gauges_whose_windows_reach_beyond_their_edges_stay_whole() -> None:
    one = Histogram(0, 5.0, 1.0, positive=buckets_at(0, [4.0, 1.0]), hint=Hint.GAUGE)
    (found,) = find_hints([one], np.array([0]), 60_000, are_whole=True)
    assert found is not None
    assert found.positive.size == 2
