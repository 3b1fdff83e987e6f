"""Makes labels of the fields that a parser found.

    stream app="web", line app=db app=x  ->  app="web", app_extracted="db"

What a row has from its stream or its metadata keeps its name, the parsed value moves to `<name>_extracted`;
of fields with one name the first stands, and so does what an earlier parser found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.evaluate.logs.columns import coded, is_base, overlaid
from lakerunner_query.evaluate.logs.frame import Category, Column, LogFrame
from lakerunner_query.evaluate.logs.kernels.distinct import by_code, code_spans
from lakerunner_query.evaluate.logs.kernels.text import Bytes, Int32s, strings
from lakerunner_query.evaluate.logs.stages.names import EXTRACTED
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Wanted
from lakerunner_query.windows.functions import Flags, Int64s

Decode = Callable[[Bytes, Int64s, Int32s, Flags], tuple[Bytes, Int32s]]
"""Slices as bytes one behind the other, escapes resolved, and their offsets."""

MOST_CELLS = 1 << 28
_REPLACEMENT = "\ufffd"


def placed(
    frame: LogFrame, fields: Fields, wanted: Wanted, decode: Decode, *, overwrites: bool = False
) -> LogFrame:
    """The frame with the fields as labels, those that are wanted."""
    fields = _renamed(frame, fields)
    order, begins = by_code(fields.name, len(fields.names))
    labels = dict(frame.labels)
    for number, name in _found(fields.names, begins, wanted, frame.count):
        rows = order[begins[number] : begins[number + 1]]
        chosen = _first_of_each(fields.row, rows)
        if name in labels and not overwrites:
            chosen = chosen[labels[name].codes[fields.row[chosen]] < 0]
        if len(chosen):
            values = _column(fields, chosen, decode)
            at = fields.row[chosen].astype(np.int64)
            labels[name] = overlaid(labels.get(name), at, values, frame.count)
    return frame.with_labels(labels)


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


def _first_of_each(row: Int32s, found: Int64s) -> Int64s:
    """Of fields in the order of rows, the first of each row."""
    rows = row[found]
    first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return found if first.all() else found[first]


def _column(fields: Fields, chosen: Int64s, decode: Decode) -> Column:
    start, length, escaped = fields.start[chosen], fields.length[chosen], fields.escaped[chosen]
    codes, first = code_spans(fields.data, start, length, escaped)
    data, offsets = decode(fields.data, start[first], length[first], escaped[first])
    values = strings(data, offsets)
    if _REPLACEMENT.encode() in data.tobytes():
        values = pc.replace_substring(values, _REPLACEMENT, " ")
    elif not escaped.any():
        return Column(codes, values, Category.PARSED)
    return coded(codes, values, Category.PARSED)
