"""JSON text of Arrow lists as the other decoders write arrays: compact, bytes base64, NaN in quotes."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode import json_text
from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.text import repaired


def json_texts(column: pa.Array, notes: Counter[str]) -> pa.StringArray:
    """
    >>> json_texts(pa.array([[1, 2], None, []]), Counter()).to_pylist()
    ['[1,2]', None, '[]']
    """
    try:
        values = _values(column)
    except UnicodeDecodeError:
        values = _values(_repaired(column, notes))
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _values(column: pa.Array) -> list[object]:
    """As Python's own; a value that Python has no word for (a date in year 30,000) fails the object."""
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except UnicodeDecodeError:
        raise
    except (OverflowError, LookupError, TypeError, ValueError) as error:
        raise MalformedError(
            0, f"Parquet: a list of type {column.type} that cannot be read: {error}"
        ) from error


def _repaired(column: pa.Array, notes: Counter[str]) -> pa.Array:
    """The same with valid UTF-8 inside."""
    kind = column.type
    missing = pa.array(column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_string(kind):
        return repaired(column, notes)
    if pa.types.is_struct(kind):
        members = [_repaired(member, notes) for member in column.flatten()]
        return pa.StructArray.from_arrays(members, [member.name for member in kind], mask=missing)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        ends = np.cumsum(pc.fill_null(pc.list_value_length(_as_list(column)), 0).to_numpy())
        offsets = pa.array(np.append(0, ends).astype(np.int32))
        inner = _repaired(_as_list(column).flatten(), notes)
        lists = pa.ListArray.from_arrays(offsets, inner, mask=missing)
        if pa.types.is_list(kind):
            return lists
        return pa.MapArray.from_arrays(offsets, inner.field(0), inner.field(1), mask=missing)
    return column


def _as_list(column: pa.Array) -> pa.ListArray:
    """A map is a list of pairs."""
    kind = column.type
    if not pa.types.is_map(kind):
        return column
    pair = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    return column.cast(pa.list_(pa.field("entries", pair, nullable=False)))


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        members = (f"{_quoted(str(key))}:{_text(member)}" for key, member in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, float):
        return json_text.double_text(value)
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return f'"{value.isoformat()}"'
    return str(value) if isinstance(value, Decimal) and value.is_finite() else _quoted(str(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
