"""Label sets of LogQL: an empty value is told from an absent label, until an operation builds new labels.

>>> filled((("a", ""), ("b", "1")))
(('b', '1'),)
>>> key_of(Matching(on=True, labels=("a",)))((("a", "1"), ("b", "2")))
(('a', '1'),)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lakerunner_query.lang.logql.ast import Grouping, Matching
from lakerunner_query.vectors.labels import Groups, coded, grouped, without
from lakerunner_query.vectors.labels import kept as kept_labels
from lakerunner_query.vectors.vector import Labels, Vector
from resources.arrays import Int64s


def filled(labels: Labels) -> Labels:
    """Without empty values."""
    return labels if all(value for _, value in labels) else tuple(one for one in labels if one[1])


def key_of(matching: Matching) -> Callable[[Labels], Labels]:
    """What series of two sides are matched by; an empty label is as good as none."""
    chosen = frozenset(matching.labels)
    if matching.on:
        return lambda labels: filled(kept_labels(labels, chosen))
    return lambda labels: filled(without(labels, chosen))


def groups_of(vector: Vector, grouping: Grouping | None) -> Groups:
    """By these labels, without them, or all together."""
    if grouping is None:
        return grouped(vector.labels, (), is_without=False)
    if not grouping.without:
        return grouped(vector.labels, grouping.labels, is_without=False)
    return grouped([filled(labels) for labels in vector.labels], grouping.labels, is_without=True)


def numbered(labels: list[Labels]) -> tuple[Int64s, list[Labels]]:
    """By row the number of its label set, and the distinct sets."""
    codes: dict[Labels, int] = {}
    return coded(labels, codes), list(codes)


def by_labels(vector: Vector) -> Vector:
    """Rows in the order of their labels."""
    order = sorted(range(len(vector.labels)), key=vector.labels.__getitem__)
    return vector.take(np.array(order, np.int64))
