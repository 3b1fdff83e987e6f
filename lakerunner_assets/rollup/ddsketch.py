"""DDSketches of buckets are built from values and from sketches of finer buckets.

    values    weight  group        sketches    group            out
    0.25        1       0          s(1, 1)       0               0  s(0.25, 1, 1)
    0.5         2       2                                        1  null
                                                                 2  s(0.5, 0.5)

Merging adds counts of bins, so any grouping of the same values ends in the same bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_assets.rollup.ddsketch_kernels import sketches_of_groups
from resources.arrays import Doubles, Int64s
from resources.lake.ddsketch import WeightedValues, empty_bins, raise_fault, sketch_groups

_MOST_BYTES = (1 << 31) - 1


def build(
    values: Doubles,
    weights: Doubles,
    group_of_value: Int64s,
    sketches: pa.Array,
    group_of_sketch: Int64s,
    groups: int,
) -> pa.Array:
    """Build the sketch of each group; null for one without finite values and sketches.

    Group numbers do not fall in either list. A weight is the count of a value.
    """
    given = sketch_groups(sketches, group_of_sketch, WeightedValues(values, weights, group_of_value), groups)
    ends, present, cursor = np.zeros(groups + 1, np.int64), np.zeros(groups, np.uint8), np.zeros(2, np.int64)
    data, outcome = sketches_of_groups(given, groups, empty_bins(), cursor, ends, present)
    raise_fault(outcome, given, cursor)
    if ends[-1] > _MOST_BYTES:
        raise ValueError(f"sketches of {groups} groups take {ends[-1]} bytes: expected at most {_MOST_BYTES}")
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    # copied, because the kernel's room may be half empty
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data.copy())]
    return pa.Array.from_buffers(
        pa.binary(), groups, buffers, null_count=groups - int(np.count_nonzero(present))
    )
