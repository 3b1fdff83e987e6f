"""The text of OTLP's AnyValue: OTel's string form.

Strings are themselves, numbers decimal, bytes base64, arrays and maps compact JSON with keys in sent order.
Scalars go through Arrow kernels; the rare structured values are rendered in Python once per distinct value,
which also is where their inner bytes are checked.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.distinct import distinct
from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.kernel import Integer
from lakerunner_assets.decode.scan import (
    ARRAY,
    BOOL,
    BYTES,
    DOUBLE,
    EMPTY,
    INT,
    KVLIST,
    STRING,
    Int64s,
    Spans,
    Values,
)
from lakerunner_assets.decode.text import REPAIRED, repaired, strings
from lakerunner_assets.decode.wire import (
    Bytes,
    raise_fault,
    read_fixed,
    read_length,
    read_tag,
    read_varint,
    skip_field,
)

MAX_DEPTH = 100
"""As the protobuf runtime's own recursion limit."""


def texts(data: Bytes, values: Values, notes: Counter[str]) -> pa.StringArray:
    """The string form of every value, never null (an unset value is '')."""
    kinds = np.flatnonzero(np.bincount(values.kind, minlength=8))
    if len(kinds) <= 1:
        return texts_of_kind(data, int(kinds[0]) if len(kinds) else STRING, values, notes)
    parts, places = [], []
    for kind in kinds:
        rows = np.flatnonzero(values.kind == kind)
        parts.append(texts_of_kind(data, int(kind), take_values(values, rows), notes))
        places.append(rows)
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))


def texts_of_kind(data: Bytes, kind: int, values: Values, notes: Counter[str]) -> pa.StringArray:
    if kind == STRING:
        return strings(data, Spans(values.value, values.length), notes)
    if kind in {ARRAY, KVLIST, BYTES}:
        codes, rendered = rendered_values(data, kind, Spans(values.value, values.length), notes)
        return rendered.take(pa.array(codes))
    if kind == INT:
        return pa.array(values.value).cast(pa.string())
    if kind == BOOL:
        return pc.if_else(pa.array(values.value != 0), "true", "false")
    if kind == DOUBLE:
        return pa.array(
            [double_text(number) for number in values.value.view(np.float64).tolist()], pa.string()
        )
    return pa.array([""] * len(values.kind), pa.string())


def rendered_values(
    data: Bytes, kind: int, spans: Spans, notes: Counter[str]
) -> tuple[np.ndarray, pa.StringArray]:
    """Codes and texts of bytes, arrays or maps: each distinct value is rendered once."""
    codes, unique = distinct(data, spans)
    render = Renderer(data, notes)
    form: Callable[[int, int], str] = {ARRAY: render.array, KVLIST: render.kvlist, BYTES: render.base64}[kind]
    rendered = [
        form(start, start + length)
        for start, length in zip(unique.start.tolist(), unique.length.tolist(), strict=True)
    ]
    return codes, repaired(pa.array(rendered, pa.string()), notes)


def take_values(values: Values, rows: Int64s) -> Values:
    return Values(values.kind[rows], values.value[rows], values.length[rows])


def double_text(number: float) -> str:
    """Shortest form that reads back the same; not-a-number and infinities as protobuf's JSON spells them."""
    if number != number:  # noqa: PLR0124  (the definition of NaN)
        return "NaN"
    if number in {float("inf"), float("-inf")}:
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


class Renderer:
    """Renders the structured AnyValues of one buffer as JSON text, checking every bound on the way."""

    def __init__(self, data: Bytes, notes: Counter[str]) -> None:
        self._data = data
        self._notes = notes

    def base64(self, start: int, end: int) -> str:
        return base64.b64encode(self._data[start:end].tobytes()).decode()

    def array(self, start: int, end: int, depth: int = 1) -> str:
        return f"[{','.join(self._value(s, e, depth) for _, s, e in self._messages(start, end, depth))}]"

    def kvlist(self, start: int, end: int, depth: int = 1) -> str:
        return f"{{{','.join(self._pair(s, e, depth) for _, s, e in self._messages(start, end, depth))}}}"

    def _pair(self, start: int, end: int, depth: int) -> str:
        key, value = '""', (0, 0)
        merged = "null"
        for tag, first, last in self._fields(start, end):
            if tag == 10:
                key = self._string(first, last)
            elif tag == 18:
                value = (first, last)
                merged = self._value(*value, depth)
        return f"{key}:{merged}"

    def _value(self, start: int, end: int, depth: int) -> str:
        text = "null"
        for tag, first, last in self._fields(start, end):
            if tag == 10:
                text = self._string(first, last)
            elif tag == 16:
                text = "true" if first else "false"
            elif tag == 24:
                text = str(first)
            elif tag == 33:
                number = double_text(struct.unpack("<d", struct.pack("<q", first))[0])
                text = f'"{number}"' if number[-1] in "Ny" else number
            elif tag == 42:
                text = self.array(first, last, depth + 1)
            elif tag == 50:
                text = self.kvlist(first, last, depth + 1)
            elif tag == 58:
                text = f'"{self.base64(first, last)}"'
        return text

    def _string(self, start: int, end: int) -> str:
        raw = self._data[start:end].tobytes()
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self._notes[REPAIRED] += 1
            text = raw.decode("utf-8", "replace")
        return json.dumps(text, ensure_ascii=False)

    def _messages(self, start: int, end: int, depth: int) -> Iterator[tuple[int, int, int]]:
        """The repeated field 1 of an ArrayValue or KeyValueList."""
        if depth > MAX_DEPTH:
            raise MalformedError(start, f"value nested deeper than {MAX_DEPTH} levels")
        return (field for field in self._fields(start, end) if field[0] == 10)

    def _fields(self, position: Integer, end: int) -> Iterator[tuple[int, int, int]]:
        """(tag, start, end) of fields with a length, (tag, number, 0) of scalars; others are skipped."""
        data = self._data
        while position < end:
            tag, position = read_tag(data, position, end)
            raise_fault(position)
            if tag & 7 == 2:
                length, position = read_length(data, position, end)
                raise_fault(position)
                yield int(tag), int(position), int(position + length)
                position += length
            elif tag in {16, 24}:
                number, position = read_varint(data, position, end)
                raise_fault(position)
                yield int(tag), int(number), 0
            elif tag == 33:
                number, position = read_fixed(data, position, end, 8)
                raise_fault(position)
                yield int(tag), int(number), 0
            else:
                position = skip_field(data, position, end, tag)
                raise_fault(position)


__all__ = ["EMPTY", "Renderer", "double_text", "rendered_values", "take_values", "texts", "texts_of_kind"]
