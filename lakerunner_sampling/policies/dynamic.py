"""Dynamic samplers learn a rate for each key of traces, as Refinery's do.

    12,000 times "GET /", 30 times "POST /pay", goal 1 in 10   →   1 in 18 of the first, each of the second

Counts of an interval enter an exponential moving average; each key gets a share of the goal in proportion to
the logarithm of its average. Rates change between batches only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakerunner_sampling.policies.limits import SECOND

NEW_KEY_RATE = 1


@dataclass(frozen=True, slots=True)
class DynamicSettings:
    """Settings of a dynamic sampler; exactly one goal is given."""

    goal_rate: float = 0.0
    """Mean rate: one trace in so many."""
    goal_per_second: float = 0.0
    """Traces to keep each second."""
    initial_rate: float = 10.0
    """Rate before anything was learned."""
    interval_s: float = 15.0
    weight: float = 0.5
    age_out: float = 0.5
    max_keys: int = 500
    burst_multiple: float = 2.0
    burst_delay: int = 3
    """Intervals before bursts are looked for."""


@dataclass(slots=True)
class DynamicState:
    """Averages, rates and counts of a dynamic sampler; travels as JSON."""

    average: dict[str, float] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    since_ns: int | None = None
    intervals: int = 0
    burst_at: float = 0.0

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> DynamicState:
        fresh = cls(**(stored or {}))
        return cls(
            dict(fresh.average), dict(fresh.rates), dict(fresh.counts),
            fresh.since_ns, fresh.intervals, fresh.burst_at,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def rate(self, key: str, settings: DynamicSettings) -> int:
        """Return the rate of a key: 1 for a key that was never seen."""
        if not self.rates:
            return max(1, round(settings.goal_rate or settings.initial_rate))
        return self.rates.get(key, NEW_KEY_RATE)

    def count(self, seen: Mapping[str, int], settings: DynamicSettings, now_ns: int) -> None:
        """Count a batch, and learn when the interval is over or traffic bursts.

        The first batch starts the interval: how long its traces took to come is not known.
        """
        if self.since_ns is None:
            self.since_ns = now_ns
            return
        for key in sorted(seen):
            if key in self.counts or len(self.counts) < settings.max_keys:
                self.counts[key] = self.counts.get(key, 0.0) + seen[key]
        is_over = now_ns - self.since_ns >= settings.interval_s * SECOND
        total = sum(self.counts.values())
        bursts = 0 < self.burst_at <= total and self.intervals >= settings.burst_delay
        if (is_over or bursts) and self.counts:
            elapsed_s = max((now_ns - self.since_ns) / SECOND, settings.interval_s)
            self.intervals += is_over
            self.since_ns = now_ns
            self._learn(settings, elapsed_s)

    def _learn(self, settings: DynamicSettings, elapsed_s: float) -> None:
        self.average = _averaged(self.average, self.counts, settings)
        self.counts = {}
        total = sum(max(1.0, each) for each in self.average.values())
        self.burst_at = total * settings.burst_multiple if settings.burst_multiple > 0 else 0.0
        goal = total / settings.goal_rate if settings.goal_rate else settings.goal_per_second * elapsed_s
        self.rates = rates_of(goal, self.average)


def _averaged(
    average: Mapping[str, float], counts: Mapping[str, float], settings: DynamicSettings
) -> dict[str, float]:
    weight = settings.weight
    found = {key: (1 - weight) * average.get(key, 0.0) + weight * counts.get(key, 0.0)
             for key in {*average, *counts}}  # fmt: skip
    kept = {key: found[key] for key in sorted(found) if found[key] >= settings.age_out}
    largest = sorted(kept, key=lambda key: (-kept[key], key))[: settings.max_keys]
    return {key: kept[key] for key in sorted(largest)}


def rates_of(goal: float, average: Mapping[str, float]) -> dict[str, int]:
    """Share a number of traces to keep among keys by the logarithm of their counts.

    >>> rates_of(100, {"a": 10_000.0, "b": 10.0})
    {'a': 125, 'b': 1}
    """
    logs = sum(math.log10(max(1.0, each)) for each in average.values())
    ratio = goal / logs if logs else math.inf
    rates: dict[str, int] = {}
    extra, left = 0.0, len(average)
    for key in sorted(average):
        count = max(1.0, average[key])
        share = math.log10(count) * ratio if count > 1 else 1.0
        wanted = max(1.0, share) + extra / left
        extra -= extra / left
        left -= 1
        rates[key] = 1 if count <= wanted else math.ceil(count / wanted)
        extra += wanted - count / rates[key]
    return rates
