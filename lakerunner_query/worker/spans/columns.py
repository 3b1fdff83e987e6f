"""Stored columns of spans become typed columns of a frame.

    attr_mixed   int64     [1, null, null]            part int     rows [0]     values [1]
    attr_mixed_s string    [null, "one", null]        part string  rows [1]     values ["one"]
    attr_tags    array     [null, null, '["a","b"]']  part string  rows [2, 2]  values ["a", "b"]

Arrays are JSON texts in the file; each distinct one is parsed once. Arrays of several types, maps and bytes
are values that no condition compares with: they are there, and that is all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.traceql.lang.ast import Type
from lakerunner_query.traceql.values import Column, Part, Scalar, dense
from resources.arrays import Flags, Int64s

TYPES = {
    "string": Type.STRING, "int": Type.INTEGER, "double": Type.FLOAT, "bool": Type.BOOLEAN,
}  # fmt: skip
"""Types of attributes by their OTLP kind."""
ARRAY = "array"
_ELEMENTS: tuple[tuple[type, Type], ...] = (
    (bool, Type.BOOLEAN), (int, Type.INTEGER), (float, Type.FLOAT), (str, Type.STRING),
)  # fmt: skip


def attribute_column(stored: Sequence[tuple[str, pa.Array]], size: int) -> Column:
    """Return an attribute from its stored columns, each with its OTLP kind."""
    return Column(size, tuple(part for kind, array in stored for part in _parts(kind, array)))


def _parts(kind: str, array: pa.Array) -> Iterator[Part]:
    rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return
    if kind == ARRAY:
        yield from _lists(*_coded(array), rows)
    elif kind == "string":
        texts, codes = _coded(array)
        yield Part(Type.STRING, rows, codes, texts)
    elif kind in TYPES:
        yield Part(TYPES[kind], rows, array.drop_null().to_numpy(zero_copy_only=False))
    else:
        yield Part(Type.ATTRIBUTE, rows, *_opaque(array))


def _opaque(array: pa.Array) -> tuple[Int64s, tuple[str, ...]]:
    texts, codes = _coded(array)
    return codes, texts


def _coded(array: pa.Array) -> tuple[tuple[str, ...], Int64s]:
    """Return distinct texts, and the place of each row that has one."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = coded.indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return tuple(coded.dictionary.to_pylist()), codes


def text_column(array: pa.Array) -> Column:
    """Return a column of texts; rows without one have the empty text."""
    if array.null_count and pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return attribute_column([("string", array.fill_null(""))], len(array))


def _lists(texts: Sequence[str], codes: Int64s, rows: Int64s) -> Iterator[Part]:
    """Yield the elements of arrays, one part for each type."""
    parsed = [_elements(text) for text in texts]
    for kind in {kind for kind, _ in parsed if kind is not None}:
        yield _list_part(kind, parsed, codes, rows)
    opaque = np.array([kind is None for kind, _ in parsed], np.bool_)[codes]
    if opaque.any():
        yield Part(Type.ATTRIBUTE, rows[opaque], codes[opaque], tuple(texts))


def _list_part(
    kind: Type, parsed: Sequence[tuple[Type | None, list[Scalar]]], codes: Int64s, rows: Int64s
) -> Part:
    lengths = np.array([len(values) if one is kind else 0 for one, values in parsed], np.int64)
    flat = [value for one, values in parsed if one is kind for value in values]
    begins = np.cumsum(lengths) - lengths
    counts = lengths[codes]
    owners = np.repeat(rows, counts)
    skipped = np.repeat(np.cumsum(counts) - counts, counts)
    places = np.repeat(begins[codes], counts) + np.arange(len(owners)) - skipped
    return flat_part(kind, owners, flat, places)


def flat_part(kind: Type, owners: Int64s, flat: Sequence[Scalar], places: Int64s) -> Part:
    """Return a list part of values that are named by their places."""
    if kind is Type.STRING:
        return Part(kind, owners, places, tuple(str(value) for value in flat), True)
    dtype = {Type.BOOLEAN: np.bool_, Type.INTEGER: np.int64, Type.FLOAT: np.float64}[kind]
    return Part(kind, owners, np.array(flat, dtype)[places], (), True)


