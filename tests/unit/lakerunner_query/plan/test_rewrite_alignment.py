"""Requests of dashboards and of the ruler come at times at which derived metrics can answer."""

from __future__ import annotations

from collections import Counter

import pytest

from lakerunner_query.plan.rewrite import WINDOW, ActiveRule, Case, Leaf, LeafTimes
from lakerunner_query.ruler.schedule import Slots
from lakerunner_query.rules.documents import DerivedMetric
from resources.lake.layout import Signal
from resources.lake.timecut import SECOND_NS

RULE = ActiveRule(1, 1, DerivedMetric("m", Signal.LOGS, '{a="b"}'))
NOW_MS = 1_795_183_351_217
MINUTE = 60
RANGES_S = (5 * MINUTE, 15 * MINUTE, 30 * MINUTE, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
"""Quick ranges of Grafana."""
WIDTHS = (400, 800, 1200, 1600)
"""Points of panels."""
NICE_S = (
    (1.5, 1), (3.5, 2), (7.5, 5), (12.5, 10), (17.5, 15), (25, 20), (45, 30), (90, 60), (210, 120),
    (450, 300), (750, 600), (1050, 900), (1500, 1200), (2700, 1800),
)  # fmt: skip
"""Intervals up to which Grafana rounds to which step."""


def step_of(range_s: int, points: int) -> int:
    return next(step for limit, step in NICE_S if range_s / points <= limit)


def is_eligible(first_ms: int, step_s: int, window_s: int, count: int = 10) -> bool:
    times = LeafTimes(first_ms * 1_000_000, step_s * SECOND_NS, count, window_s * SECOND_NS)
    return not WINDOW.refusal(Case(Leaf("x", None, "rate", (), times, None), RULE, None))


def test_dashboards_that_align_to_their_step_are_eligible_by_range_and_width() -> None:
    """Grafana aligns PromQL always, and LogQL where the browser splits ranges."""
    served: Counter[int] = Counter()
    for range_s in RANGES_S:
        for points in WIDTHS:
            step_s = step_of(range_s, points)
            first_ms = (NOW_MS - range_s * 1000) // (step_s * 1000) * step_s * 1000
            served[range_s] += is_eligible(first_ms, step_s, max(step_s, 60))
            assert not is_eligible(NOW_MS - range_s * 1000, step_s, 60), "as it is without aligning"
    assert [served[range_s] for range_s in RANGES_S] == [0, 0, 0, 1, 2, 3, 4, 4, 4, 4]


@pytest.mark.parametrize(("interval_s", "expected"), [(10, 100), (15, 50), (30, 100), (60, 100), (300, 100)])
def test_rules_are_evaluated_at_edges_of_buckets(interval_s: int, expected: int) -> None:
    offsets: set[int] = set()
    for group in range(50):
        slots = Slots.of(f"acme/shop/{group}", interval_s * 1000)
        offsets.add(slots.offset_ms)
        first_ms = slots.latest(NOW_MS)
        times = [first_ms + number * interval_s * 1000 for number in range(100)]
        assert sum(is_eligible(at_ms, 0, 300, 1) for at_ms in times) == expected
    assert interval_s == 10 or len(offsets) > 1, "groups are spread over their interval"
