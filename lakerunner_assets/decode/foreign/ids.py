"""Trace and span ids are read from hexadecimal text; a 64-bit trace id is padded with zeros.

Other text (`abc`, decimal numbers) is no id: the column is null there and the text stays an attribute.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.field_kernels import Spans, copy_ids
from lakerunner_assets.decode.foreign.hex_kernels import ID, NONE, NOT_AN_ID, PADDED, States, hex_ids
from lakerunner_assets.decode.foreign.mapping import Fields, Mask, valid
from lakerunner_assets.decode.text import string_buffers
from resources.arrays import Bytes


def role_ids(fields: Fields, role: str, width: int, note: str, notes: Counter[str]) -> pa.Array:
    """Return the first id of each row as fixed-width bytes; count rows whose text is no id."""
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
            return _mask_absent(*hex_ids(*string_buffers(column), width), valid(column))
        ids, states = hex_ids(*string_buffers(column.dictionary), width)
        codes = column.indices.fill_null(0).to_numpy()
        if len(states):
            return _mask_absent(ids[codes], states[codes], valid(column))
    elif kind == "bytes":
        offsets, data = string_buffers(column)
        spans = Spans(offsets[:-1].astype(np.int64), np.diff(offsets))
        raw, missing, _ = copy_ids(data, spans, width)
        unset = (spans.length == 0) | ((spans.length == width) & missing)
        states = np.where(unset, NONE, np.where(missing, NOT_AN_ID, ID)).astype(np.uint8)
        return _mask_absent(raw.reshape(-1, width), states, valid(column))
    return np.zeros((len(column), width), np.uint8), np.zeros(len(column), np.uint8)


def _mask_absent(ids: Bytes, states: States, present: Mask) -> tuple[Bytes, States]:
    return ids, np.where(present, states, np.uint8(NOT_AN_ID))
