"""Many histograms as columns of numbers, if they have one schema, one zero threshold and the same bounds.

Arithmetic that does the same with every number is done for all histograms at once. Others are left to the
arithmetic of single ones, and so are those that count something within their own zero bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from lakerunner_query.evaluate.histogram.bounds import exponential_bounds
from lakerunner_query.evaluate.histogram.model import NO_BUCKETS, Buckets, Histogram
from lakerunner_query.evaluate.histogram.sheets import BUCKETS, Found, Sheet, found_in
from resources.arrays import Doubles, Flags, Int8s, Int64s

WIDEST = 1 << 16
"""Between the lowest and the highest bucket; beyond it, places are found by sorting."""
_hint = attrgetter("hint")


@dataclass(frozen=True, slots=True)
class Columns:
    sheet: Sheet
    hints: Int8s


def columns_of(histograms: Sequence[Histogram]) -> Columns | None:
    """At least one; None where single arithmetic has to do it."""
    found = found_in(histograms)
    sheet = _joined(histograms) if found is None else _gathered(found)
    if sheet is None:
        return None
    if not (is_beyond(sheet.positive, sheet.model) and is_beyond(sheet.negative, sheet.model)):
        return None
    return Columns(sheet, np.fromiter(map(_hint, histograms), np.int8, len(histograms)))


def is_beyond(places: Int64s, model: Histogram) -> bool:
    """Whether none of these buckets ends within the zero bucket."""
    if model.is_custom or model.zero_threshold == 0 or not len(places):
        return True
    return bool((exponential_bounds(places, model.schema) > model.zero_threshold).all())


def _layout(one: Histogram) -> tuple[int, float, tuple[float, ...]]:
    return one.schema, one.zero_threshold, one.bounds


def _joined(histograms: Sequence[Histogram]) -> Sheet | None:
    model = histograms[0]
    if any(_layout(one) != _layout(model) for one in histograms):
        return None
    positive, negative = (
        _side([one.positive for one in histograms]),
        _side([one.negative for one in histograms]),
    )
    totals = np.array([(one.count, one.sum, one.zero_count) for one in histograms], np.float64)
    return Sheet(
        model,
        positive[0],
        negative[0],
        np.concatenate((totals, positive[1], negative[1]), axis=1),
        np.concatenate((positive[2], negative[2]), axis=1),
    )


def _side(sides: list[Buckets]) -> tuple[Int64s, Doubles, Flags]:
    """Places, counts and where they are listed."""
    sizes = np.fromiter((len(one.index) for one in sides), np.int64, len(sides))
    index = np.concatenate([one.index for one in sides])
    if not len(index):
        none = np.zeros((len(sides), 0))
        return NO_BUCKETS.index, none, none.astype(np.bool_)
    counts = np.concatenate([one.count for one in sides])
    places, where = places_of(index)
    rows = np.repeat(np.arange(len(sides)), sizes)
    matrix, listed = np.zeros((len(sides), len(places))), np.zeros((len(sides), len(places)), np.bool_)
    matrix[rows, where], listed[rows, where] = counts, True
    return places, matrix, listed


def places_of(index: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct ones, ascending, and where each is among them."""
    low, high = int(index.min()), int(index.max())
    if high - low > WIDEST:
        places, where = np.unique(index, return_inverse=True)
        return places, where.ravel().astype(np.int64)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[index - low] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[index - low]


def _gathered(found: Found) -> Sheet | None:
    """Rows of some sheets as one sheet, without buckets that none of the rows lists."""
    first = found.sheets[0]
    if found.is_a_sheet:
        return only_listed(first)
    if any(_layout(sheet.model) != _layout(first.model) for sheet in found.sheets):
        return None
    positive, negative = (
        _all_places([getattr(sheet, side) for sheet in found.sheets]) for side in ("positive", "negative")
    )
    width = len(positive) + len(negative)
    numbers, listed = (
        np.zeros((len(found.rows), BUCKETS + width)),
        np.zeros((len(found.rows), width), np.bool_),
    )
    for sheet, mine, rows in found.by_sheet():
        if np.array_equal(sheet.positive, positive) and np.array_equal(sheet.negative, negative):
            numbers[mine], listed[mine] = sheet.numbers[rows], sheet.listed[rows]
            continue
        at = np.concatenate(
            (
                np.searchsorted(positive, sheet.positive),
                np.searchsorted(negative, sheet.negative) + len(positive),
            )
        )
        numbers[mine, :BUCKETS] = sheet.numbers[rows, :BUCKETS]
        numbers[mine[:, None], at + BUCKETS] = sheet.numbers[rows, BUCKETS:]
        listed[mine[:, None], at] = sheet.listed[rows]
    return only_listed(Sheet(first.model, positive, negative, numbers, listed))


def _all_places(places: list[Int64s]) -> Int64s:
    first = places[0]
    if all(one is first or np.array_equal(one, first) for one in places):
        return first
    return np.unique(np.concatenate(places))


def only_listed(sheet: Sheet) -> Sheet:
    used: Flags = np.logical_or.reduce(sheet.listed, axis=0)
    if used.all():
        return sheet
    middle = len(sheet.positive)
    keep = np.concatenate((np.ones(BUCKETS, np.bool_), used))
    return Sheet(
        sheet.model,
        sheet.positive[used[:middle]],
        sheet.negative[used[middle:]],
        sheet.numbers[:, keep],
        sheet.listed[:, used],
    )
