"""Samples in memory: selections, hints of histograms, samples that come too late."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.histogram.model import Hint, Histogram, buckets_at
from lakerunner_query.rules.memory_source import STALE, MemorySource
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.windows.functions import STALE_BITS
from tests.golden.memory_source import Sample, hinted

UP = (("__name__", "up"), ("job", "a"))
OTHER = (("__name__", "up"), ("job", "b"))
NAMED = Matcher("__name__", MatchOp.EQUAL, "up")


def test_samples_are_selected_by_labels_and_time() -> None:
    source = MemorySource()
    for at_ms in (10, 20, 30):
        source.append(OTHER, at_ms, float(at_ms))
        source.append(UP, at_ms, None if at_ms == 30 else 1.0)
    found = source.select([NAMED], 10, 30)
    assert found.labels == [UP, OTHER]
    assert found.time_ms.tolist() == [20, 30, 20, 30]
    assert found.value[1:2].view(np.uint64)[0] == STALE_BITS
    assert np.isnan(STALE)
    only = source.select([NAMED, Matcher("job", MatchOp.NOT_REGEX, "a|c")], 0, 10)
    assert (only.labels, only.value.tolist()) == ([OTHER], [10.0])
    source.append((("__name__", "up"), ("job", "d")), 5, 1.0)
    assert source.select([NAMED, Matcher("job", MatchOp.NOT_REGEX, "a|c")], 0, 10).count == 2


def test_a_sample_that_is_not_later_is_left_out() -> None:
    source = MemorySource()
    for value in (1.0, 2.0):
        source.append(UP, 10, value)
    assert source.select([NAMED], 0, 10).value.tolist() == [1.0]


def histogram(schema: int, count: float, hint: Hint) -> Histogram:
    return Histogram(schema, count, positive=buckets_at(0, [count]), hint=hint)


histograms = st.builds(
    histogram, st.sampled_from([0, 1]), st.sampled_from([1.0, 2.0, 3.0]), st.sampled_from(list(Hint))
)


@given(st.lists(st.one_of(st.none(), st.just(1.0), histograms), max_size=12))
def test_hints_are_those_of_a_store(values: list[float | Histogram | None]) -> None:
    source = MemorySource()
    samples = []
    for at_ms, value in enumerate(values, start=1):
        source.append(UP, at_ms, value)
        samples.append(Sample(at_ms, 0.0, value if isinstance(value, Histogram) else None))
    found = source.select([NAMED], 0, 100)
    expected = [sample.histogram for sample in hinted(samples)]
    cells = [None] * len(values) if found.histograms is None else found.histograms.tolist()
    assert [one and one.hint for one in cells] == [one and one.hint for one in expected]
