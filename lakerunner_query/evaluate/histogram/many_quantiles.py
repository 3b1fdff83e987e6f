"""Quantiles of many histograms at once: exponential buckets, none negative, a sum that is known.

Says what `quantile` says of each; the walk is a kernel, the logarithms are taken for all together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lakerunner_query.evaluate.histogram.bounds import exponential_bounds
from lakerunner_query.evaluate.histogram.model import Histogram
from lakerunner_query.evaluate.histogram.sheets import BUCKETS, COUNT, SUM, ZEROS, Sheet
from resources.arrays import Doubles, Flags, Int8s, Int64s
from resources.kernel import kernel

AS_IT_IS, LINEAR, EXPONENTIAL = range(3)
"""How a value lies in its bucket."""


def is_plain(histogram: Histogram, q: float) -> bool:
    return (
        not histogram.is_custom
        and not histogram.negative.size
        and 0 <= q <= 1
        and not math.isnan(histogram.sum)
        and histogram.count != 0
    )


def plain_quantiles(quantiles: Doubles, histograms: Sequence[Histogram]) -> Doubles:
    """All of them plain, each with its own quantile."""
    sizes = np.fromiter((one.positive.size for one in histograms), np.int64, len(histograms))
    index = np.concatenate([one.positive.index for one in histograms])
    counts = np.concatenate([one.positive.count for one in histograms])
    schemas = np.repeat(np.array([one.schema for one in histograms], np.int64), sizes)
    lower, upper = np.empty(len(index)), np.empty(len(index))
    for schema in np.unique(schemas).tolist():
        rows = schemas == schema
        lower[rows] = exponential_bounds(index[rows] - 1, schema)
        upper[rows] = exponential_bounds(index[rows], schema)
    totals = np.array([(one.count, one.zero_threshold, one.zero_count) for one in histograms], np.float64)
    return _walked(quantiles, totals, sizes, lower, upper, counts)


def sheet_quantiles(quantiles: Doubles, sheet: Sheet, rows: Int64s) -> tuple[Doubles, Flags]:
    """Of these rows, each with its own quantile; and which of them are plain, the others are not told."""
    numbers, listed = sheet.numbers[rows], sheet.listed[rows]
    middle = len(sheet.positive)
    with np.errstate(invalid="ignore"):
        plain = (quantiles >= 0) & (quantiles <= 1) & ~np.isnan(numbers[:, SUM]) & (numbers[:, COUNT] != 0)
    plain &= ~np.logical_or.reduce(listed[:, middle:], axis=1) & (not sheet.model.is_custom)
    found = np.full(len(rows), np.nan)
    if not plain.any():
        return found, plain
    if not plain.all():
        quantiles, numbers, listed = quantiles[plain], numbers[plain], listed[plain]
    is_there = listed[:, :middle]
    places = np.nonzero(is_there)[1]
    totals = np.stack((numbers[:, COUNT], np.zeros(len(numbers)), numbers[:, ZEROS]), axis=1)
    totals[:, 1] = sheet.model.zero_threshold
    lower, upper = (
        exponential_bounds(index, sheet.model.schema) for index in (sheet.positive - 1, sheet.positive)
    )
    found[plain] = _walked(
        quantiles, totals, np.count_nonzero(is_there, axis=1), lower[places], upper[places],
        numbers[:, BUCKETS : BUCKETS + middle][is_there],
    )  # fmt: skip
    return found, plain


def _walked(
    quantiles: Doubles, totals: Doubles, sizes: Int64s, lower: Doubles, upper: Doubles, counts: Doubles
) -> Doubles:
    """`totals`: count, zero threshold and zero count of each."""
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    found = np.empty((len(sizes), 3))
    kinds = np.empty(len(sizes), np.int8)
    _walks(quantiles, totals, offsets, lower, upper, counts, found, kinds)
    return _placed(found, kinds)


def _placed(found: Doubles, kinds: Int8s) -> Doubles:
    low, high, fraction = found.T
    with np.errstate(all="ignore"):
        linear = low + (high - low) * fraction
        ends = np.log2(np.where(kinds == EXPONENTIAL, low, 1.0)), np.log2(np.where(high > 0, high, 1.0))
        exponential = np.exp2(ends[0] + (ends[1] - ends[0]) * fraction)
    return np.select([kinds == LINEAR, kinds == EXPONENTIAL], [linear, exponential], high)


@kernel
def _walks(
    quantiles: Doubles,
    totals: Doubles,
    offsets: Int64s,
    lower: Doubles,
    upper: Doubles,
    counts: Doubles,
    found: Doubles,
    kinds: Int8s,
) -> None:
    """By histogram: the bucket of its quantile, how far into it, and how to draw the line."""
    for one in range(len(kinds)):
        count, threshold, zeros = totals[one, 0], totals[one, 1], totals[one, 2]
        begin, end = offsets[one], offsets[one + 1]
        upwards = quantiles[one] < 0.5
        rank = (quantiles[one] if upwards else 1 - quantiles[one]) * count
        places = end - begin + (1 if zeros > 0 else 0)
        zero_at = -1 if zeros <= 0 else (0 if upwards else places - 1)
        low = high = inside = reached = 0.0
        for place in range(places):
            if place == zero_at:
                low, high, inside = -threshold, threshold, zeros
            else:
                row = begin + place - (1 if zero_at == 0 else 0) if upwards else end - 1 - place
                low, high, inside = lower[row], upper[row], counts[row]
                if 0 < low < threshold:
                    low = threshold
            if inside == 0:
                continue
            reached += inside
            if reached >= rank:
                break
        if low < 0 < high and end > begin:
            low = 0.0
        counted = min(reached, count)
        found[one, 0], found[one, 1], found[one, 2] = low, high, 0.0
        if counted < rank:
            kinds[one] = AS_IT_IS
            continue
        into = rank - (counted - inside) if upwards else counted - rank
        found[one, 2] = into / inside if inside else np.nan
        kinds[one] = LINEAR if low <= 0 <= high else EXPONENTIAL
