"""Typed columns hold one `Part` for each type that an attribute was sent with.

    span   span.mixed       parts
    0      1                int     rows [0]      values [1]
    1      "one"            string  rows [1]      values ["one"]
    2      ["a", "b"]       string  rows [2, 2]   values ["a", "b"]     a list: a row with several values
    3      -

A condition holds for a row if it holds for any of its values; a row without the attribute meets none but
`= nil`. Texts are compared once for each distinct text.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from lakerunner_query.gotext.regexp import full_matches
from lakerunner_query.traceql.lang.ast import Literal, Type
from resources.arrays import Doubles, Flags, Int32s, Int64s

NUMBERS = frozenset({Type.INTEGER, Type.FLOAT, Type.DURATION})
SPARSE = 8
"""Possible numbers for each row above which sorting takes less than counting."""
STATUSES = ("unset", "ok", "error")
SPAN_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
Scalar = str | int | float | bool
Array = npt.NDArray[Any]
GroupValue = tuple[Type | None, Scalar | tuple[Scalar, ...]]
"""A value that spans are grouped by, with its type; nil has none."""


@dataclass(frozen=True, slots=True)
class Part:
    """Values of one type, by row; a row with several values is a list."""

    kind: Type
    rows: Int64s
    """Rows that have a value, ascending."""
    values: Array
    """Numbers or flags; of texts, statuses and kinds the places in `texts`."""
    texts: tuple[str, ...] = ()
    is_list: bool = False
    """The values were sent as an array, or are those of events or links."""

    def take(self, keep: Flags) -> Part:
        return Part(self.kind, self.rows[keep], self.values[keep], self.texts, self.is_list)

    def scalars(self) -> list[Scalar]:
        """Return the values as Python objects."""
        if self.has_texts:
            return [self.texts[place] for place in self.values.tolist()]
        found: list[Scalar] = self.values.tolist()
        return found

    @property
    def has_texts(self) -> bool:
        return self.kind not in NUMBERS and self.kind is not Type.BOOLEAN


@dataclass(frozen=True, slots=True)
class Column:
    """Values of an attribute or an expression, over `size` rows."""

    size: int
    parts: tuple[Part, ...] = ()

    def present(self) -> Flags:
        """Flag rows that have a value."""
        found = np.zeros(self.size, np.bool_)
        for part in self.parts:
            found[part.rows] = True
        return found

    def true(self) -> Flags:
        """Flag rows that are `true`."""
        found = np.zeros(self.size, np.bool_)
        for part in self.parts:
            if part.kind is Type.BOOLEAN:
                found[part.rows[part.values]] = True
        return found

    def within(self, rows: Int64s) -> Column:
        """Return the values of these rows, which become rows 0, 1, ...; a row may be named twice."""
        found = []
        for part in self.parts:
            first = np.searchsorted(part.rows, rows, "left")
            counts = np.searchsorted(part.rows, rows, "right") - first
            owners = np.repeat(np.arange(len(rows)), counts)
            skipped = np.repeat(np.cumsum(counts) - counts, counts)
            places = np.repeat(first, counts) + np.arange(len(owners)) - skipped
            found.append(Part(part.kind, owners, part.values[places], part.texts, part.is_list))
        return Column(len(rows), tuple(one for one in found if len(one.rows)))

    def numbers(self) -> tuple[Doubles, Flags]:
        """Return numbers by row, and the rows that have one; lists have none."""
        values, found = np.zeros(self.size), np.zeros(self.size, np.bool_)
        for part in self.parts:
            if part.kind in NUMBERS and not part.is_list:
                values[part.rows], found[part.rows] = part.values, True
        return values, found

    def by_row(self) -> list[list[tuple[Part, Scalar]]]:
        """Return each row's values with their parts."""
        found: list[list[tuple[Part, Scalar]]] = [[] for _ in range(self.size)]
        for part in self.parts:
            for row, value in zip(part.rows.tolist(), part.scalars(), strict=True):
                found[row].append((part, value))
        return found


def dense(kind: Type, values: Array, valid: Flags | None = None, texts: Sequence[str] = ()) -> Column:
    """Return a column with one value for each row, or for each valid row."""
    rows = np.arange(len(values)) if valid is None else np.flatnonzero(valid)
    part = Part(kind, rows, values if valid is None else values[rows], tuple(texts))
    return Column(len(values), (part,) if len(rows) else ())


