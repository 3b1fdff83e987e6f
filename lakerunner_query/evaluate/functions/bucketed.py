"""The histograms of a vector, native ones and those that series with `le` make up, told from each other.

x_bucket{job="a", le="1"} 3
x_bucket{job="a", le="+Inf"} 7      one classic histogram x_bucket{job="a"}
x_bucket{job="a"} {{count:7}}       and a native one of the same labels: both are left out at that step
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lakerunner_query.evaluate.functions.messages import Notes
from lakerunner_query.evaluate.labels import replaced, value_of, without
from lakerunner_query.evaluate.rows import has_float, is_histogram
from lakerunner_query.evaluate.vectors import NAME, Labels, Vector
from lakerunner_query.windows.functions import Doubles, Flags

BOUND = "le"
_NUMBER = re.compile(
    r"(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII
)
_HEXADECIMAL = re.compile(r"[+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?\d+", re.IGNORECASE)


def bound_of(text: str) -> float | None:
    """What Go's `ParseFloat` makes of a label.

    >>> bound_of("+Inf"), bound_of(".5"), bound_of("0x1p-2"), bound_of(" 1"), bound_of("")
    (inf, 0.5, 0.25, None, None)
    """
    if _HEXADECIMAL.fullmatch(text):
        return float.fromhex(text)
    return float(text) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Classic:
    """One classic histogram: its series by bound."""

    labels: Labels
    """Without `le`, with the name."""
    le: Doubles
    counts: Doubles
    """(bounds, steps)"""
    present: Flags


@dataclass(frozen=True, slots=True)
class Bucketed:
    vector: Vector
    natives: Flags
    """(rows, steps): where a native histogram counts."""
    classics: list[Classic]


def bucketed(vector: Vector, notes: Notes) -> Bucketed:
    floats, natives = has_float(vector), vector.present & is_histogram(vector)
    members: dict[Labels, list[tuple[int, float]]] = {}
    for row in np.flatnonzero(floats.any(axis=1)).tolist():
        labels = vector.labels[row]
        label = value_of(labels, BOUND)
        bound = bound_of(label)
        if bound is None:
            notes.bad_bucket(label, value_of(labels, NAME))
            continue
        members.setdefault(without(labels, (BOUND,)), []).append((row, bound))
    classics = [_classic(vector, floats, labels, rows) for labels, rows in members.items()]
    if natives.any():
        _take_out_conflicts(vector, natives, classics, notes)
    return Bucketed(vector, natives, classics)


def _classic(vector: Vector, floats: Flags, labels: Labels, members: list[tuple[int, float]]) -> Classic:
    rows = [row for row, _ in members]
    bounds = np.array([bound for _, bound in members])
    return Classic(labels, bounds, vector.values[rows], floats[rows])


def _take_out_conflicts(vector: Vector, natives: Flags, classics: list[Classic], notes: Notes) -> None:
    by_labels = {classic.labels: classic for classic in classics}
    for row in np.flatnonzero(natives.any(axis=1)).tolist():
        classic = by_labels.get(vector.labels[row])
        if classic is None:
            continue
        both = natives[row] & classic.present.any(axis=0)
        if both.any():
            notes.mixed_histograms(value_of(vector.labels[row], NAME))
            natives[row, both] = False
            classic.present[:, both] = False


def with_label(labels: list[Labels], name: str, value: str) -> list[Labels]:
    return [replaced(one, name, value) for one in labels]
