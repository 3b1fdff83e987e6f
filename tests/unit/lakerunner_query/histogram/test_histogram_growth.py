"""Resets, and what series of histograms grow by over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.histogram.growth import (
    Note,
    detect_reset,
    find_hints,
    growth,
    interpolate,
    reset_correction,
    step_growth,
)
from lakerunner_query.histogram.model import Hint
from tests.support.query.promql.histogram_of_observations import (
    BOUNDS,
    OBSERVATIONS,
    SCHEMAS,
    THRESHOLDS,
    VALUES,
    Observation,
    custom,
    exponential,
    facts,
    widest,
)


@given(OBSERVATIONS, OBSERVATIONS, SCHEMAS, SCHEMAS, THRESHOLDS, THRESHOLDS)
@settings(max_examples=100)
def test_counting_on_is_no_reset(
    some: list[Observation],
    more: list[Observation],
    first: int,
    second: int,
    narrow: int | None,
    wide: int | None,
) -> None:
    """Also where the later histogram is coarser, or its zero bucket wider; finer is a reset."""
    before = exponential(some, max(first, second), narrow)
    after = exponential(some + more, min(first, second), widest(narrow, wide))
    assert not detect_reset(after, before)
    if first != second:
        assert detect_reset(exponential(some + more, max(first, second), narrow), after)


@given(OBSERVATIONS.filter(bool), SCHEMAS)
@settings(max_examples=60)
def test_a_lost_observation_is_a_reset(observations: list[Observation], schema: int) -> None:
    fewer = exponential(observations[1:], schema)
    before = exponential(observations, schema)
    assert detect_reset(fewer, before)
    # The total alone does not give it away.
    assert detect_reset(replace(fewer, count=before.count + 1), before)
    assert not detect_reset(replace(fewer, hint=Hint.NO_RESET), before)
    assert detect_reset(replace(before, hint=Hint.RESET), before)


@given(VALUES, VALUES, BOUNDS, BOUNDS)
@settings(max_examples=60)
def test_custom_buckets_that_count_on_are_no_reset(
    some: list[int], more: list[int], first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    assert not detect_reset(custom(some + more, second), custom(some, first))


def test_custom_resets() -> None:
    before = custom([1, 5, 12], (2.0, 10.0))
    assert detect_reset(custom([5, 5, 12], (2.0, 10.0)), before)
    assert detect_reset(custom([5, 5, 12], (2.0, 20.0)), before)
    assert not detect_reset(custom([1, 12, 12], (2.0,)), before)
    assert detect_reset(custom([1, 5, 12], (2.0,)), exponential([(1, 0)], 0))
    assert detect_reset(exponential([(1, 0)] * 9, 0), before)


def test_hints_found_while_reading() -> None:
    low, high = exponential([(1, 0)], 0), exponential([(1, 0), (1, 0)], 0)
    samples = [low, high, None, low, low.with_hint(Hint.GAUGE), high]
    found = find_hints(samples, np.arange(6), 2)
    assert [one and one.hint for one in found] == [
        Hint.UNKNOWN, Hint.NO_RESET, None, Hint.RESET, Hint.GAUGE, Hint.NO_RESET,
    ]  # fmt: skip


@given(st.lists(OBSERVATIONS.filter(bool), min_size=2, max_size=5), SCHEMAS, st.booleans())
@settings(max_examples=60)
def test_growth_counts_over_resets(parts: list[list[Observation]], schema: int, resets: bool) -> None:
    """Each part is seen after the first; with resets each sample has its own part only."""
    seen: list[Observation] = []
    samples = []
    for part in parts:
        seen = part if resets else seen + part
        hint = Hint.RESET if resets else Hint.NO_RESET
        samples.append(exponential(seen, schema, hint=hint))
    found = growth(samples, is_counter=True)
    expected = [observation for part in parts[1:] for observation in part]
    assert found.histogram is not None
    assert facts(found.histogram) == facts(exponential(expected, schema))
    assert found.histogram.hint == Hint.GAUGE
    assert found.notes == frozenset()


def test_growth_of_a_gauge_may_be_negative() -> None:
    samples = [exponential([(1, 0)] * count, 0, hint=Hint.GAUGE) for count in (3, 9, 1)]
    found = growth(samples, is_counter=False)
    assert found.histogram is not None
    assert found.histogram.count == -2.0
    assert found.notes == frozenset()
    assert growth(samples, is_counter=True).notes == {Note.NOT_COUNTER}
    assert growth([samples[0], exponential([], 0)], is_counter=False).notes == {Note.NOT_GAUGE}


def test_growth_tells_of_mixed_buckets() -> None:
    one, other = exponential([(1, 0)], 0), custom([1], (5.0,))
    for mixed in ([one, other, one], [other, one, other]):
        found = growth(mixed, is_counter=True)
        assert found.histogram is None
        assert found.notes == {Note.MIXED_SCHEMAS}
    # Before a reset nothing matters: here the second sample begins anew.
    found = growth([other, one, exponential([(1, 0)] * 3, 0)], is_counter=True)
    assert found.histogram is not None
    assert found.histogram.count == 3.0


def test_growth_of_different_bounds() -> None:
    found = growth([custom([1], (5.0, 10.0)), custom([1, 7], (5.0,))], is_counter=True)
    assert found.histogram is not None
    assert facts(found.histogram) == facts(custom([7], (5.0,)))
    assert found.notes == {Note.BOUNDS_SUBTRACTED}


def test_a_start_timestamp_tells_of_a_reset_that_counts_hide() -> None:
    samples = [exponential([(1, 0)] * count, 0, hint=Hint.NO_RESET) for count in (3, 4, 6)]
    found = growth(samples, is_counter=True, reset_before=[False, True, False])
    assert found.histogram is not None
    assert found.histogram.count == 6.0


def test_steps() -> None:
    low, high = exponential([(1, 0)], 0), exponential([(1, 0), (1, 0), (1, 0)], 0)
    up, down = step_growth(low, high, is_counter=True), step_growth(high, low, is_counter=True)
    assert up.histogram is not None
    assert down.histogram is not None
    assert (up.histogram.count, down.histogram.count) == (2.0, 1.0)
    fall = step_growth(high, low, is_counter=False)
    assert fall.histogram is not None
    assert fall.histogram.count == -2.0
    assert fall.notes == {Note.NOT_GAUGE}
    mixed = step_growth(custom([1, 2, 3, 4], ()), high, is_counter=False)
    assert mixed.histogram is None
    assert mixed.notes == {Note.MIXED_SCHEMAS, Note.NOT_GAUGE}


def test_between_two_samples() -> None:
    low, high = exponential([(1, 0)] * 2, 0), exponential([(1, 0)] * 6, 0)
    quarter = interpolate(low, 0, high, 1000, 250, is_counter=True).histogram
    assert quarter is not None
    assert quarter.positive.count.tolist() == [3.0]
    reset = interpolate(high, 0, low, 1000, 250, is_counter=True).histogram
    assert reset is not None
    assert reset.count == 0.5
    assert interpolate(low, 0, high, 1000, 1000, is_counter=True).histogram is high
    assert interpolate(low, 0, custom([1], ()), 9, 5, is_counter=False).notes == {Note.MIXED_SCHEMAS}


def test_corrections_add_what_resets_took_away() -> None:
    two, six, one = (exponential([(1, 0)] * count, 0) for count in (2, 6, 1))
    found = reset_correction([six, one], two, two).histogram
    assert found is not None
    assert found.count == 6.0
    assert reset_correction([six], two, six).histogram is None
