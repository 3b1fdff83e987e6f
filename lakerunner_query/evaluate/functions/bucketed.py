"""The histograms of a vector, native ones and those that series with `le` make up, told from each other.

x_bucket{job="a", le="1"} 3
x_bucket{job="a", le="+Inf"} 7      one classic histogram x_bucket{job="a"}
x_bucket{job="a"} {{count:7}}       and a native one of the same labels: both are left out at that step
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lakerunner_query.evaluate.functions.messages import Notes
from lakerunner_query.vectors.labels import replaced, value_of, without
from lakerunner_query.vectors.rows import has_float, is_histogram
from lakerunner_query.vectors.vector import NAME, Labels, Vector
from resources.arrays import Doubles, Flags

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


Members = list[tuple[float, int]]
"""Bounds and the rows that have them, ascending."""

MANY_CELLS = 2_000_000
"""As many cells of counts are worked on at once."""


@dataclass(frozen=True, slots=True)
class Classics:
    """Classic histograms of the same bounds."""

    labels: list[Labels]
    """Without `le`, with the name."""
    le: Doubles
    counts: Doubles
    """(bounds, histograms, steps)"""
    present: Flags

    @property
    def shown(self) -> Flags:
        """(histograms, steps): where some bucket is."""
        found: Flags = np.asarray(self.present.any(axis=0))
        return found

    def parts(self) -> Iterator[Classics]:
        """A few histograms after the other."""
        bounds, histograms, steps = self.counts.shape
        some = max(1, MANY_CELLS // max(1, bounds * steps))
        for begin in range(0, histograms, some):
            rows = slice(begin, begin + some)
            yield Classics(self.labels[rows], self.le, self.counts[:, rows], self.present[:, rows])


@dataclass(frozen=True, slots=True)
class Bucketed:
    vector: Vector
    natives: Flags
    """(rows, steps): where a native histogram counts."""
    classics: list[Classics]


def bucketed(vector: Vector, notes: Notes) -> Bucketed:
    floats, natives = has_float(vector), vector.present & is_histogram(vector)
    members: dict[Labels, Members] = {}
    for row in np.flatnonzero(floats.any(axis=1)).tolist():
        labels = vector.labels[row]
        label = value_of(labels, BOUND)
        bound = bound_of(label)
        if bound is None:
            notes.bad_bucket(label, value_of(labels, NAME))
            continue
        members.setdefault(without(labels, (BOUND,)), []).append((bound, row))
    classics = list(_by_layout(vector, floats, members))
    if natives.any():
        _take_out_conflicts(vector, natives, classics, notes)
    return Bucketed(vector, natives, classics)


def _by_layout(vector: Vector, floats: Flags, members: dict[Labels, Members]) -> Iterator[Classics]:
    layouts: dict[tuple[float, ...], list[Labels]] = {}
    for labels, rows in members.items():
        rows.sort()
        layouts.setdefault(tuple(bound for bound, _ in rows), []).append(labels)
    for bounds, histograms in layouts.items():
        rows_of = np.array([[row for _, row in members[labels]] for labels in histograms]).T
        yield Classics(histograms, np.array(bounds), vector.values[rows_of], floats[rows_of])


def _take_out_conflicts(vector: Vector, natives: Flags, classics: list[Classics], notes: Notes) -> None:
    places = {labels: (some, at) for some in classics for at, labels in enumerate(some.labels)}
    for row in np.flatnonzero(natives.any(axis=1)).tolist():
        if vector.labels[row] not in places:
            continue
        some, at = places[vector.labels[row]]
        both = natives[row] & some.present[:, at].any(axis=0)
        if both.any():
            notes.mixed_histograms(value_of(vector.labels[row], NAME))
            natives[row, both] = False
            some.present[:, at, both] = False


def with_label(labels: list[Labels], name: str, value: str) -> list[Labels]:
    return [replaced(one, name, value) for one in labels]
