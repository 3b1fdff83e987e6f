"""Foreign times in any spelling become nanoseconds, a column at a time.

A number's unit is told from its size, as in requests: below 1e11 seconds, 1e14 milliseconds, 1e17
microseconds, else nanoseconds. A double is read to the decimals it can hold: 1767323045.123456 is that
microsecond, not a few nanoseconds beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode.foreign.mapping import Fields, Mask, valid
from lakerunner_assets.decode.foreign.time_kernels import (
    ABSENT,
    EXACT,
    ROUNDED,
    UNREADABLE,
    States,
    parse_times,
)
from lakerunner_assets.decode.text import string_buffers
from resources.arrays import Int64s

TIME = "time"
"""Kind of a raw column of nanoseconds (int64), from Parquet's own time types."""

_LAST = 2**63 - 1
_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))


class RoleTimes(NamedTuple):
    """Time of a role in every row."""

    ns: Int64s
    known: Mask
    unreadable: Mask
    """Rows with a value that is no time."""


def role_times(fields: Fields, role: str) -> RoleTimes:
    """Return the first readable time of each row; an unreadable or rounded one stays an attribute."""
    ns = np.zeros(fields.count, np.int64)
    known = np.zeros(fields.count, np.bool_)
    unreadable = np.zeros(fields.count, np.bool_)
    for key, column in fields.candidates(role):
        found, states = read_times(key[1], column)
        readable = (states == EXACT) | (states == ROUNDED)
        chosen = readable & ~known
        ns = np.where(chosen, found, ns)
        unreadable |= states == UNREADABLE
        fields.take(key, chosen & (states == EXACT))
        known |= chosen
    return RoleTimes(ns, known, unreadable & ~known)


def read_times(kind: str, column: pa.Array) -> tuple[Int64s, States]:
    """Read nanoseconds, and the state of each value.

    >>> ns, states = read_times("string", pa.array(["1970-01-01 00:00:01,5", "soon", None]))
    >>> ns.tolist(), states.tolist()
    ([1500000000, 0, 0], [1, 3, 0])
    """
    if kind == "string":
        ns, states = _of_texts(column)
    elif kind in {"int", TIME}:
        values = column.fill_null(0).to_numpy()
        ns, states = (values, np.full(len(values), EXACT, np.uint8)) if kind == TIME else of_integers(values)
    elif kind == "double":
        ns, states = of_doubles(column.fill_null(0.0).to_numpy())
    else:
        ns, states = np.zeros(len(column), np.int64), np.full(len(column), UNREADABLE, np.uint8)
    if column.null_count:
        states = np.where(valid(column), states, np.uint8(ABSENT))
    return ns, states


def _of_texts(column: pa.Array) -> tuple[Int64s, States]:
    if pa.types.is_dictionary(column.type):
        ns, states = parse_times(*string_buffers(column.dictionary))
        codes = column.indices.fill_null(0).to_numpy()
        return (
            (ns[codes], states[codes]) if len(ns) else (np.zeros(len(codes), np.int64), codes * np.uint8(0))
        )
    ns, states = parse_times(*string_buffers(column))
    return ns, states


def of_integers(values: Int64s) -> tuple[Int64s, States]:
    """Convert epoch numbers by magnitude; seconds beyond 64-bit nanoseconds are unreadable."""
    size = np.abs(np.maximum(values, -_LAST))
    factor = np.ones(len(values), np.int64)
    for bound, unit in reversed(_UNITS):
        factor[size < bound] = unit
    fits = size <= _LAST // factor
    return np.where(fits, values * np.where(fits, factor, 1), 0), _states(fits)


def of_doubles(values: npt.NDArray[np.float64]) -> tuple[Int64s, States]:
    """Convert like integers, with the decimals that a double of this size has."""
    size = np.abs(np.where(np.isfinite(values), values, np.inf))
    decimals = np.zeros(len(values), np.int64)
    for digits, (bound, _) in zip((3, 6, 9), reversed(_UNITS), strict=True):
        decimals[size < bound] = digits
    fits = size < _LAST / 10.0**decimals
    safe = np.where(fits, size, 0.0)
    whole = np.floor(safe)
    certain = np.clip(np.floor(-np.log10(np.spacing(safe))), 0, decimals).astype(np.int64)
    fraction = np.rint((safe - whole) * 10.0**certain).astype(np.int64) * 10 ** (decimals - certain)
    ns = whole.astype(np.int64) * 10**decimals + fraction
    return np.where(values < 0, -ns, ns), _states(fits)


def _states(readable: Mask) -> States:
    return np.where(readable, EXACT, UNREADABLE).astype(np.uint8)
