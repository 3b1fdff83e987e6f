"""Columnar runs of log rows: times, lines, and a column for every label.

    tsns  line                 labels["app"]        labels["status"]
    10    status=200 msg=ok    "web"  (STREAM)      "200" (PARSED)
    20    status=500 msg=bad   "web"  (STREAM)      "500" (PARSED)
    30    hello                "db"   (STREAM)      absent

A label has one value per row, whatever its origin: stream labels, structured metadata, parsed. The origin
decides what a later stage may overwrite and where Loki's API shows it, hence the category per value. Work
happens per distinct value; rows are only ever touched through their codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.vectors.vector import Labels
from resources.arrays import Flags, Int8s, Int32s, Int64s

ABSENT = -1


class Category(IntEnum):
    """Origin of a label's value."""

    STREAM = 0
    METADATA = 1
    PARSED = 2


@dataclass(frozen=True, slots=True)
class Column:
    """Label of all rows: codes into distinct values, `ABSENT` where a row has none; `""` is a value."""

    codes: Int32s
    values: pa.StringArray
    """Distinct values without nulls; some may belong to no row any more."""
    category: Category | Int8s
    """Category of all rows, or of each."""

    def take(self, rows: Int64s) -> Column:
        category = self.category if isinstance(self.category, Category) else self.category[rows]
        return Column(self.codes[rows], self.values, category)


@dataclass(frozen=True, slots=True)
class LogFrame:
    """Run of log rows."""

    tsns: Int64s
    line: pa.StringArray
    labels: dict[str, Column] = field(default_factory=dict)
    """Columns by label; one that no row has may be missing. `__error__` is a label too."""
    row_object: Int64s | None = None
    row_position: Int64s | None = None
    """Row id, where the source has one: it tells ties of time apart."""
    removed: dict[str, Int8s] = field(default_factory=dict)
    """Categories of values that were taken away, by label and row, else `ABSENT`.

    A name that was the stream's, or that a parser has made once, is not given again; metadata is forgotten.
    """

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


def grouped_rows(
    frame: LogFrame, labels: Iterable[str] | None = None, *, without: bool = False
) -> tuple[Int32s, list[Labels]]:
    """Group rows by these labels, by all but these, or by all; groups are numbered as they appear.

        app  "web" "db" "web"  by (app)  ->  0 1 0, [(("app", "web"),), (("app", "db"),)]

    Only codes are compared. A label that a row does not have is not in its group's set; one that is empty is.
    A label without a name (`json` makes it of an empty key) groups nothing.
    """
    columns = _choose(frame, labels, without)
    codes, first = np.zeros(frame.count, np.int32), np.zeros(min(frame.count, 1), np.int64)
    for _, column in columns:
        if frame.count and (column.codes != column.codes[0]).any():
            codes, first = _combine(codes, column.codes)
    return codes, _label_sets(columns, first)


def _combine(left: Int32s, right: Int32s) -> tuple[Int32s, Int64s]:
    """Number pairs of codes in order of first appearance; return the numbers and the first rows.

    Runs of one pair count once: rows of one stream follow each other.
    """
    is_head = np.append(True, (left[1:] != left[:-1]) | (right[1:] != right[:-1]))
    heads = np.flatnonzero(is_head).astype(np.int64)
    pairs = (left[heads].astype(np.int64) << 32) | (right[heads].astype(np.int64) + 1)
    numbered = pa.array(pairs).dictionary_encode()
    codes = numbered.indices.to_numpy()
    first = np.empty(len(numbered.dictionary), np.int64)
    first[codes[::-1]] = heads[::-1]
    return np.repeat(codes, np.diff(np.append(heads, len(left)))), first


def _choose(frame: LogFrame, labels: Iterable[str] | None, without: bool) -> list[tuple[str, Column]]:
    named = set(labels or ())
    return [
        (name, column)
        for name, column in sorted(frame.labels.items())
        if name and (labels is None or (name in named) != without)
    ]


def _label_sets(columns: list[tuple[str, Column]], rows: Int64s) -> list[Labels]:
    """Return the label sets of some rows: the only Python objects, one per group."""
    sets: list[list[tuple[str, str]]] = [[] for _ in rows]
    for name, column in columns:
        codes = column.codes[rows]
        texts = column.values.take(np.maximum(codes, 0)).to_pylist() if len(column.values) else codes.tolist()
        for labels, code, text in zip(sets, codes.tolist(), texts, strict=True):
            if code >= 0:
                labels.append((name, text))
    return [tuple(labels) for labels in sets]


def encode_column(codes: Int32s, values: pa.StringArray, category: Category | Int8s) -> Column:
    """Make a column of values that may repeat; equal ones get one code."""
    distinct = values.dictionary_encode()
    if len(distinct.dictionary) < len(values):
        codes = with_absent(distinct.indices.to_numpy(), codes)
        values = distinct.dictionary
    return Column(codes, values, category)