def _elements(text: str) -> tuple[Type | None, list[Scalar]]:
    """Return the elements of an array of one type; no type for any other array.

    >>> _elements("[1, 2]"), _elements('[1, "x"]'), _elements("[]")
    ((<Type.INTEGER: 'int'>, [1, 2]), (None, []), (None, []))
    """
    values = json.loads(text)
    for python, kind in _ELEMENTS:
        if values and all(type(value) is python for value in values):
            if kind is Type.INTEGER and not all(-(2**63) <= value < 2**63 for value in values):
                return None, []
            return kind, values
    return None, []


def list_field(lists: pa.Array, field: str) -> tuple[Int64s, pa.Array]:
    """Return a field of events or links, flat, with the row of each."""
    chosen = lists.flatten()
    return owners_of(lists), pc.struct_field(chosen, field)


def owners_of(lists: pa.Array) -> Int64s:
    """Return the row of each element of a column of lists."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(lists)), lengths)


def nested_texts(owners: Int64s, values: pa.Array) -> Column:
    """Return texts of events or links by span."""
    return _nested(owners, [("string", values)])


def nested_attribute(lists: pa.Array, key: str) -> Column:
    """Return the values of an attribute of events or links by span."""
    owners, attributes = list_field(lists, "attributes")
    owners = owners[owners_of(attributes)]
    flat = attributes.flatten()
    chosen = pc.equal(pc.struct_field(flat, "key"), key).fill_null(False)
    owners = owners[chosen.to_numpy(zero_copy_only=False)]
    flat = flat.filter(chosen)
    kinds, values = pc.struct_field(flat, "kind"), pc.struct_field(flat, "value")
    parts: list[Part] = []
    for kind in sorted(filter(None, kinds.unique().to_pylist())):
        same = pc.equal(kinds, kind).fill_null(False)
        places = np.flatnonzero(same.to_numpy(zero_copy_only=False))
        parts += _nested_parts(places, kind, _converted(kind, values.filter(same)))
    return Column(len(lists), tuple(_by_owner(parts, owners)))


def _by_owner(parts: Sequence[Part], owners: Int64s) -> Iterator[Part]:
    """Yield one part for each type, in a fixed order, with the rows of what is numbered as in the lists."""
    for kind in _ORDER:
        same = [part for part in parts if part.kind is kind]
        if same:
            offsets = np.cumsum([0, *(len(part.texts) for part in same)])
            values = [
                part.values + offset if part.has_texts else part.values
                for part, offset in zip(same, offsets, strict=False)
            ]
            places = np.concatenate([part.rows for part in same])
            order = np.argsort(places, kind="stable")
            texts = tuple(text for part in same for text in part.texts)
            yield Part(kind, owners[places[order]], np.concatenate(values)[order], texts, True)


_ORDER = (Type.ATTRIBUTE, Type.BOOLEAN, Type.INTEGER, Type.FLOAT, Type.STRING)
"""The last type counts where values of one span have several: it is shown and grouped by."""


def _converted(kind: str, values: pa.Array) -> pa.Array:
    """Return values by their kind, of texts as OpenTelemetry writes them."""
    if kind == "bool":
        return pc.equal(values, "true")
    if kind == "int":
        return values.cast(pa.int64())
    return values.cast(pa.float64()) if kind == "double" else values


def _nested(owners: Int64s, stored: Iterable[tuple[str, pa.Array]]) -> Column:
    size = int(owners[-1]) + 1 if len(owners) else 0
    return Column(size, tuple(part for kind, array in stored for part in _nested_parts(owners, kind, array)))


def _nested_parts(owners: Int64s, kind: str, array: pa.Array) -> Iterator[Part]:
    for part in _parts(kind, array):
        yield Part(part.kind, owners[part.rows], part.values, part.texts, True)


def integers(kind: Type, values: pa.Array, valid: Flags | None = None) -> Column:
    return dense(kind, values.fill_null(0).to_numpy(zero_copy_only=False), valid)
