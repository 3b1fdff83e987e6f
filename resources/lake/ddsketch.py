"""DDSketches hold distributions with 1 % relative accuracy; this module reads them.

The stored form is the protobuf of DataDog's library.

    merged_quantiles(sketches, group=[0, 0, 1], groups=2, qs=[0.5, 0.99])
        →  row 0: of the first two sketches as one; row 1: of the third

A quantile q of n values is that of rank floor(q * (n - 1)), counted from the least: within 1 % of that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resources.arrays import Doubles, Int64s
from resources.lake.ddsketch_kernels import REASONS, SLOTS, Bins, SketchGroups, quantiles_of_groups


class SketchError(ValueError):
    """The bytes are no sketch of ours."""


@dataclass(frozen=True, slots=True)
class WeightedValues:
    """Values that join stored sketches; non-finite ones are left out."""

    values: Doubles
    weights: Doubles
    """Count of each value; finite, not negative."""
    group: Int64s


NO_VALUES = WeightedValues(np.empty(0), np.empty(0), np.empty(0, np.int64))


def quantiles(sketches: pa.Array, qs: Sequence[float]) -> Doubles:
    """Compute a row per sketch, a column per q; NaN for null and for a sketch without values."""
    return merged_quantiles(sketches, np.arange(len(sketches)), len(sketches), qs)


def merged_quantiles(
    sketches: pa.Array,
    group: Int64s,
    groups: int,
    qs: Sequence[float],
    beside: WeightedValues = NO_VALUES,
) -> Doubles:
    """Compute a row per group of sketches and values, in any order; null sketches are left out."""
    shares = np.asarray(qs, np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"quantiles {list(qs)}: expected numbers from 0 to 1")
    rows = np.flatnonzero(sketches.is_valid().to_numpy(zero_copy_only=False))
    group = np.asarray(group, np.int64)
    if len(group) != len(sketches):
        raise ValueError(f"{len(sketches)} sketches, but groups of {len(group)}")
    if len(rows) < len(sketches) or not _rises(group):
        rows = rows[np.argsort(group[rows], kind="stable")]
        sketches, group = sketches.take(pa.array(rows)), group[rows]
    order = np.argsort(beside.group, kind="stable")
    given = sketch_groups(
        sketches,
        group,
        WeightedValues(beside.values[order], beside.weights[order], beside.group[order]),
        groups,
    )
    found = np.full((groups, len(shares)), np.nan)
    cursor = np.zeros(2, np.int64)
    raise_fault(quantiles_of_groups(given, groups, shares, empty_bins(), cursor, found), given, cursor, rows)
    return found


def empty_bins() -> Bins:
    """Allocate the bins of one group at a time."""
    return Bins(np.zeros(SLOTS), np.empty(SLOTS, np.int64), np.zeros(1, np.int64))


def sketch_groups(
    sketches: pa.Array, group_of_sketch: Int64s, beside: WeightedValues, groups: int
) -> SketchGroups:
    """Check the order and numbers of groups, which kernels rely on, and pack the arrays."""
    if sketches.null_count:
        raise ValueError(f"{sketches.null_count} of {len(sketches)} sketches are null: expected none")
    _check_groups("sketches", group_of_sketch, len(sketches), groups)
    _check_groups("values", beside.group, len(beside.values), groups)
    weights = np.ascontiguousarray(beside.weights, np.float64)
    if len(weights) != len(beside.values):
        raise ValueError(f"{len(beside.values)} values, but {len(weights)} weights")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        at = int(np.argmin(np.isfinite(weights) & (weights >= 0)))
        raise ValueError(f"value {at} has the weight {weights[at]}: expected a finite one, not negative")
    return SketchGroups(
        *_bytes(sketches),
        np.ascontiguousarray(group_of_sketch, np.int64),
        np.ascontiguousarray(beside.values, np.float64),
        weights,
        np.ascontiguousarray(beside.group, np.int64),
    )


def raise_fault(
    outcome: int | np.int64, given: SketchGroups, cursor: Int64s, rows: Int64s | None = None
) -> None:
    """Turn a negative outcome of a kernel into the error it stands for.

    `rows` has the caller's number of each sketch, if that differs.
    """
    if outcome < 0:
        position, reason = divmod(-int(outcome) - 1, 16)
        sketch = int(cursor[0])
        start, end = given.ends[sketch], given.ends[sketch + 1]
        row = sketch if rows is None else int(rows[sketch])
        raise SketchError(
            f"sketch {row} of {end - start} bytes, at byte {position - start}: {REASONS[reason]}"
        )


def _bytes(sketches: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64s]:
    if not (pa.types.is_binary(sketches.type) or pa.types.is_large_binary(sketches.type)):
        raise ValueError(f"sketches are {sketches.type}: expected binary")
    _, offsets, data = sketches.buffers()
    if len(sketches) == 0 or data is None:
        return np.empty(0, np.uint8), np.zeros(len(sketches) + 1, np.int64)
    width = np.int64 if pa.types.is_large_binary(sketches.type) else np.int32
    ends = np.frombuffer(offsets, width, len(sketches) + 1, sketches.offset * np.dtype(width).itemsize)
    return np.frombuffer(data, np.uint8), ends.astype(np.int64)


def _check_groups(what: str, group: Int64s, count: int, groups: int) -> None:
    if len(group) != count:
        raise ValueError(f"{count} {what}, but groups of {len(group)}")
    if count and (not _rises(group) or group[0] < 0 or group[-1] >= groups):
        raise ValueError(
            f"groups of {what}: expected numbers from 0 to {groups - 1}, none less than the one before"
        )


def _rises(group: Int64s) -> bool:
    return bool((group[1:] >= group[:-1]).all())
