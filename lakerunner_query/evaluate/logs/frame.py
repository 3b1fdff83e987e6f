"""A run of log rows, columnar: times, lines, and a column for every label.

    tsns  line                 labels["app"]        labels["status"]
    10    status=200 msg=ok    "web"  (STREAM)      "200" (PARSED)
    20    status=500 msg=bad   "web"  (STREAM)      "500" (PARSED)
    30    hello                "db"   (STREAM)      absent

A label has one value per row, whatever it came from: stream labels, structured metadata, parsed. Which of
them decides what a later stage may overwrite and where Loki's API shows it, hence the category per value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa

from resources.arrays import Flags, Int8s, Int32s, Int64s

ABSENT = -1


class Category(IntEnum):
    STREAM = 0
    METADATA = 1
    PARSED = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One label: codes into distinct values, `ABSENT` where a row has none; `""` is a value of its own."""

    codes: Int32s
    values: pa.StringArray
    """Distinct, without nulls; may hold values that no row has any more."""
    category: Category | Int8s
    """Of all rows, or of each."""

    def take(self, rows: Int64s) -> Column:
        category = self.category if isinstance(self.category, Category) else self.category[rows]
        return Column(self.codes[rows], self.values, category)


@dataclass(frozen=True, slots=True)
class LogFrame:
    tsns: Int64s
    line: pa.StringArray
    labels: dict[str, Column] = field(default_factory=dict)
    """A label that no row has may be missing. `__error__` and `__error_details__` are labels too."""
    row_object: Int64s | None = None
    row_position: Int64s | None = None
    """The row id, where the source has one: ties of time are told apart by it."""
    removed: dict[str, Int8s] = field(default_factory=dict)
    """By label and row, the category of what stood there and was taken away, `ABSENT` where nothing was: a
    name that was the stream's or that a parser has made once is not given again. (Metadata is forgotten.)"""

    @property
    def count(self) -> int:
        return len(self.tsns)

    def take(self, rows: Int64s) -> LogFrame:
        return LogFrame(
            self.tsns[rows],
            self.line.take(pa.array(rows)),
            {name: column.take(rows) for name, column in self.labels.items()},
            None if self.row_object is None else self.row_object[rows],
            None if self.row_position is None else self.row_position[rows],
            {name: category[rows] for name, category in self.removed.items()},
        )

    def keep(self, wanted: Flags) -> LogFrame:
        return self if wanted.all() else self.take(np.flatnonzero(wanted).astype(np.int64))

    def with_line(self, line: pa.StringArray) -> LogFrame:
        return replace(self, line=line)

    def with_labels(self, labels: dict[str, Column]) -> LogFrame:
        return replace(self, labels=labels)