def with_absent(by_code: npt.NDArray[np.int32], codes: Int32s) -> Int32s:
    """Return `by_code[codes]`, with `ABSENT` for `ABSENT`."""
    taken: Int32s = np.where(codes >= 0, by_code[np.maximum(codes, 0)], ABSENT).astype(np.int32)
    return taken


def of_texts(texts: pa.StringArray, category: Category = Category.PARSED) -> Column:
    """Make a column of one text per row, absent where null."""
    found = texts.dictionary_encode()
    return Column(found.indices.fill_null(ABSENT).to_numpy(), found.dictionary, category)


def absent(count: int) -> Column:
    return Column(np.full(count, ABSENT, np.int32), pa.array([], pa.string()), Category.PARSED)


def column_of(frame: LogFrame, name: str) -> Column:
    return frame.labels.get(name) or absent(frame.count)


def present(frame: LogFrame, name: str) -> Flags:
    """Flag rows that have the label, whatever its value."""
    column = frame.labels.get(name)
    return np.zeros(frame.count, np.bool_) if column is None else column.codes >= 0


def holds(column: Column, test: Callable[[pa.StringArray], pa.BooleanArray]) -> Flags:
    """Flag rows that pass a test of texts; a row without the label is tested as an empty text."""
    by_code = test(pa.concat_arrays([column.values, pa.array([""], pa.string())])).to_numpy(False)
    flags: Flags = by_code[column.codes]  # ABSENT is -1: the last
    return flags


def has_text(frame: LogFrame, name: str) -> Flags:
    """Flag rows that have the label with a text that is not empty."""
    column = frame.labels.get(name)
    if column is None:
        return np.zeros(frame.count, np.bool_)
    return holds(column, lambda values: pc.not_equal(values, ""))


def overlay(under: Column | None, rows: Int64s, over: Column, count: int) -> Column:
    """Put the values and categories of `over` at `rows` of `under`.

    codes 0 1 -1 over ["web", "db"]  with "x" at rows 1 and 2  ->  codes 0 2 2 over ["web", "db", "x"]
    """
    if under is None or not (under.codes >= 0).any():
        codes = np.full(count, ABSENT, np.int32)
        codes[rows] = over.codes
        return Column(codes, over.values, _at(over.category, None, rows, count))
    codes = under.codes.copy()
    codes[rows] = np.where(over.codes >= 0, over.codes + len(under.values), ABSENT)
    values = pa.concat_arrays([under.values, over.values])
    return encode_column(codes, values, _at(over.category, under.category, rows, count))


def _at(over: Category | Int8s, under: Category | Int8s | None, rows: Int64s, count: int) -> Category | Int8s:
    """Return the category by row, or one if all are equal."""
    if isinstance(over, Category) and (under is None or under is over):
        return over
    found: Int8s = np.full(count, Category.PARSED if under is None else under, np.int8)
    found[rows] = over
    return found


def without_rows(column: Column, rows: Flags) -> Column:
    """Take the label away from some rows."""
    return Column(np.where(rows, ABSENT, column.codes).astype(np.int32), column.values, column.category)


def is_base(frame: LogFrame, name: str) -> Flags:
    """Flag rows with the label from their metadata or stream; the stream's counts even if taken away."""
    found = present(frame, name) & ~_is_of(frame, name, Category.PARSED)
    return found | (frame.removed[name] == Category.STREAM) if name in frame.removed else found


def was_parsed(frame: LogFrame, name: str) -> Flags:
    """Flag rows with the label from a stage of the pipeline, even if it was taken away."""
    found = present(frame, name) & _is_of(frame, name, Category.PARSED)
    return found | (frame.removed[name] == Category.PARSED) if name in frame.removed else found


def _is_of(frame: LogFrame, name: str, category: Category) -> Flags:
    column = frame.labels.get(name)
    found = column is not None and np.equal(column.category, category)
    return np.broadcast_to(np.asarray(found, np.bool_), frame.count)


def with_removed(before: LogFrame, after: LogFrame) -> LogFrame:
    """Note in `after` which labels of `before` a stage took away."""
    removed = dict(after.removed)
    for name, column in before.labels.items():
        gone = (column.codes >= 0) & ~_has_still(after, name, column)
        gone &= np.not_equal(column.category, Category.METADATA)
        if gone.any():
            known = removed.get(name, np.full(after.count, ABSENT, np.int8))
            kept = known == Category.STREAM
            removed[name] = np.where(gone & ~kept, column.category, known).astype(np.int8)
    return replace(after, removed=removed)


def _has_still(after: LogFrame, name: str, column: Column) -> Flags:
    """Flag rows that have the label with its former category."""
    return (
        present(after, name) & np.equal(after.labels[name].category, column.category)
        if (name in after.labels)
        else np.zeros(after.count, np.bool_)
    )
