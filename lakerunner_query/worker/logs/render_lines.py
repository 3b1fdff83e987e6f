"""Rows of a frame are rendered as text: three JSON objects a row, by where its labels come from.

    app="web" of the stream, pod="w-1" sent along, status="500" out of the line
    {"app":"web"}   {"pod":"w-1"}   {"status":"500"}

Every label becomes an array of `"name":"value"` fragments, null where the row has none, made once per
distinct value; Arrow joins them.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import Category, Column, LogFrame
from lakerunner_query.protocol.units import ROWS
from resources.arrays import Flags, Int64s

NOTHING = "{}"


def render_lines(frame: LogFrame, objects: Int64s, positions: Int64s) -> pa.Table:
    """Return the columns of `units.ROWS`, in the order of the frame."""
    columns = [
        pa.array(frame.tsns),
        json_objects(frame, Category.STREAM).dictionary_encode(),
        frame.line,
        json_objects(frame, Category.METADATA),
        json_objects(frame, Category.PARSED),
        pa.array(objects),
        pa.array(positions),
    ]
    return pa.table(dict(zip(ROWS.names, columns, strict=True))).cast(ROWS)


def json_objects(frame: LogFrame, category: Category) -> pa.StringArray:
    """Render one object per row, names sorted."""
    fragments = [
        _fragments(name, column, here)
        for name, column in sorted(frame.labels.items())
        if (here := _has_category(column, category)).any()
    ]
    if not fragments:
        return pa.repeat(pa.scalar(NOTHING, pa.string()), frame.count)
    # Arrow leaves out a row that has nulls only, hence an empty text that is always there
    begun = pa.repeat(pa.scalar("", pa.string()), frame.count)
    joined = pc.binary_join_element_wise(begun, *fragments, ",", null_handling="skip")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")


def _has_category(column: Column, category: Category) -> Flags:
    there: Flags = column.codes >= 0
    if isinstance(column.category, Category):
        return there if column.category is category else np.zeros(len(there), np.bool_)
    there &= np.equal(column.category, int(category))
    return there


def _fragments(name: str, column: Column, here: Flags) -> pa.StringArray:
    prefix = msgspec.json.encode(name) + b":"
    used, codes = np.unique(column.codes[here], return_inverse=True)
    texts = column.values.take(pa.array(used)).to_pylist()
    shown = pa.array([(prefix + msgspec.json.encode(one)).decode() for one in texts], pa.string())
    places = np.full(len(here), -1, np.int64)
    places[here] = codes
    return shown.take(pa.array(places, mask=~here))
