"""Numbers of foreign data are typed columns, or text that reads as one. CSV has only text.

12        int             1.5e3, 0.25      double          NaN, +Inf, -infinity      double twelve    not a
number    0x10, 1_000      not numbers     9999999999999999999       double
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.foreign.mapping import Mask, valid
from lakerunner_assets.decode.foreign.values import without_dictionary
from resources.arrays import Int64s

_INTEGER = r"^[+-]?[0-9]{1,18}$"
_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_INFINITE = r"(?i)^[+-]?inf(inity)?$"
_NAN = r"(?i)^[+-]?nan$"


class Numbers(NamedTuple):
    """Numbers, one per row; zero where there is none."""

    double: npt.NDArray[np.float64]
    integer: Int64s
    is_int: Mask
    known: Mask

    def take(self, rows: Int64s) -> Numbers:
        return Numbers(self.double[rows], self.integer[rows], self.is_int[rows], self.known[rows])

    def merge(self, other: Numbers, rows: Mask) -> Numbers:
        """Return these numbers with the other's in the given rows."""
        return Numbers(
            np.where(rows, other.double, self.double),
            np.where(rows, other.integer, self.integer),
            np.where(rows, other.is_int, self.is_int),
            np.where(rows, other.known, self.known),
        )


def no_numbers(count: int) -> Numbers:
    nothing = np.zeros(count, np.bool_)
    return Numbers(np.zeros(count), np.zeros(count, np.int64), nothing, nothing)


def join_numbers(parts: Sequence[Numbers]) -> Numbers:
    return Numbers(
        np.concatenate([part.double for part in parts]),
        np.concatenate([part.integer for part in parts]),
        np.concatenate([part.is_int for part in parts]),
        np.concatenate([part.known for part in parts]),
    )


def read_numbers(kind: str, column: pa.Array) -> Numbers:
    """Read the numbers of a raw column.

    >>> found = read_numbers("string", pa.array(["12", "-1.5", "n/a", None]))
    >>> found.double.tolist(), found.known.tolist(), found.is_int.tolist()
    ([12.0, -1.5, 0.0, 0.0], [True, True, False, False], [True, False, False, False])
    """
    count = len(column)
    known = valid(column)
    if kind == "int":
        integer = column.fill_null(0).to_numpy()
        return Numbers(integer.astype(np.float64), integer, known, known)
    if kind == "double":
        double = column.fill_null(0.0).to_numpy()
        return Numbers(double, np.zeros(count, np.int64), np.zeros(count, np.bool_), known)
    if kind == "string":
        return _of_texts(column)
    return no_numbers(count)


def _of_texts(column: pa.Array) -> Numbers:
    if pa.types.is_dictionary(column.type):
        found = join_numbers([_of_texts(column.dictionary), no_numbers(1)])
        return found.take(column.indices.fill_null(len(column.dictionary)).to_numpy())
    texts = pc.utf8_trim_whitespace(without_dictionary(column))
    integers = pc.match_substring_regex(texts, _INTEGER)
    decimals = pc.match_substring_regex(texts, _DECIMAL)
    integer = _cast(texts, integers, pa.int64())
    double = _cast(texts, decimals, pa.float64())
    is_int, known = _mask(integers), _mask(decimals)
    if not (known | ~valid(column)).all():
        infinite, nan = (_mask(pc.match_substring_regex(texts, pattern)) for pattern in (_INFINITE, _NAN))
        negative = _mask(pc.starts_with(texts, "-"))
        double = np.where(infinite, np.where(negative, -np.inf, np.inf), np.where(nan, np.nan, double))
        known = known | infinite | nan
    return Numbers(np.where(is_int, integer.astype(np.float64), double), integer, is_int, known)


def _cast(texts: pa.Array, wanted: pa.Array, kind: pa.DataType) -> np.ndarray:
    """Cast the texts that match, 0 for the others; Arrow takes no leading plus."""
    chosen = pc.if_else(wanted.fill_null(False), texts, "0")
    values = pc.utf8_ltrim(chosen, "+").cast(kind)
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _mask(flags: pa.BooleanArray) -> Mask:
    return np.asarray(flags.fill_null(False).to_numpy(zero_copy_only=False))
