"""Trace and span ids from text: hexadecimal of the full width, or a 64-bit trace id to be filled with zeros.

What else people write (`abc`, decimal numbers) is no id: the column stays null there, the text an attribute.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode.field_kernels import Spans, copy_ids
from lakerunner_assets.decode.foreign.mapping import Fields, Mask, valid
from lakerunner_assets.decode.text import string_buffers
from resources.arrays import Bytes, Int32s
from resources.kernel import Integer, kernel

# << Reads hexadecimal ids; apart from its caller so that it is rarely compiled anew.

NOT_AN_ID, ID, PADDED, NONE = range(4)
"""Not an id; one; one that was written shorter; the empty or all-zero text for 'no id'."""
States = npt.NDArray[np.uint8]

_NIBBLES = np.full(256, 255, np.uint8)
for _value, _digit in enumerate(b"0123456789abcdef"):
    _NIBBLES[[_digit, ord(chr(_digit).upper())]] = _value
_NIBBLES.flags.writeable = False


@kernel
def hex_ids(offsets: Int32s, text: Bytes, width: Integer) -> tuple[Bytes, States]:
    """Bytes and state of every text."""
    count = len(offsets) - 1
    ids = np.zeros((count, width), np.uint8)
    states = np.zeros(count, np.uint8)
    for row in range(count):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        size = end - start
        if size == 0:
            states[row] = NONE
            continue
        short = width == 16 and size == 16
        if size != 2 * width and not short:
            continue
        first = width - size // 2
        seen = np.uint8(0)
        faults = np.uint8(0)
        for index in range(size // 2):
            at = np.uint64(start + 2 * index)
            high, low = _NIBBLES[text[at]], _NIBBLES[text[at + np.uint64(1)]]
            faults |= high | low
            byte = (high << np.uint8(4)) | low
            ids[row, first + index] = byte
            seen |= byte
        if faults < 16:
            states[row] = NONE if seen == 0 else PADDED if short else ID
    return ids, states


def role_ids(fields: Fields, role: str, width: int, note: str, notes: Counter[str]) -> pa.Array:
    """The first id of each row as fixed-width bytes; rows with something that is none are noted."""
    found = np.zeros((fields.count, width), np.uint8)
    known = np.zeros(fields.count, np.bool_)
    wrong = np.zeros(fields.count, np.bool_)
    for key, column in fields.candidates(role):
        ids, states = _ids_of(key[1], column, width)
        chosen = ((states == ID) | (states == PADDED)) & ~known
        found[chosen] = ids[chosen]
        present = valid(column)
        wrong |= (states == NOT_AN_ID) & present
        fields.take(key, ((chosen & (states == ID)) | (states == NONE)) & present)
        known |= chosen
    wrong &= ~known
    if wrong.any():
        notes[note] += int(wrong.sum())
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(width), fields.count, [validity, pa.py_buffer(found)])


def _ids_of(kind: str, column: pa.Array, width: int) -> tuple[Bytes, States]:
    if kind == "string":
        if not pa.types.is_dictionary(column.type):
            return _masked(*hex_ids(*string_buffers(column), width), valid(column))
        ids, states = hex_ids(*string_buffers(column.dictionary), width)
        codes = column.indices.fill_null(0).to_numpy()
        if len(states):
            return _masked(ids[codes], states[codes], valid(column))
    elif kind == "bytes":
        offsets, data = string_buffers(column)
        spans = Spans(offsets[:-1].astype(np.int64), np.diff(offsets))
        raw, missing, _ = copy_ids(data, spans, width)
        unset = (spans.length == 0) | ((spans.length == width) & missing)
        states = np.where(unset, NONE, np.where(missing, NOT_AN_ID, ID)).astype(np.uint8)
        return _masked(raw.reshape(-1, width), states, valid(column))
    return np.zeros((len(column), width), np.uint8), np.zeros(len(column), np.uint8)


def _masked(ids: Bytes, states: States, present: Mask) -> tuple[Bytes, States]:
    return ids, np.where(present, states, np.uint8(NOT_AN_ID))
