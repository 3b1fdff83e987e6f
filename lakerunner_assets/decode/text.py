"""Turns slices of raw bytes into Arrow strings.

Bytes are gathered by a kernel straight into Arrow's buffers; whether they are UTF-8 is checked once per
column. A value that is not gets U+FFFD for the bad bytes and is counted: one broken producer must neither
be rejected silently nor take its neighbours down.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode.copying import copy_bytes, fetch_ahead
from lakerunner_assets.decode.distinct import AHEAD, code_slices, take_spans
from lakerunner_assets.decode.fields import Spans
from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import kernel, scanner

REPAIRED = "invalid_utf8"
_SAMPLE = 1024
_MAX_DICTIONARY = 1 << 14


@kernel
def gather(data: Bytes, spans: Spans, rows: Int64s, row_count: int) -> tuple[Int32s, Bytes, Bytes, bool]:
    """Offsets, bytes, validity bits, 'is pure ASCII' of an array: `spans` at `rows`, null elsewhere."""
    offsets = np.empty(row_count + 1, np.int32)
    text = np.empty(spans.length.sum(), np.uint8)
    valid = np.zeros((row_count + 7) // 8, np.uint8)
    gather_into(data, spans.start, spans.length, rows, offsets, text, valid)
    return offsets, text, valid, is_ascii(text)


@scanner
def gather_into(
    data: Bytes, starts: Int64s, lengths: Int32s, rows: Int64s, offsets: Int32s, text: Bytes, valid: Bytes
) -> None:
    row = np.int64(0)
    used = np.int64(0)
    for index in range(len(rows)):
        target = rows[index]
        while row <= target:
            offsets[row] = used
            row += 1
        valid[target >> 3] |= np.uint8(1 << (target & 7))
        if index + AHEAD < len(rows):
            fetch_ahead(data, starts[index + AHEAD])
            fetch_ahead(data, starts[index + AHEAD] + 64)
        length = np.int64(lengths[index])
        copy_bytes(text, used, data, starts[index], length)
        used += length
    while row < len(offsets):
        offsets[row] = used
        row += 1


@kernel
def is_ascii(text: Bytes) -> bool:
    seen = np.uint8(0)
    for byte in text:
        seen |= byte
    return bool(seen < 128)


def strings(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.StringArray:
    """One string per slice."""
    return strings_at(data, spans, np.arange(len(spans.start)), len(spans.start), notes)


def strings_at(
    data: Bytes, spans: Spans, rows: Int64s, row_count: int, notes: Counter[str]
) -> pa.StringArray:
    """`spans[i]` at row `rows[i]` (strictly ascending), null at the others."""
    offsets, text, valid, ascii_only = gather(data, spans, rows, row_count)
    validity = None if len(rows) == row_count else pa.py_buffer(valid)
    array = pa.StringArray.from_buffers(row_count, pa.py_buffer(offsets), pa.py_buffer(text), validity)
    return array if ascii_only else repaired(array, notes)


def repaired(array: pa.StringArray, notes: Counter[str]) -> pa.StringArray:
    """The same array with invalid UTF-8 replaced by U+FFFD."""
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


def coded_strings(data: Bytes, spans: Spans, notes: Counter[str]) -> pa.DictionaryArray:
    """A dictionary array, for columns known to repeat."""
    codes, first = code_slices(data, spans, 1 << 31)
    return pa.DictionaryArray.from_arrays(pa.array(codes), strings(data, take_spans(spans, first), notes))


def column_at(data: Bytes, spans: Spans, rows: Int64s, row_count: int, notes: Counter[str]) -> pa.Array:
    """Dictionary-coded when values repeat (a look at the first thousand decides), plain otherwise."""
    if _repeats(data, spans):
        codes, first = code_slices(data, spans, min(_MAX_DICTIONARY, max(16, len(rows) // 4)))
        if len(codes):
            dictionary = strings(data, take_spans(spans, first), notes)
            return pa.DictionaryArray.from_arrays(scatter_codes(codes, rows, row_count), dictionary)
    return strings_at(data, spans, rows, row_count, notes)


def scatter_codes(codes: Int32s, rows: Int64s, row_count: int) -> pa.Array:
    """`codes[i]` at row `rows[i]`, null at the others."""
    return scatter(codes, rows, row_count)


def scatter(values: npt.NDArray[np.generic], rows: Int64s, row_count: int) -> pa.Array:
    """An Arrow array of `values` at `rows`, null elsewhere."""
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
