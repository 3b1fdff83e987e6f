"""OTLP's AnyValue becomes text in OTel's string form.

Strings are themselves, numbers decimal, bytes base64, arrays and maps JSON with keys in sent order. Arrow
converts scalars; `any_value_kernels.py` renders structured values, once per distinct value.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.any_value_kernels import _GROWTH, render, splice
from lakerunner_assets.decode.errors import TooLargeError, raise_fault
from lakerunner_assets.decode.field_kernels import (
    ARRAY,
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    KVLIST,
    STRING,
    Spans,
    Values,
)
from lakerunner_assets.decode.slice_kernels import distinct
from lakerunner_assets.decode.text import repair_utf8, strings
from resources.arrays import Bytes, Int32s, Int64s
from resources.otel_text import double_text, json_double


def texts(data: Bytes, values: Values, notes: Counter[str]) -> pa.StringArray:
    """Return the string form of every value; an unset value is ''."""
    kinds = np.flatnonzero(np.bincount(values.kind, minlength=8))
    if len(kinds) <= 1:
        return texts_of_kind(data, int(kinds[0]) if len(kinds) else STRING, values, notes)
    parts = []
    place = np.empty(len(values.kind), np.int64)
    done = 0
    for kind in kinds:
        rows = np.flatnonzero(values.kind == kind)
        parts.append(texts_of_kind(data, int(kind), take_values(values, rows), notes))
        place[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    return pa.concat_arrays(parts).take(pa.array(place))


def texts_of_kind(data: Bytes, kind: int, values: Values, notes: Counter[str]) -> pa.StringArray:
    if kind == STRING:
        return strings(data, Spans(values.value, values.length), notes)
    if kind in {ARRAY, KVLIST, BYTES}:
        codes, unique = render_values(data, kind, Spans(values.value, values.length), notes)
        return unique.take(pa.array(codes))
    if kind == INT:
        return pa.array(values.value).cast(pa.string())
    if kind == BOOL:
        return pc.if_else(pa.array(values.value != 0), "true", "false")
    if kind == DOUBLE:
        return pa.array(
            [double_text(number) for number in values.value.view(np.float64).tolist()], pa.string()
        )
    return pa.array([""] * len(values.kind), pa.string())


def render_values(data: Bytes, kind: int, spans: Spans, notes: Counter[str]) -> tuple[Int32s, pa.StringArray]:
    """Render bytes, arrays or maps once per distinct value; return codes and texts."""
    codes, unique = distinct(data, spans)
    return codes, repair_utf8(render_texts(data, kind, unique), notes)


def take_values(values: Values, rows: Int64s) -> Values:
    return Values(values.kind[rows], values.value[rows], values.length[rows])


def render_texts(data: Bytes, kind: int, spans: Spans) -> pa.StringArray:
    """Render arrays, maps or bytes as text, whose UTF-8 is not yet checked."""
    total, count = int(spans.length.sum(dtype=np.int64)), len(spans.start)
    text = np.empty(_GROWTH * total + 4 * count, np.uint8)
    offsets = np.zeros(count + 1, np.int64)
    numbers = np.empty(total // 9 + 1, np.int64)  # a double takes nine bytes or more
    places = np.empty(len(numbers), np.int64)
    used, found = render(data, kind, spans, text, offsets, numbers, places)
    raise_fault(used)
    if found:
        words = [json_double(value).encode() for value in numbers[:found].view(np.float64).tolist()]
        lengths = np.array([len(word) for word in words], np.int64)
        text, offsets = splice(
            text[:used], offsets, places[:found], np.frombuffer(b"".join(words), np.uint8), lengths
        )
    if offsets[-1] > np.iinfo(np.int32).max:
        raise TooLargeError(int(spans.start[0]), f"structured values unfold to {offsets[-1]} bytes of text")
    narrow = offsets.astype(np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(narrow), pa.py_buffer(text[: narrow[-1]].copy()))