def constant(literal: Literal, size: int) -> Column:
    """Return a literal as a column."""
    value = literal.value
    if value is None:
        return Column(size)
    if isinstance(value, str):
        return dense(literal.type, np.zeros(size, np.int32), texts=(value,))
    return dense(literal.type, np.full(size, value))


def first_of(columns: Iterable[Column], size: int) -> Column:
    """Return, of each row, the values of the first column that has some."""
    parts: list[Part] = []
    taken = np.zeros(size, np.bool_)
    for column in columns:
        added = [
            part if not taken[part.rows].any() else part.take(~taken[part.rows]) for part in column.parts
        ]
        parts += [part for part in added if len(part.rows)]
        for part in added:
            taken[part.rows] = True
    return Column(size, tuple(parts))


def united(columns: Iterable[Column], size: int) -> Column:
    """Return all values of all columns."""
    return Column(size, tuple(part for column in columns for part in column.parts))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def part_meets(part: Part, op: str, literal: Literal) -> Flags:
    """Flag the values of a part that compare so with a constant; those of an unlike type never do."""
    if not _same_type(part.kind, literal.type):
        return np.zeros(len(part.rows), np.bool_)
    compare = COMPARISONS[op]
    if part.has_texts:
        return _by_text(part, list(map(compare, part.texts, repeat(literal.value))))
    found: Flags = compare(part.values, literal.value)
    return found


def part_matches(part: Part, pattern: str, *, is_negated: bool) -> Flags:
    """Flag the texts of a part that match a pattern as a whole, or do not."""
    if part.kind is not Type.STRING:
        return np.zeros(len(part.rows), np.bool_)
    met = np.array(full_matches(pattern, list(part.texts)), np.bool_) != is_negated
    return _by_text(part, met.tolist())


def compare_with(column: Column, op: str, literal: Literal) -> Flags:
    """Flag rows of which a value compares so with a constant; values of unlike types never do.

    >>> sizes = dense(Type.INTEGER, np.array([1, 5]))
    >>> compare_with(sizes, ">", Literal(Type.FLOAT, 2.5)).tolist()
    [False, True]
    """
    found = np.zeros(column.size, np.bool_)
    for part in column.parts:
        found[part.rows[part_meets(part, op, literal)]] = True
    return found


def match_regex(column: Column, pattern: str, *, is_negated: bool = False) -> Flags:
    """Flag rows of which a text matches a pattern as a whole, or does not."""
    found = np.zeros(column.size, np.bool_)
    for part in column.parts:
        found[part.rows[part_matches(part, pattern, is_negated=is_negated)]] = True
    return found


def _by_text(part: Part, flags: Sequence[bool]) -> Flags:
    found: Flags = np.array(flags, np.bool_)[part.values]
    return found


def _same_type(left: Type, right: Type) -> bool:
    is_alike = left == right and left is not Type.ATTRIBUTE
    return is_alike or (left in NUMBERS and right in NUMBERS)


def compare_columns(left: Column, op: str, right: Column) -> Flags:
    """Flag rows of which a value of each side compares so; values of unlike types never do."""
    found = np.zeros(left.size, np.bool_)
    compare = COMPARISONS[op]
    for one in left.parts:
        for other in right.parts:
            if _same_type(one.kind, other.kind):
                ours, theirs = _pairs(one, other)
                if one.has_texts:
                    met = compare(_as_texts(one)[ours], _as_texts(other)[theirs]).astype(np.bool_)
                else:
                    met = compare(one.values[ours], other.values[theirs])
                found[one.rows[ours][met]] = True
    return found


def _as_texts(part: Part) -> Array:
    return np.array(part.texts, dtype=object)[part.values]


