"""Kept sums of histograms over the members of a group, for all steps at once.

Says what `KahanSum` and `KahanMean` say of each step, where all histograms have one layout. Where they have
not, or something gets too large, it says nothing.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.histogram.columns import Columns, columns_of
from lakerunner_query.evaluate.histogram.kahan import plus
from lakerunner_query.evaluate.histogram.model import Hint
from lakerunner_query.evaluate.histogram.sheets import Sheet
from lakerunner_query.evaluate.vectors import Objects
from resources.arrays import Doubles, Flags, Int64s


def grid_sums(cells: Objects, present: Flags, *, is_mean: bool) -> tuple[Objects, Flags] | None:
    """Of (members, steps) cells, every present one a histogram: a sum by step, and where hints conflict."""
    members, steps = np.nonzero(present)
    columns = columns_of(cells[members, steps].tolist())
    if columns is None:
        return None
    sheet = columns.sheet
    numbers = _kept(sheet.numbers, members, steps, present.shape)
    if numbers is None:
        return None
    totals, lost = numbers
    if is_mean:
        by = present.sum(axis=0)[:, None].astype(np.float64)
        totals, lost = totals / by, lost / by
    listed = _listed(sheet, steps, present.shape[1])
    hints, conflicts = _hints(columns, steps, present.shape[1])
    found = Sheet(sheet.model, sheet.positive, sheet.negative, totals + lost, listed)
    return found.histograms(hints), conflicts


def _kept(
    numbers: Doubles, members: Int64s, steps: Int64s, shape: tuple[int, ...]
) -> tuple[Doubles, Doubles] | None:
    """Totals by step and what was lost; None if one is not finite, of which the order of things decides."""
    totals, lost = np.zeros((shape[1], numbers.shape[1])), np.zeros((shape[1], numbers.shape[1]))
    begins = np.searchsorted(members, np.arange(shape[0] + 1))
    for member in range(shape[0]):
        rows = slice(int(begins[member]), int(begins[member + 1]))
        at = steps[rows]
        totals[at], lost[at] = plus(numbers[rows], totals[at], lost[at])
    return (totals, lost) if bool(np.isfinite(totals).all()) else None


def _listed(sheet: Sheet, steps: Int64s, count: int) -> Flags:
    found = np.zeros((count, sheet.listed.shape[1]), np.bool_)
    np.logical_or.at(found, steps, sheet.listed)
    return found


def _hints(columns: Columns, steps: Int64s, count: int) -> tuple[list[Hint], Flags]:
    has = {hint: np.bincount(steps, columns.hints == hint, minlength=count) > 0 for hint in Hint}
    joint = np.full(count, Hint.UNKNOWN, np.int8)
    for hint in (Hint.RESET, Hint.NO_RESET):
        others = np.logical_or.reduce([has[other] for other in Hint if other != hint])
        joint[has[hint] & ~others] = hint
    joint[has[Hint.GAUGE]] = Hint.GAUGE
    return [Hint(hint) for hint in joint.tolist()], has[Hint.RESET] & has[Hint.NO_RESET]
