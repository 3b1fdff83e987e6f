"""Makes labels of the fields that a parser found.

    stream app="web", line app=db app=x  ->  app="web", app_extracted="db"

What a row has from its stream or its metadata keeps its name, the parsed value moves to `<name>_extracted`;
of fields with one name the first stands, and so does what an earlier parser found. A label that was taken
away since does not come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.evaluate.logs.columns import coded, is_base, overlaid, was_parsed
from lakerunner_query.evaluate.logs.frame import Category, Column, LogFrame
from lakerunner_query.evaluate.logs.kernels.distinct import by_code, code_spans
from lakerunner_query.evaluate.logs.stages.names import EXTRACTED
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Wanted
from resources.arrays import Bytes, Flags, Int32s, Int64s

Decode = Callable[[Bytes, Int64s, Int32s, Flags], tuple[pa.StringArray, bool]]
"""Slices as texts, escapes resolved, and whether some may have become equal by it."""

MOST_CELLS = 1 << 28
REPLACEMENT = "\ufffd"
"""What bytes that are no UTF-8 have become when they came in; Prometheus would not take it in a label."""


class Which(Enum):
    """Which of several values of one name a row gets."""

    FIRST = "first"
    """Or none, if an earlier stage has given it that label."""
    LAST = "last"
    """Or none, as well."""
    LATEST = "latest"
    """The last, whatever earlier stages have given it."""
    LATEST_OF_OWN_NAME = "latest of own name"
    """The same, but under another name, where the own one is taken, as `FIRST`."""


def placed(
    frame: LogFrame, fields: Fields, wanted: Wanted, decode: Decode, which: Which = Which.FIRST
) -> LogFrame:
    """The frame with the fields as labels, those that are wanted."""
    renamed = _renamed(frame, fields)
    order, begins = by_code(renamed.name, len(renamed.names))
    labels = dict(frame.labels)
    for number, name in _found(renamed.names, begins, wanted, frame.count):
        found = order[begins[number] : begins[number + 1]]
        meant = _meant(which, clashes=number >= len(fields.names))
        chosen = _one_of_each(renamed.row, found, is_last=meant is not Which.FIRST)
        if meant is not Which.LATEST:
            chosen = chosen[~was_parsed(frame, name)[renamed.row[chosen]]]
        if len(chosen):
            values = _column(renamed, chosen, decode)
            at = renamed.row[chosen].astype(np.int64)
            labels[name] = overlaid(labels.get(name), at, values, frame.count)
    return frame.with_labels(labels)


def _meant(which: Which, *, clashes: bool) -> Which:
    if which is Which.LATEST_OF_OWN_NAME:
        return Which.FIRST if clashes else Which.LATEST
    return which


def _found(names: list[str], begins: Int64s, wanted: Wanted, rows: int) -> Iterator[tuple[int, str]]:
    chosen = [
        (number, name)
        for number, name in enumerate(names)
        if begins[number + 1] > begins[number] and (wanted is None or name in wanted)
    ]
    if len(chosen) * rows > MOST_CELLS:
        raise LimitExceededError(
            f"a parser makes {len(chosen)} labels of {rows} lines; keep the wanted ones (| keep a, b), or "
            'name them: | json a="b"'
        )
    yield from chosen


def _renamed(frame: LogFrame, fields: Fields) -> Fields:
    """Fields of rows that have the label already, from elsewhere, under their other name."""
    name = fields.name
    names = list(fields.names)
    code = {known: number for number, known in enumerate(names)}
    for number, known in enumerate(fields.names):
        base = is_base(frame, known)
        if base.any():
            other = code.setdefault(known + EXTRACTED, len(names))
            if other == len(names):
                names.append(known + EXTRACTED)
            name = np.where((fields.name == number) & base[fields.row], other, name).astype(np.int32)
    return Fields(fields.data, names, name, fields.row, fields.start, fields.length, fields.escaped)


def _one_of_each(row: Int32s, found: Int64s, *, is_last: bool) -> Int64s:
    """Of fields in the order of rows, one of each row."""
    rows = row[found]
    chosen = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=chosen[:-1] if is_last else chosen[1:])
    return found if chosen.all() else found[chosen]


def _column(fields: Fields, chosen: Int64s, decode: Decode) -> Column:
    start, length, escaped = fields.start[chosen], fields.length[chosen], fields.escaped[chosen]
    codes, first = code_spans(fields.data, start, length, escaped)
    values, may_repeat = decode(fields.data, start[first], length[first], escaped[first])
    return coded(codes, values, Category.PARSED) if may_repeat else Column(codes, values, Category.PARSED)


def repaired(values: pa.StringArray, replacement: str = " ") -> tuple[pa.StringArray, bool]:
    """Values with a space for what was no UTF-8, and whether there was any."""
    if not holds_replacement(values):
        return values, False
    return pc.replace_substring(values, REPLACEMENT, replacement), True


def holds_replacement(values: pa.StringArray) -> bool:
    """Quickly: in the bytes of all of them."""
    data = values.buffers()[2]
    return data is not None and REPLACEMENT.encode() in data.to_pybytes()
