"""Rows grouped by labels: a number per row, and the label set of each number.

    app  "web" "db" "web"  by (app)  ->  0 1 0, [(("app", "web"),), (("app", "db"),)]

Only codes are compared. A label that a row does not have is not in its group's set; one that is empty is. A
label without a name (`json` makes it of an empty key) groups nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakerunner_query.evaluate.logs.frame import Column, LogFrame
from lakerunner_query.evaluate.logs.kernels.combining import combine
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Int32s, Int64s


def grouped(
    frame: LogFrame, labels: Iterable[str] | None = None, *, without: bool = False
) -> tuple[Int32s, list[Labels]]:
    """By these labels, by all but these, or by all there are; groups in the order they appear."""
    columns = _chosen(frame, labels, without)
    codes, first = np.zeros(frame.count, np.int32), np.zeros(min(frame.count, 1), np.int64)
    for _, column in columns:
        if frame.count and (column.codes != column.codes[0]).any():
            codes, first = combine(codes, column.codes, len(first))
    return codes, _label_sets(columns, first)


def _chosen(frame: LogFrame, labels: Iterable[str] | None, without: bool) -> list[tuple[str, Column]]:
    named = set(labels or ())
    return [
        (name, column)
        for name, column in sorted(frame.labels.items())
        if name and (labels is None or (name in named) != without)
    ]


def _label_sets(columns: list[tuple[str, Column]], rows: Int64s) -> list[Labels]:
    """Of some rows; what Python objects there are, are made here, per group."""
    sets: list[list[tuple[str, str]]] = [[] for _ in rows]
    for name, column in columns:
        codes = column.codes[rows]
        texts = column.values.take(np.maximum(codes, 0)).to_pylist() if len(column.values) else codes.tolist()
        for labels, code, text in zip(sets, codes.tolist(), texts, strict=True):
            if code >= 0:
                labels.append((name, text))
    return [tuple(labels) for labels in sets]
