"""`and`, `or`, `unless`: rows stay rows, each step asks whether the other side has a match."""

from __future__ import annotations

from dataclasses import replace

from lakerunner_query.lang.promql.ast import Matching
from lakerunner_query.vectors.group_kernels import any_of_code
from lakerunner_query.vectors.labels import coded, key_of
from lakerunner_query.vectors.rows import occupied, stacked
from lakerunner_query.vectors.vector import Labels, Vector


def combined_sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    key = key_of(matching.labels, is_without=not matching.on)
    codes: dict[Labels, int] = {}
    left_codes = coded(map(key, left.labels), codes)
    right_codes = coded(map(key, right.labels), codes)
    if op == "or":
        taken = any_of_code(left_codes, left.present, len(codes))[right_codes]
        return occupied(stacked([left, replace(right, present=right.present & ~taken)]))
    matched = any_of_code(right_codes, right.present, len(codes))[left_codes]
    present = left.present & (matched if op == "and" else ~matched)
    return occupied(replace(left, present=present))
