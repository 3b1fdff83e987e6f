"""Slices of raw bytes become Arrow strings.

A kernel gathers bytes straight into Arrow's buffers; UTF-8 is checked once per column. In an invalid value
U+FFFD replaces the bad bytes, and the value is counted: one broken producer must neither be rejected silently
nor take its neighbours down.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.field_kernels import Spans
from lakerunner_assets.decode.slice_kernels import code_slices, gather, take_spans
from resources.arrays import Bytes, Int32s, Int64s

REPAIRED = "invalid_utf8"
_SAMPLE = 1024
_MAX_DICTIONARY = 1 << 14


def strings(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.StringArray:
    """Return one string per slice."""
    return strings_at(data, spans, np.arange(len(spans.start)), len(spans.start), notes)


def strings_at(
    data: Bytes, spans: Spans, rows: Int64s, row_count: int, notes: Counter[str]
) -> pa.StringArray:
    """Return `spans[i]` at row `rows[i]` (strictly ascending), null at the others."""
    offsets, text, valid = gather(data, spans, rows, row_count)
    validity = None if len(rows) == row_count else pa.py_buffer(valid)
    array = pa.StringArray.from_buffers(row_count, pa.py_buffer(offsets), pa.py_buffer(text), validity)
    return array if not len(text) or text.max() < 128 else repair_utf8(array, notes)


def repair_utf8(array: pa.StringArray, notes: Counter[str]) -> pa.StringArray:
    """Replace invalid UTF-8 by U+FFFD."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raw = array.cast(pa.binary(), safe=False).to_pylist()
        fixed = [None if value is None else value.decode("utf-8", "replace") for value in raw]
        notes[REPAIRED] += sum(
            1
            for value, text in zip(raw, fixed, strict=True)
            if value is not None and value != (text or "").encode()
        )
        return pa.array(fixed, pa.string())
    return array


def encode_strings(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.DictionaryArray:
    """Return a dictionary array, for columns known to repeat."""
    codes, first = code_slices(data, spans, 1 << 31)
    return pa.DictionaryArray.from_arrays(pa.array(codes), strings(data, take_spans(spans, first), notes))


def column_at(data: Bytes, spans: Spans, rows: Int64s, row_count: int, notes: Counter[str]) -> pa.Array:
    """Return a dictionary array when values repeat (judged by the first thousand), else a plain one."""
    if _repeats(data, spans):
        codes, first = code_slices(data, spans, min(_MAX_DICTIONARY, max(16, len(rows) // 4)))
        if len(codes):
            dictionary = strings(data, take_spans(spans, first), notes)
            return pa.DictionaryArray.from_arrays(scatter_codes(codes, rows, row_count), dictionary)
    return strings_at(data, spans, rows, row_count, notes)


def scatter_codes(codes: Int32s, rows: Int64s, row_count: int) -> pa.Array:
    """Return `codes[i]` at row `rows[i]`, null at the others."""
    return scatter(codes, rows, row_count)


def scatter(values: npt.NDArray[np.generic], rows: Int64s, row_count: int) -> pa.Array:
    """Return an Arrow array of `values` at `rows`, null elsewhere."""
    if len(rows) == row_count:
        return pa.array(values)
    spread = np.zeros(row_count, values.dtype)
    missing = np.ones(row_count, np.bool_)
    spread[rows] = values
    missing[rows] = False
    return pa.array(spread, mask=missing)


def _repeats(data: Bytes, spans: Spans) -> bool:
    sample = min(len(spans.start), _SAMPLE)
    codes, _ = code_slices(data, Spans(spans.start[:sample], spans.length[:sample]), max(4, sample // 4))
    return len(codes) > 0


def string_buffers(array: pa.StringArray) -> tuple[Int32s, Bytes]:
    """Return offsets and bytes of a string array without nulls."""
    _, offsets, text = array.buffers()
    if len(array) == 0:
        return np.zeros(1, np.int32), np.frombuffer(b"", np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return bounds, np.frombuffer(text or b"", np.uint8)


def doubles(data: Bytes, spans: Spans) -> npt.NDArray[np.float64]:
    """Read JSON numbers as doubles, correctly rounded; what is too large for a double is infinite.

    Arrow reads them all at once; where it sees no double in a text, because it is too large or too small,
    Python's reader decides.
    """
    texts = strings(data, spans, Counter())
    try:
        return np.asarray(pc.cast(texts, pa.float64()), np.float64)
    except pa.ArrowInvalid:
        return np.array([float(text) for text in texts.to_pylist()])
