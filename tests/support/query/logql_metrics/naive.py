"""Range functions as definitions say them: slow, one window at a time, nothing shared with the product."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def windows(start: int, step: int, count: int, width: int) -> list[tuple[int, int]]:
    """Exclusive beginnings and inclusive ends."""
    return [(start + at * step - width, start + at * step) for at in range(count)]


def inside(samples: Sequence[tuple[int, float]], window: tuple[int, int]) -> list[tuple[int, float]]:
    return [sample for sample in samples if window[0] < sample[0] <= window[1]]


def value(
    op: str, samples: Sequence[tuple[int, float]], window: tuple[int, int], wanted: float
) -> float | None:
    """Of samples in order of time; None where there are none."""
    found = inside(samples, window)
    if not found:
        return None
    numbers = [number for _, number in found]
    seconds = (window[1] - window[0]) / 1e9
    if op == "rate_counter":
        return growth(found, window) / seconds
    return {
        "sum_over_time": lambda: sum(numbers),
        "rate": lambda: sum(numbers) / seconds,
        "avg_over_time": lambda: sum(numbers) / len(numbers),
        "stdvar_over_time": lambda: variance(numbers),
        "stddev_over_time": lambda: math.sqrt(variance(numbers)),
        "first_over_time": lambda: numbers[0],
        "last_over_time": lambda: numbers[-1],
        "min_over_time": lambda: min(numbers),
        "max_over_time": lambda: max(numbers),
        "quantile_over_time": lambda: quantile(wanted, numbers),
    }[op]()


def variance(numbers: Sequence[float]) -> float:
    mean = math.fsum(numbers) / len(numbers)
    return math.fsum((number - mean) ** 2 for number in numbers) / len(numbers)


def quantile(wanted: float, numbers: Sequence[float]) -> float:
    if not 0 <= wanted <= 1:
        return -math.inf if wanted < 0 else math.inf
    ranked = sorted(numbers)
    rank = wanted * (len(ranked) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (rank - low)


def growth(samples: Sequence[tuple[int, float]], window: tuple[int, int]) -> float:
    """Of a counter that falls only when it begins again, drawn out to the edges of the window."""
    if len(samples) < 2:
        return 0.0
    drops = [a for (_, a), (_, b) in itertools.pairwise(samples) if b < a]
    grown = samples[-1][1] - samples[0][1] + sum(drops)
    sampled = samples[-1][0] - samples[0][0]
    apart = sampled / (len(samples) - 1)
    before, behind = samples[0][0] - window[0], window[1] - samples[-1][0]
    before = apart / 2 if before >= apart * 1.1 else before
    behind = apart / 2 if behind >= apart * 1.1 else behind
    if grown > 0 and samples[0][1] >= 0:
        before = min(before, sampled * samples[0][1] / grown)
    return grown * (sampled + before + behind) / sampled