def _pairs(one: Part, other: Part) -> tuple[Int64s, Int64s]:
    """Return places of all pairs of values that share a row."""
    first = np.searchsorted(other.rows, one.rows, "left")
    counts = np.searchsorted(other.rows, one.rows, "right") - first
    ours = np.repeat(np.arange(len(one.rows)), counts)
    within = np.arange(len(ours)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ours, np.repeat(first, counts) + within


ARITHMETIC = frozenset("+-*/%^")


def calculate(left: Column, op: str, right: Column) -> Column:
    """Compute by row; rows without a number on each side have no result.

    Integers stay integers, as does their quotient; durations and floats become floats of nanoseconds.
    """
    size = left.size
    integers = _only(left, Type.INTEGER), _only(right, Type.INTEGER)
    both = integers[0][1] & integers[1][1]
    parts: list[Part] = []
    if both.any():
        rows = np.flatnonzero(both)
        for kind, places, values in _integers(op, integers[0][0][rows], integers[1][0][rows]):
            parts += [Part(kind, rows[places], values)] if len(places) else []
    (ours, has_ours), (theirs, has_theirs) = left.numbers(), right.numbers()
    rows = np.flatnonzero(has_ours & has_theirs & ~both)
    if len(rows):
        with np.errstate(all="ignore"):
            values = _FLOATS[op](ours[rows], theirs[rows])
        parts.append(Part(Type.FLOAT, rows, values))
    return Column(size, tuple(parts))


def negate(column: Column) -> Column:
    parts = (
        Part(part.kind, part.rows, -part.values) for part in column.parts
        if part.kind in NUMBERS and not part.is_list
    )  # fmt: skip
    return Column(column.size, tuple(parts))


def _only(column: Column, kind: Type) -> tuple[Int64s, Flags]:
    values, found = np.zeros(column.size, np.int64), np.zeros(column.size, np.bool_)
    for part in column.parts:
        if part.kind is kind and not part.is_list:
            values[part.rows], found[part.rows] = part.values, True
    return values, found


_FLOATS: dict[str, Callable[[Doubles, Doubles], Doubles]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
}


def _integers(op: str, left: Int64s, right: Int64s) -> Iterator[tuple[Type, Int64s, Array]]:
    """Yield places and values by type.

    Integers wrap around, division truncates and has no result by zero; powers that leave 62 bits are floats.
    """
    with np.errstate(all="ignore"):
        if op in "/%":
            valid = np.flatnonzero(right)
            left, right = left[valid], right[valid]
            quotient = _truncated(left, right)
            yield Type.INTEGER, valid, quotient if op == "/" else left - quotient * right
        elif op == "^":
            powers = np.power(left.astype(np.float64), right.astype(np.float64))
            is_whole = (right >= 0) & (np.abs(powers) < 2**62)
            whole, broken = np.flatnonzero(is_whole), np.flatnonzero(~is_whole)
            yield Type.INTEGER, whole, np.power(left[whole], right[whole])
            yield Type.FLOAT, broken, powers[broken]
        else:
            values = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](left, right)
            yield Type.INTEGER, np.arange(len(left)), values


def _truncated(left: Int64s, right: Int64s) -> Int64s:
    found = left // right
    rest = left - found * right
    return np.asarray(found + ((rest != 0) & ((left < 0) != (right < 0))), np.int64)


def group_codes(column: Column) -> tuple[Int32s, list[GroupValue]]:
    """Number the values of rows; rows without one are nil, a list of one element is that element.

    Of a row with values of several types, those of the last part count.
    """
    codes = np.zeros(column.size, np.int32)
    known: dict[GroupValue, int] = {(None, "nil"): 0}
    for part in column.parts:
        rows, places, found = _distinct_lists(part) if part.is_list else _distinct(part)
        numbers = [known.setdefault((part.kind, value), len(known)) for value in found]
        codes[rows] = np.array(numbers, np.int32)[places]
    return codes, list(known)


def distinct_numbers(numbers: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """Return the distinct ones of numbers below `size`, ascending, and the place of each among them.

    Counting takes a fifth of the time of sorting, unless there are far more possible numbers than rows.

    >>> [each.tolist() for each in distinct_numbers(np.array([7, 2, 7]), 9)]
    [[2, 7], [1, 0, 1]]
    """
    if size > SPARSE * len(numbers):
        return np.unique(numbers, return_inverse=True)
    is_there = np.bincount(numbers, minlength=size) > 0
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[numbers]


def _distinct(part: Part) -> tuple[Int64s, Int64s, list[Any]]:
    if part.has_texts:
        distinct, places = distinct_numbers(part.values, len(part.texts))
    else:
        distinct, places = np.unique(part.values, return_inverse=True)
    values = [part.texts[value] for value in distinct] if part.has_texts else distinct.tolist()
    return part.rows, places, values


def _distinct_lists(part: Part) -> tuple[Int64s, Int64s, list[Any]]:
    """Return rows, the place of each row's list among the distinct ones, and these."""
    lists: dict[int, list[Scalar]] = {}
    for row, value in zip(part.rows.tolist(), part.scalars(), strict=True):
        lists.setdefault(row, []).append(value)
    known: dict[Scalar | tuple[Scalar, ...], int] = {}
    places = [
        known.setdefault(values[0] if len(values) == 1 else tuple(values), len(known))
        for values in lists.values()
    ]
    return np.array(list(lists), np.int64), np.array(places, np.int64), list(known)
