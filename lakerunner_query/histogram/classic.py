"""Classic histograms give quantiles and fractions from cumulative counts, for all steps at once.

    le 1, 2, +Inf   counts 2, 6, 8     the median (rank 4) is 1 + (2 - 1) * (4 - 2) / (6 - 2) = 1.5

Series of one histogram may be absent at some steps; a step's answer comes from those that are there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from resources.arrays import Doubles, Flags

TOLERANCE = 1e-12
"""Counts that differ by less, relatively, differ by rounding."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Cumulative counts by ascending, distinct bound and step."""

    le: Doubles
    count: Doubles
    present: Flags


@dataclass(frozen=True, slots=True)
class ClassicQuantile:
    value: Doubles
    """Quantile by step; NaN also where there is no bucket at all."""
    is_forced: Flags
    """Steps whose counts went down with rising bounds and were taken as flat."""
    lowest: Doubles
    """First bound at which they went down; +Inf if nowhere."""
    highest: Doubles
    difference: Doubles
    """Largest amount by which they went down."""


def bucket_quantile(q: Doubles, le: Doubles, counts: Doubles, present: Flags) -> ClassicQuantile:
    """Return quantiles; `le` is in any order, and counts of equal bounds are added."""
    raw = _sort_by_bound(le, counts, present)
    steps = raw.count.shape[1]
    is_asked = (q >= 0) & (q <= 1) & _has_infinity(raw)
    fixed, forced = _monotonic(raw)
    value = _interpolate(q, fixed)
    value = np.where(is_asked, value, np.nan)
    value = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, value))
    low, high, most = forced
    is_forced = is_asked & (low <= high)
    return ClassicQuantile(np.broadcast_to(value, steps).astype(np.float64), is_forced, low, high, most)


def bucket_fraction(lower: Doubles, upper: Doubles, le: Doubles, counts: Doubles, present: Flags) -> Doubles:
    """Return the part of observations between two values, by step."""
    raw = _sort_by_bound(le, counts, present)
    total = raw.count[-1]
    low, high = _ranks(lower, raw), _ranks(upper, raw)
    with np.errstate(all="ignore"):
        low = np.where(np.isnan(low) | (low > total), total, low)
        high = np.where(np.isnan(high) | (high > total), total, high)
        found = np.where(lower >= upper, 0.0, (high - low) / total)
    is_known = _has_infinity(raw) & (total != 0) & ~np.isnan(lower) & ~np.isnan(upper)
    return np.where(is_known, found, np.nan)


def _sort_by_bound(le: Doubles, counts: Doubles, present: Flags) -> Counts:
    bounds, first, place = np.unique(le, return_index=True, return_inverse=True)
    if len(bounds) == len(le):
        return Counts(bounds, np.where(present[first], counts[first], 0.0), present[first])
    total = np.zeros((len(bounds), counts.shape[1]))
    there = np.zeros(total.shape, np.bool_)
    with np.errstate(all="ignore"):
        np.add.at(total, place.ravel(), np.where(present, counts, 0.0))
    np.logical_or.at(there, place.ravel(), present)
    return Counts(bounds, total, there)


def _has_infinity(counts: Counts) -> Flags:
    if len(counts.le) == 0 or counts.le[-1] != np.inf:
        return np.zeros(counts.count.shape[1], np.bool_)
    found: Flags = counts.present[-1]
    return found


def _is_close(first: Doubles, second: Doubles) -> Flags:
    """Test equality but for rounding, as Prometheus' `util/almost` does; two NaN are equal."""
    smallest, largest = np.finfo(np.float64).tiny, np.finfo(np.float64).max
    total, gap = np.abs(first) + np.abs(second), np.abs(first - second)
    is_tiny = (first == 0) | (second == 0) | (total < smallest)
    close = np.where(is_tiny, gap < TOLERANCE * smallest, gap / np.minimum(total, largest) < TOLERANCE)
    found: Flags = close | (first == second) | (np.isnan(first) & np.isnan(second))
    return found


def _monotonic(raw: Counts) -> tuple[Counts, tuple[Doubles, Doubles, Doubles]]:
    """Return counts that never go down, and where and how far they did."""
    steps = raw.count.shape[1]
    fixed = raw.count.copy()
    reached, seen = np.zeros(steps), np.zeros(steps, np.bool_)
    low, high, most = np.full(steps, np.inf), np.full(steps, -np.inf), np.zeros(steps)
    with np.errstate(all="ignore"):
        for row, bound in enumerate(raw.le.tolist()):
            here, there = raw.count[row], raw.present[row]
            later = there & seen
            is_same = later & _is_close(reached, here)
            fell = later & ~is_same & (here < reached)
            low, high = (
                np.where(fell, np.minimum(low, bound), low),
                np.where(fell, np.maximum(high, bound), high),
            )
            most = np.where(fell, np.maximum(most, reached - here), most)
            fixed[row] = np.where(is_same | fell, reached, here)
            reached = np.where(there, fixed[row], reached)
            seen |= there
    return Counts(raw.le, fixed, raw.present), (low, high, most)


def _interpolate(q: Doubles, counts: Counts) -> Doubles:
    """Interpolate within the bucket of the rank; the last bucket answers with its begin."""
    steps = counts.count.shape[1]
    value, is_found = np.full(steps, np.nan), np.zeros(steps, np.bool_)
    start, before, seen = np.zeros(steps), np.zeros(steps), np.zeros(steps, np.bool_)
    with np.errstate(all="ignore"):
        total = counts.count[-1]
        rank = q * total
        for row, bound in enumerate(counts.le[:-1].tolist()):
            here, there = counts.count[row], counts.present[row]
            is_here = there & ~is_found & (here >= rank)
            inside = start + (bound - start) * ((rank - before) / (here - before))
            inside = np.where(~seen & (bound <= 0), bound, inside)
            value, is_found = np.where(is_here, inside, value), is_found | is_here
            start, before = np.where(there, bound, start), np.where(there, here, before)
            seen |= there
        value = np.where(is_found, value, start)
    return np.where(seen & (total != 0), value, np.nan)


def _ranks(at: Doubles, counts: Counts) -> Doubles:
    """Count the observations below a value, by step; NaN if it is beyond the last bound."""
    steps = counts.count.shape[1]
    found, is_found = np.full(steps, np.nan), np.zeros(steps, np.bool_)
    start, rank, seen = np.zeros(steps), np.zeros(steps), np.zeros(steps, np.bool_)
    with np.errstate(all="ignore"):
        for row, bound in enumerate(counts.le.tolist()):
            here, there = counts.count[row], counts.present[row]
            start = np.where(there & ~seen, 0.0 if bound > 0 else -np.inf, start)
            inside = rank + (here - rank) * (at - start) / (bound - start)
            inside = np.where(start == -np.inf, here, inside)
            is_before, is_inside = start >= at, bound > at
            is_here = there & ~is_found & (is_before | is_inside)
            found = np.where(is_here, np.where(is_before, rank, inside), found)
            is_found |= is_here
            start, rank, seen = np.where(there, bound, start), np.where(there, here, rank), seen | there
    return found
