"""Evaluation times: never before their data, and none is left out because data was late."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.ruler.schedule import Slots, next_time

LEAST_MS = 5_000


def evaluated(delays_ms: list[int], slots: Slots, evaluation_ms: int = 0) -> list[tuple[int, int]]:
    """Return evaluation times, with the times up to which data was there; one delay a second."""
    clock_ms, before_ms, waited_ms, found = 1_000_000, None, 0, []
    for delay_ms in delays_ms:
        for _ in range(20):
            until_ms = clock_ms - max(LEAST_MS, delay_ms)
            waited_ms = max(waited_ms, clock_ms - until_ms)
            at_ms = next_time(slots, until_ms, before_ms, clock_ms, waited_ms)
            if before_ms is not None and at_ms <= before_ms:
                break
            before_ms, waited_ms = at_ms, 0 if at_ms == slots.latest(until_ms) else waited_ms
            found.append((at_ms, until_ms))
            clock_ms += evaluation_ms
        clock_ms += 1_000
    return found


def waiting() -> st.SearchStrategy[list[int]]:
    """Seconds in which data waits longer and longer, between such in which none does."""
    stalls = st.integers(0, 100).map(lambda seconds: [1_000 * n for n in range(seconds)])
    return st.lists(stalls, max_size=8).map(lambda found: [one for stall in found for one in [*stall, 0, 0]])


@given(waiting(), st.integers(2, 60).map(lambda seconds: Slots(1_000 * seconds, 700)))
def test_late_data_makes_evaluations_late_and_leaves_none_out(delays_ms: list[int], slots: Slots) -> None:
    found = evaluated(delays_ms, slots)
    assert all(at_ms <= until_ms for at_ms, until_ms in found)
    times = [at_ms for at_ms, _ in found]
    assert times == list(range(times[0], times[-1] + 1, slots.interval_ms)) if times else True


def test_a_slow_process_leaves_times_out() -> None:
    times = [at_ms for at_ms, _ in evaluated([0] * 60, Slots(10_000, 0), evaluation_ms=25_000)]
    assert {later - earlier for earlier, later in pairwise(times)} >= {20_000}
    assert max(times) > 1_000_000 + 24_000
