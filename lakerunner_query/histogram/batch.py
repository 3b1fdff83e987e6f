"""Histograms of one layout share a sheet of numbers; a `Row` reads its own only when somebody looks.

      count sum zero (0.5, 1] (1, 2]
        4    5   0      1       3        a row: its place in the sheet, and its hint
        8    8   0      2       .        listed: yes, no

Arithmetic that does the same with every number runs on whole sheets (`columns_of`). Histograms of other
layouts, and those that count something within their own zero bucket, are left to single arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from lakerunner_query.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram, exponential_bounds
from resources.arrays import Doubles, Flags, Int8s, Int64s

COUNT, SUM, ZEROS, BUCKETS = 0, 1, 2, 3
"""Places in a row; buckets begin at the last, the positive ones first."""
FEW = 8
"""Number of rows from which on a sheet is faster than its histograms."""
Objects = npt.NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    model: Histogram
    """Holder of what all have in common."""
    positive: Int64s
    """Places of the positive buckets, ascending; then the negative ones."""
    negative: Int64s
    numbers: Doubles
    """(histograms, numbers); zero where a bucket is not listed."""
    is_listed: Flags
    """(histograms, buckets)."""

    def histograms(self, hints: Sequence[Hint]) -> Objects:
        """Return all rows, one object each."""
        place = range(len(self.numbers))
        if len(self.numbers) < FEW:
            return objects([self.histogram(row, hint) for row, hint in zip(place, hints, strict=True)])
        return objects([row_of(self, row, hint) for row, hint in zip(place, hints, strict=True)])

    def histogram(self, row: int, hint: Hint) -> Histogram:
        count, total, zeros = self.numbers[row, :BUCKETS].tolist()
        middle = BUCKETS + len(self.positive)
        counts, listed = self.numbers[row], self.is_listed[row]
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
    """A histogram whose fields are set when the first of them is read, but for the hint."""

    __slots__ = ("row", "sheet")
    sheet: Sheet
    row: int

    def __new__(cls, *values: Any, **named: Any) -> Histogram:  # type: ignore[misc]
        """Make a plain histogram: `replace` of a row leaves the sheet."""
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
    """Make an array without asking each object whether it is one, which would make rows read theirs."""
    found: Objects = np.fromiter(histograms, np.object_, len(histograms))
    return found


@dataclass(frozen=True, slots=True)
class SheetRows:
    """Sheets and rows of many histograms."""

    sheets: list[Sheet]
    codes: Int64s
    """Number of the sheet, by histogram."""
    rows: Int64s

    @property
    def is_whole_sheet(self) -> bool:
        """All rows of one sheet, in order."""
        size = len(self.sheets[0].numbers)
        return len(self.rows) == size and len(self.sheets) == 1 and np.array_equal(self.rows, np.arange(size))

    def by_sheet(self) -> Iterator[tuple[Sheet, Int64s, Int64s]]:
        """Yield each sheet, its histograms among all, and their rows."""
        if len(self.sheets) == 1:
            yield self.sheets[0], np.arange(len(self.rows), dtype=np.int64), self.rows
            return
        order = np.argsort(self.codes, kind="stable").astype(np.int64)
        begins = np.searchsorted(self.codes[order], np.arange(len(self.sheets) + 1)).tolist()
        for code, sheet in enumerate(self.sheets):
            mine = order[begins[code] : begins[code + 1]]
            yield sheet, mine, self.rows[mine]

    def column(self, number: int) -> Doubles:
        """Return COUNT, SUM or ZEROS of all."""
        found = np.empty(len(self.rows))
        for sheet, mine, rows in self.by_sheet():
            found[mine] = sheet.numbers[rows, number]
        return found


def find_rows(histograms: Sequence[Histogram]) -> SheetRows | None:
    """Return None if some are on no sheet, or there are too few of each."""
    if set(map(type, histograms)) != {Row}:
        return None
    sheets, count = list(map(_sheet, histograms)), len(histograms)
    if count >= FEW and sheets.count(sheets[0]) == count:  # nearly always
        return SheetRows(
            sheets[:1], np.zeros(count, np.int64), np.fromiter(map(_row, histograms), np.int64, count)
        )
    numbers = {sheet: number for number, sheet in enumerate(dict.fromkeys(sheets))}
    if count < FEW * len(numbers):
        return None
    return SheetRows(
        list(numbers),
        np.fromiter(map(numbers.__getitem__, sheets), np.int64, count),
        np.fromiter(map(_row, histograms), np.int64, count),
    )


def totals_of(histograms: Sequence[Histogram], number: int) -> Doubles:
    """Return COUNT or SUM of all, wherever they are."""
    found = find_rows(histograms)
    if found is not None:
        return found.column(number)
    name = "count" if number == COUNT else "sum"
    return np.fromiter(map(attrgetter(name), histograms), np.float64, len(histograms))


EMPTIEST = 8
"""Largest number of places in a sheet for each bucket that was sent."""
WIDEST = 1 << 16
"""Distance between the lowest and the highest bucket beyond which places are found by sorting."""
_hint = attrgetter("hint")
_HINTS = list(Hint)
"""By number."""


def hints_of(numbers: Int8s) -> list[Hint]:
    return [_HINTS[number] for number in numbers.tolist()]


@dataclass(frozen=True, slots=True)
class Columns:
    sheet: Sheet
    hints: Int8s


def columns_of(histograms: Sequence[Histogram]) -> Columns | None:
    """Return at least one histogram as columns; None where single arithmetic has to do it."""
    found = find_rows(histograms)
    sheet = _sheet_of(histograms) if found is None else join_sheets(found)
    if sheet is None:
        return None
    if not (is_beyond(sheet.positive, sheet.model) and is_beyond(sheet.negative, sheet.model)):
        return None
    return Columns(sheet, np.fromiter(map(_hint, histograms), np.int8, len(histograms)))


def is_beyond(places: Int64s, model: Histogram) -> bool:
    """Test whether none of these buckets ends within the zero bucket."""
    if model.is_custom or model.zero_threshold == 0 or not len(places):
        return True
    return bool((exponential_bounds(places, model.schema) > model.zero_threshold).all())


def _layout(one: Histogram) -> tuple[int, float, tuple[float, ...]]:
    return one.schema, one.zero_threshold, one.bounds


def _sheet_of(histograms: Sequence[Histogram]) -> Sheet | None:
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
    """Return places, counts, and flags of listed buckets."""
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
    """Return the distinct ones, ascending, and the place of each among them."""
    low, high = int(index.min()), int(index.max())
    if high - low > WIDEST:
        places, where = np.unique(index, return_inverse=True)
        return places, where.ravel().astype(np.int64)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[index - low] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[index - low]


def join_sheets(found: SheetRows) -> Sheet | None:
    """Join rows of some sheets to one sheet, without buckets that none of the rows lists."""
    first = found.sheets[0]
    if found.is_whole_sheet:
        return drop_unlisted(first)
    if any(_layout(sheet.model) != _layout(first.model) for sheet in found.sheets):
        return None
    positive, negative = (
        _all_places([getattr(sheet, side) for sheet in found.sheets]) for side in ("positive", "negative")
    )
    width = len(positive) + len(negative)
    if len(found.rows) * width > EMPTIEST * sum(sheet.numbers.size for sheet in found.sheets) + WIDEST:
        return None
    numbers, listed = (
        np.zeros((len(found.rows), BUCKETS + width)),
        np.zeros((len(found.rows), width), np.bool_),
    )
    for sheet, mine, rows in found.by_sheet():
        if np.array_equal(sheet.positive, positive) and np.array_equal(sheet.negative, negative):
            numbers[mine], listed[mine] = sheet.numbers[rows], sheet.is_listed[rows]
            continue
        at = np.concatenate(
            (
                np.searchsorted(positive, sheet.positive),
                np.searchsorted(negative, sheet.negative) + len(positive),
            )
        )
        numbers[mine, :BUCKETS] = sheet.numbers[rows, :BUCKETS]
        numbers[mine[:, None], at + BUCKETS] = sheet.numbers[rows, BUCKETS:]
        listed[mine[:, None], at] = sheet.is_listed[rows]
    return drop_unlisted(Sheet(first.model, positive, negative, numbers, listed))


def _all_places(places: list[Int64s]) -> Int64s:
    first = places[0]
    if all(one is first or np.array_equal(one, first) for one in places):
        return first
    return np.unique(np.concatenate(places))


def drop_unlisted(sheet: Sheet) -> Sheet:
    used: Flags = np.logical_or.reduce(sheet.is_listed, axis=0)
    if used.all():
        return sheet
    middle = len(sheet.positive)
    keep = np.concatenate((np.ones(BUCKETS, np.bool_), used))
    return Sheet(
        sheet.model,
        sheet.positive[used[:middle]],
        sheet.negative[used[middle:]],
        sheet.numbers[:, keep],
        sheet.is_listed[:, used],
    )
