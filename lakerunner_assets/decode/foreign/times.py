"""Foreign times in any spelling become nanoseconds, a column at a time.

A number's unit is told from its size, as in requests: below 1e11 seconds, 1e14 milliseconds, 1e17
microseconds, else nanoseconds. A double is read to the decimals it can hold: 1767323045.123456 is that
microsecond, not a few nanoseconds beside it. A date in one column and a time of day in another are one time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.foreign.mapping import Fields, Key, Mask, valid
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
from resources.lake.timecut import DAY_NS

TIME = "time"
"""Kind of a raw column of nanoseconds (int64), from Parquet's own time types."""

DATE = r"^\s*\d{4}[-/]\d{2}[-/]\d{2}\s*$"
_LAST = 2**63 - 1
_UNITS = ((10**11, 10**9), (10**14, 10**6), (10**17, 10**3))


class RoleTimes(NamedTuple):
    """Time of a role in every row."""

    ns: Int64s
    known: Mask
    unreadable: Mask
    """Rows with a value that is no time."""
    from_date: Mask
    """Rows with a date alone, which is read as its midnight."""


def role_times(fields: Fields, role: str) -> RoleTimes:
    """Return the first readable time of each row; an unreadable or rounded one stays an attribute."""
    ns = np.zeros(fields.count, np.int64)
    known = np.zeros(fields.count, np.bool_)
    unreadable = np.zeros(fields.count, np.bool_)
    from_date = np.zeros(fields.count, np.bool_)
    dates: list[tuple[pa.Array, Mask]] = []
    clocks: list[tuple[Key, pa.Array]] = []
    for key, column in fields.candidates(role):
        found, states = read_times(key[1], column)
        readable = (states == EXACT) | (states == ROUNDED)
        chosen = readable & ~known
        ns = np.where(chosen, found, ns)
        refused = states == UNREADABLE
        unreadable |= refused
        fields.take(key, chosen & (states == EXACT))
        known |= chosen
        if key[1] != "string":
            continue
        if refused.any():
            clocks.append((key, column))
        if (is_date := _dates(column, chosen & (ns % DAY_NS == 0))).any():
            dates.append((column, is_date))
            from_date |= is_date
    for date, is_date in dates:
        for key, clock in clocks:
            found, states = read_times("string", _joined(date, clock))
            whole = is_date & from_date & ((states == EXACT) | (states == ROUNDED))
            ns = np.where(whole, found, ns)
            fields.take(key, whole & (states == EXACT))
            from_date &= ~whole
    return RoleTimes(ns, known, unreadable & ~known, from_date)


def _dates(column: pa.Array, midnights: Mask) -> Mask:
    """Return which of these rows have a date and no time of day."""
    if not midnights.any():
        return midnights
    return np.asarray(
        midnights & pc.match_substring_regex(_plain(column), DATE).fill_null(False).to_numpy(False)
    )


def _joined(date: pa.Array, clock: pa.Array) -> pa.Array:
    """Write date and time of day as one text, null where either is."""
    trimmed = (pc.utf8_trim_whitespace(_plain(each)) for each in (date, clock))
    return pc.binary_join_element_wise(*trimmed, "T")


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


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
