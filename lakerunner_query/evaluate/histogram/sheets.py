"""Histograms of one layout as rows of numbers, and `Histogram`s that read theirs only when somebody looks.

      count sum zero (0.5, 1] (1, 2]
        4    5   0      1       3        a row: nothing but where it is, and its hint
        8    8   0      2       .        listed: yes, no

Whoever works on many histograms asks `found_in` for the sheets and never looks at a single one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from lakerunner_query.evaluate.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram
from resources.arrays import Doubles, Flags, Int64s

COUNT, SUM, ZEROS, BUCKETS = 0, 1, 2, 3
"""Places in a row; buckets begin at the last, the positive ones first."""
FEW = 8
"""So many rows of a sheet are worth looking at it instead of at them."""
Objects = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    model: Histogram
    """Has what all have in common."""
    positive: Int64s
    """Places of the positive buckets, ascending; then the negative ones."""
    negative: Int64s
    numbers: Doubles
    """(histograms, numbers); zero where a bucket is not listed."""
    listed: Flags
    """(histograms, buckets)."""

    def histograms(self, hints: Sequence[Hint]) -> Objects:
        """All of them, one object each."""
        place = range(len(self.numbers))
        if len(self.numbers) < FEW:
            return objects([self.histogram(row, hint) for row, hint in zip(place, hints, strict=True)])
        return objects([row_of(self, row, hint) for row, hint in zip(place, hints, strict=True)])

    def histogram(self, row: int, hint: Hint) -> Histogram:
        count, total, zeros = self.numbers[row, :BUCKETS].tolist()
        middle = BUCKETS + len(self.positive)
        counts, listed = self.numbers[row], self.listed[row]
        return Histogram(
            self.model.schema, count, total, self.model.zero_threshold, zeros,
            _buckets(self.positive, counts[BUCKETS:middle], listed[: len(self.positive)]),
            _buckets(self.negative, counts[middle:], listed[len(self.positive) :]),
            self.model.bounds, hint,
        )  # fmt: skip


def _buckets(places: Int64s, counts: Doubles, listed: Flags) -> Buckets:
    if not listed.any():
        return NO_BUCKETS
    return Buckets(places, counts) if listed.all() else Buckets(places[listed], counts[listed])


class Row(Histogram):
    """A histogram whose fields are set when the first of them is read; the hint always is."""

    __slots__ = ("row", "sheet")
    sheet: Sheet
    row: int

    def __new__(cls, *values: Any, **named: Any) -> Histogram:  # type: ignore[misc]
        """What is made of a row with other values (`replace`) is none of the sheet."""
        return Histogram(*values, **named)

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise AttributeError(name)
        known = self.sheet.histogram(self.row, self.hint)
        for field in _FIELDS:
            object.__setattr__(self, field, getattr(known, field))
        return getattr(self, name)

    def with_hint(self, hint: Hint) -> Histogram:
        return self if hint == self.hint else row_of(self.sheet, self.row, hint)


_FIELDS = frozenset({
    "schema", "count", "sum", "zero_threshold", "zero_count", "positive", "negative", "bounds",
})  # fmt: skip
_new = object.__new__
_put_sheet, _put_row, _put_hint = (
    vars(Row)["sheet"].__set__, vars(Row)["row"].__set__, vars(Histogram)["hint"].__set__,
)  # fmt: skip
_sheet, _row = attrgetter("sheet"), attrgetter("row")


def row_of(sheet: Sheet, row: int, hint: Hint) -> Row:
    one = _new(Row)
    _put_sheet(one, sheet)
    _put_row(one, row)
    _put_hint(one, hint)
    return one


def objects(histograms: Sequence[Histogram | None]) -> Objects:
    """Without asking each of them whether it is an array, which would make rows read theirs."""
    found: Objects = np.fromiter(histograms, np.object_, len(histograms))
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """Where many histograms are."""

    sheets: list[Sheet]
    codes: Int64s
    """By histogram: which sheet."""
    rows: Int64s

    @property
    def is_a_sheet(self) -> bool:
        """All of one, in order."""
        size = len(self.sheets[0].numbers)
        return len(self.rows) == size and len(self.sheets) == 1 and np.array_equal(self.rows, np.arange(size))

    def by_sheet(self) -> Iterator[tuple[Sheet, Int64s, Int64s]]:
        """Each sheet, which of the histograms are there, and in which rows."""
        if len(self.sheets) == 1:
            yield self.sheets[0], np.arange(len(self.rows), dtype=np.int64), self.rows
            return
        order = np.argsort(self.codes, kind="stable").astype(np.int64)
        begins = np.searchsorted(self.codes[order], np.arange(len(self.sheets) + 1)).tolist()
        for code, sheet in enumerate(self.sheets):
            mine = order[begins[code] : begins[code + 1]]
            yield sheet, mine, self.rows[mine]

    def column(self, number: int) -> Doubles:
        """COUNT, SUM or ZEROS of all."""
        found = np.empty(len(self.rows))
        for sheet, mine, rows in self.by_sheet():
            found[mine] = sheet.numbers[rows, number]
        return found


def found_in(histograms: Sequence[Histogram]) -> Found | None:
    """None if some are on no sheet, or there are too few of each."""
    if set(map(type, histograms)) != {Row}:
        return None
    sheets = list(map(_sheet, histograms))
    numbers = {sheet: number for number, sheet in enumerate(dict.fromkeys(sheets))}
    if len(histograms) < FEW * len(numbers):
        return None
    count = len(histograms)
    return Found(
        list(numbers),
        np.fromiter(map(numbers.__getitem__, sheets), np.int64, count),
        np.fromiter(map(_row, histograms), np.int64, count),
    )


def totals_of(histograms: Sequence[Histogram], number: int) -> Doubles:
    """COUNT or SUM of all, wherever they are."""
    found = found_in(histograms)
    if found is not None:
        return found.column(number)
    name = "count" if number == COUNT else "sum"
    return np.fromiter(map(attrgetter(name), histograms), np.float64, len(histograms))
