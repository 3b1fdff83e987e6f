"""Which series the rows of a frame belong to: label columns become one number per row.

    app   status            series
    web   200               0        app="web", status="200"
    db    (absent)          1        app="db"
    web   200               0

Codes of all columns are combined into one number, so that labels become Python's objects once per series of
a frame, not once per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.labels import coded
from lakerunner_query.evaluate.logs.frame import ABSENT, Column
from lakerunner_query.evaluate.vectors import Labels
from lakerunner_query.windows.functions import Int64s

_ROOM = 2**62


@dataclass(frozen=True, slots=True)
class Naming:
    """The labels that tell series apart: these, or all but these."""

    names: frozenset[str]
    is_without: bool

    def keeps(self, name: str) -> bool:
        return (name in self.names) != self.is_without


class SeriesTable:
    """Numbers of label sets, the same for every frame; an empty value is a value."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._codes: dict[Labels, int] = {}

    @property
    def labels(self) -> list[Labels]:
        return list(self._codes)

    @property
    def count(self) -> int:
        return len(self._codes)

    def numbered(self, columns: Mapping[str, Column], rows: int) -> Int64s:
        """The series of each row."""
        kept = {name: columns[name] for name in sorted(columns) if self._naming.keeps(name)}
        codes, firsts = _combined(list(kept.values()), rows)
        return coded(_label_sets(kept, firsts), self._codes)[codes]


def _combined(columns: Sequence[Column], rows: int) -> tuple[Int64s, Int64s]:
    """By row a number from 0 on that is the same where all codes are, and by number its first row."""
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    mixed, room = np.zeros(rows, np.int64), 1
    for column in columns:
        width = len(column.values) + 1
        if room * width > _ROOM:
            mixed, room = _dense(mixed), rows
        mixed = mixed * width + (column.codes - ABSENT)
        room *= width
    codes = _dense(mixed)
    firsts = np.empty(int(codes.max()) + 1, np.int64)
    firsts[codes[::-1]] = np.arange(rows - 1, -1, -1)
    return codes, firsts


def _dense(numbers: Int64s) -> Int64s:
    """Numbered from 0 on, in the order in which they come."""
    indices = pa.array(numbers).dictionary_encode().indices
    found: Int64s = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _label_sets(columns: Mapping[str, Column], rows: Int64s) -> list[Labels]:
    texts = [_texts(column, rows) for column in columns.values()]
    if not texts:
        return [()] * len(rows)
    names = list(columns)
    return [
        tuple((name, value) for name, value in zip(names, row, strict=True) if value is not None)
        for row in zip(*texts, strict=True)
    ]


def _texts(column: Column, rows: Int64s) -> list[str | None]:
    codes = column.codes[rows]
    found: list[str | None] = column.values.take(pa.array(codes, mask=codes == ABSENT)).to_pylist()
    return found
