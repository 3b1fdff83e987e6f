"""Raw values become text; columns that may play one role become one column.

String forms are OTel's, as everywhere: numbers decimal, `true`, bytes base64, arrays JSON, times RFC 3339.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.foreign.mapping import Fields, valid
from lakerunner_assets.decode.foreign.times import TIME
from resources.otel_text import value_text

KIND_CODES = {"empty": 0, "string": 1, "bool": 2, "int": 3, "double": 4, "array": 5, "bytes": 7, TIME: 1}
"""Codes of kinds, as in `field_kernels.KINDS`; a time of Parquet is kept as its text."""


def text_of(kind: str, column: pa.Array) -> pa.Array:
    """Return a string array, or the dictionary array it is already."""
    if kind in {"string", "array"}:
        return column
    if kind == "int":
        return column.cast(pa.string())
    if kind == "bool":
        return pc.if_else(column, "true", "false")
    if kind in {"double", "bytes"}:
        return pa.array([None if one is None else value_text(one) for one in column.to_pylist()], pa.string())
    assert kind == TIME  # noqa: S101  (readers make no other kind)
    return pc.strftime(column.cast(pa.timestamp("ns", "UTC")), "%Y-%m-%dT%H:%M:%SZ", locale="C")


def without_dictionary(column: pa.Array) -> pa.StringArray:
    """Remove the dictionary."""
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def with_dictionary(column: pa.Array) -> pa.DictionaryArray:
    """Add a dictionary."""
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def role_text(fields: Fields, role: str) -> tuple[pa.Array, np.ndarray]:
    """Return the first value of each row as text (null for none), and the codes of its kinds."""
    parts: list[pa.Array] = []
    kinds = np.zeros(fields.count, np.uint8)
    known = np.zeros(fields.count, np.bool_)
    for key, column in fields.candidates(role):
        chosen = valid(column) & ~known
        if not chosen.any():
            continue
        parts.append(text_of(key[1], column))
        kinds[chosen] = KIND_CODES[key[1]]
        fields.take(key, None if chosen.all() else chosen)
        known |= chosen
    if not parts:
        return pa.nulls(fields.count, pa.string()), kinds
    return parts[0] if len(parts) == 1 else pc.coalesce(*map(without_dictionary, parts)), kinds


def role_codes(fields: Fields, role: str) -> pa.DictionaryArray:
    """Return the text of a role of few values: dictionary-coded, '' where there is none."""
    return without_nulls(with_dictionary(role_text(fields, role)[0]))


def without_nulls(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Replace null by '', as an unset text field of OTLP reads."""
    words = column.dictionary.to_pylist()
    if column.null_count == 0:
        return column
    code = words.index("") if "" in words else len(words)
    indices = column.indices.cast(pa.int32()).fill_null(code)
    return pa.DictionaryArray.from_arrays(indices, pa.array([*words, ""][: max(len(words), code + 1)]))
