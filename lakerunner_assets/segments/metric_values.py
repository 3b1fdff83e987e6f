"""Splits `chq_value` into the four columns that are stored (see `resources/lake/metric_values.py`).

How many digits a series is scaled by is decided over all its values: the fewest that hold nearly all of
them, since one digit more costs three bits in every row and a value left out costs eight bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.segments.metric_kernels import UNSCALABLE, needed_digits, scale
from resources.arrays import Int32s, Int64s
from resources.lake.metric_values import BASE, DOUBLE, EXPONENT, POWERS, SCALED

SCALED_SHARE = 4 / 5
"""Of a series' values at least: below that two columns cost more than one."""
LEFT_OUT_SHARE = 1 / 32
JOINED_ROWS = 16
"""Rows per series from which on a base, eight bytes a series, costs less than the jumps between series."""


@dataclass(frozen=True, slots=True)
class SplitValues:
    columns: dict[str, pa.Array]
    base: Int64s
    """Of each series code."""
    exponent: Int64s


def split(column: pa.Array, codes: Int32s, order: Int64s, count: int) -> SplitValues:
    """The values of `count` series; `order` is that in which rows will be written."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    values = _doubles(column)
    digits = fewest_digits(needed_digits(values, missing, codes, order, count, POWERS))
    joined = len(values) >= JOINED_ROWS * len(np.unique(codes))
    base, started = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    scaled, unscaled, _ = scale(values, missing, codes, order, digits, POWERS, joined, base, started, 0)
    exponent = np.maximum(digits, 0)
    columns = {
        SCALED: pa.array(scaled, mask=unscaled),
        BASE: pa.array(base[codes]),
        EXPONENT: pa.array(exponent[codes].astype(np.int32)),
        DOUBLE: pa.array(values, mask=missing | ~unscaled, from_pandas=False),
    }
    return SplitValues(columns, base, exponent)


class Splitter:
    """Splits values that come in pieces, in segment order; a series may go on in the next piece."""

    def __init__(self, exponent: Int64s, joined: bool) -> None:
        """`exponent` of each series; `joined`: whether they get a base."""
        self._exponent, self._joined = exponent, joined
        self._previous = 0
        self._open, self._base = -1, 0
        """The last series so far, and its base."""

    def split(self, column: pa.Array, series: Int32s, rows: Int64s) -> SplitValues:
        """`series` in this piece, each with so many `rows`; base and exponent are given for each of these."""
        values, missing = _doubles(column), column.is_null().to_numpy(zero_copy_only=False)
        exponent = self._exponent[series]
        base, started = np.zeros(len(series), np.int64), np.zeros(len(series), np.bool_)
        if series[0] == self._open:  # rows of it are written: its base stands
            base[0], started[0] = self._base, True
        codes = np.repeat(np.arange(len(series), dtype=np.int32), rows)
        order = np.arange(len(values))
        scaled, unscaled, previous = scale(
            values, missing, codes, order, exponent, POWERS, self._joined, base, started, self._previous
        )
        self._previous, self._open, self._base = int(previous), int(series[-1]), int(base[-1])
        columns = {
            SCALED: pa.array(scaled, mask=unscaled),
            BASE: pa.array(np.repeat(base, rows)),
            EXPONENT: pa.array(np.repeat(exponent.astype(np.int32), rows)),
            DOUBLE: pa.array(values, mask=missing | ~unscaled, from_pandas=False),
        }
        return SplitValues(columns, base, exponent)


def fewest_digits(needed: Int64s) -> Int64s:
    """Digits after the point for each series, -1: leave its values as they are.

    >>> fewest_digits(np.array([[90, 10, *[0] * 8, 0], [99, 1, *[0] * 8, 0], [1, 0, *[0] * 8, 9]])).tolist()
    [1, 0, -1]
    """
    total = needed.sum(axis=1)
    held = np.cumsum(needed[:, :UNSCALABLE], axis=1)
    enough = held >= (held[:, -1] - total * LEFT_OUT_SHARE)[:, None]
    digits = np.argmax(enough, axis=1)
    return np.where((held[:, -1] >= total * SCALED_SHARE) & (total > 0), digits, -1)


def _doubles(column: pa.Array) -> np.ndarray:
    """The bits as they are; what stands at nulls does not matter."""
    raw = np.frombuffer(column.buffers()[1], np.float64)
    return raw[column.offset : column.offset + len(column)]
