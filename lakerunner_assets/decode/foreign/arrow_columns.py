"""Arrow columns of any type become raw columns: Parquet has more types than JSON.

    attrs: struct<http: struct<status: int32>, ok: bool>      attrs.http.status int | attrs.ok bool
    tags: map<string, string>                            →    tags.env string | tags.zone string
    ids: list<int64>                                          ids array, '[1,2]'
    price: decimal(10, 2)                                     price string, '1.50' (no digit is lost)
    at: timestamp[ms]                                         at time (nanoseconds)

A value that does not fit its kind (a timestamp of the year 1, an integer past 2^63) is text, in a raw column
of its own. A type that is none of these is an error that names the column.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.errors import MalformedError
from lakerunner_assets.decode.foreign.mapping import Key, valid
from lakerunner_assets.decode.foreign.times import TIME
from lakerunner_assets.decode.naming import MAX_COLUMNS
from lakerunner_assets.decode.slice_kernels import group_by_code
from lakerunner_assets.decode.text import repair_utf8
from resources.otel_text import json_double


def json_texts(column: pa.Array, notes: Counter[str]) -> pa.StringArray:
    """Write Arrow lists as JSON text, as the other decoders write arrays: compact, bytes base64, NaN in
    quotes.

    >>> json_texts(pa.array([[1, 2], None, []]), Counter()).to_pylist()
    ['[1,2]', None, '[]']
    """
    try:
        values = _values(column)
    except UnicodeDecodeError:
        values = _values(_repair(column, notes))
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _values(column: pa.Array) -> list[object]:
    """Convert to Python values; one that Python cannot hold (a date in year 30,000) fails the object."""
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except UnicodeDecodeError:
        raise
    except (OverflowError, LookupError, TypeError, ValueError) as error:
        raise MalformedError(
            0, f"Parquet: a list of type {column.type} that cannot be read: {error}"
        ) from error


def _repair(column: pa.Array, notes: Counter[str]) -> pa.Array:
    """Repair the UTF-8 of nested text."""
    kind = column.type
    missing = pa.array(column.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_string(kind):
        return repair_utf8(column, notes)
    if pa.types.is_struct(kind):
        members = [_repair(member, notes) for member in column.flatten()]
        return pa.StructArray.from_arrays(members, [member.name for member in kind], mask=missing)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        ends = np.cumsum(pc.fill_null(pc.list_value_length(_as_list(column)), 0).to_numpy())
        offsets = pa.array(np.append(0, ends).astype(np.int32))
        inner = _repair(_as_list(column).flatten(), notes)
        lists = pa.ListArray.from_arrays(offsets, inner, mask=missing)
        if pa.types.is_list(kind):
            return lists
        return pa.MapArray.from_arrays(offsets, inner.field(0), inner.field(1), mask=missing)
    return column


def _as_list(column: pa.Array) -> pa.ListArray:
    """View a map as a list of pairs."""
    kind = column.type
    if not pa.types.is_map(kind):
        return column
    pair = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
    return column.cast(pa.list_(pa.field("entries", pair, nullable=False)))


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        members = (f"{_quote(str(key))}:{_text(member)}" for key, member in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, float):
        return json_double(value)
    if isinstance(value, bytes):
        return f'"{base64.b64encode(value).decode()}"'
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return f'"{value.isoformat()}"'
    return str(value) if isinstance(value, Decimal) and value.is_finite() else _quote(str(value))


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


Raw = tuple[Key, pa.Array]
MAX_DEPTH = 64
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_LAST = 2**63 - 1
REPEATED = "repeated_keys"


def raw_columns(name: str, column: pa.Array, notes: Counter[str], depth: int = 0) -> Iterator[Raw]:
    """Split a column into raw columns."""
    kind = column.type
    if depth > MAX_DEPTH:
        raise MalformedError(0, f"Parquet: column {name!r} is nested deeper than {MAX_DEPTH}")
    if isinstance(kind, pa.BaseExtensionType):
        yield from _extension(name, column, notes, depth)
    elif pa.types.is_struct(kind):
        for member, values in zip(kind, column.flatten(), strict=True):
            yield from raw_columns(f"{name}.{member.name}", values, notes, depth + 1)
    elif pa.types.is_map(kind):
        yield from _map(name, column, notes, depth)
    elif pa.types.is_dictionary(kind) and not pa.types.is_string(kind.value_type):
        yield from raw_columns(name, column.dictionary_decode(), notes, depth + 1)
    elif not pa.types.is_null(kind):
        read = next((reader for fits, reader in _READERS if fits(kind)), None)
        if read is None:
            raise MalformedError(
                0,
                f"Parquet: column {name!r} is {kind}; expected text, numbers, times, lists, maps or structs",
            )
        for value_kind, values in read(column, notes):
            yield (name, value_kind), values


def _extension(name: str, column: pa.ExtensionArray, notes: Counter[str], depth: int) -> Iterator[Raw]:
    if column.type.extension_name == "arrow.uuid":
        texts = [None if value is None else str(value) for value in column.to_pylist()]
        yield (name, "string"), pa.array(texts, pa.string())
    else:
        yield from raw_columns(name, column.storage, notes, depth + 1)


def _map(name: str, column: pa.MapArray, notes: Counter[str], depth: int) -> Iterator[Raw]:
    """Make a column per key, of the most frequent keys if there are too many."""
    offsets = column.offsets.to_numpy()
    keys = column.keys.slice(offsets[0], offsets[-1] - offsets[0]).cast(pa.string())
    items = column.items.slice(offsets[0], offsets[-1] - offsets[0])
    row_of_entry = np.repeat(np.arange(len(column)), np.diff(offsets))
    coded = repair_utf8(keys, notes).dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    words = coded.dictionary.to_pylist()
    counts = np.bincount(codes, minlength=len(words))
    order, bounds = group_by_code(codes.astype(np.int32), counts)
    frequent = np.argsort(-counts, kind="stable").tolist()
    for code in frequent[:MAX_COLUMNS]:
        entries = order[bounds[code] : bounds[code + 1]]
        rows = row_of_entry[entries]
        repeated = int((rows[1:] == rows[:-1]).sum())
        if repeated:
            notes[REPEATED] += repeated
        place = np.full(len(column), -1, np.int64)
        place[rows] = entries  # of repeated keys the last wins
        taken = items.take(pa.array(np.maximum(place, 0), mask=place < 0))
        yield from raw_columns(f"{name}.{words[code]}", taken, notes, depth + 1)
    if frequent[MAX_COLUMNS:]:
        rare = np.isin(codes, frequent[MAX_COLUMNS:])
        yield (
            (name, "string"),
            _objects(_take_entries(keys, items, row_of_entry, np.flatnonzero(rare), len(column)), notes),
        )


def _take_entries(
    keys: pa.Array, items: pa.Array, row_of_entry: np.ndarray, entries: np.ndarray, count: int
) -> pa.MapArray:
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(row_of_entry[entries], minlength=count), out=offsets[1:])
    chosen = pa.array(entries)
    return pa.MapArray.from_arrays(offsets, keys.take(chosen), items.take(chosen))


def _objects(maps: pa.MapArray, notes: Counter[str]) -> pa.StringArray:
    """Write members with rare keys as one JSON object per row: a thousand columns are enough."""
    texts = json_texts(maps, notes)
    return pc.if_else(pc.equal(texts, "{}"), None, texts)


Kinds = Iterator[tuple[str, pa.Array]]


def _texts(column: pa.Array, notes: Counter[str]) -> Kinds:
    """Check UTF-8, which neither Parquet nor its reader does."""
    if pa.types.is_dictionary(column.type):
        dictionary = column.dictionary
        if dictionary.null_count:
            yield from _texts(column.cast(pa.string()), notes)
            return
        indices = column.indices.cast(pa.int32())
        yield "string", pa.DictionaryArray.from_arrays(indices, repair_utf8(dictionary, notes))
    else:
        yield (
            "string",
            repair_utf8(column if pa.types.is_string(column.type) else column.cast(pa.string()), notes),
        )


def _plain_text(column: pa.Array, _: Counter[str]) -> Kinds:
    yield "string", column.cast(pa.string())


def _integers(column: pa.Array, _: Counter[str]) -> Kinds:
    if pa.types.is_uint64(column.type):
        large = pc.greater(column, pa.scalar(_LAST, pa.uint64())).fill_null(False)
        if pc.any(large).as_py():
            yield "string", pc.if_else(large, column.cast(pa.string()), None)
            yield "int", pc.if_else(large, None, column).cast(pa.int64())
            return
    yield "int", column.cast(pa.int64())


def _doubles(column: pa.Array, _: Counter[str]) -> Kinds:
    yield "double", column.cast(pa.float64())


def _flags(column: pa.Array, _: Counter[str]) -> Kinds:
    yield "bool", column


def _timestamps(column: pa.Array, _: Counter[str]) -> Kinds:
    factor = _UNITS_NS[column.type.unit]
    present = valid(column)
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
    fits = (numbers <= _LAST // factor) & (numbers >= -(_LAST // factor))
    yield TIME, pa.array(np.where(fits, numbers, 0) * factor, mask=~(fits & present))
    if not fits.all():
        yield "string", pc.if_else(pa.array(fits), None, column.cast(pa.string()))


def _durations(column: pa.Array, _: Counter[str]) -> Kinds:
    """Write durations as text with their unit, which the duration role reads."""
    unit = column.type.unit
    yield "string", pc.binary_join_element_wise(column.cast(pa.int64()).cast(pa.string()), unit, "")


def _bytes(column: pa.Array, _: Counter[str]) -> Kinds:
    yield "bytes", column.cast(pa.binary())


def _lists(column: pa.Array, notes: Counter[str]) -> Kinds:
    yield "array", json_texts(column, notes).dictionary_encode()


_types = pa.types
_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, Counter[str]], Kinds]], ...] = (
    (_types.is_string, _texts),
    (_types.is_dictionary, _texts),
    (lambda kind: _types.is_large_string(kind) or _types.is_string_view(kind), _texts),
    (_types.is_boolean, _flags),
    (_types.is_integer, _integers),
    (_types.is_floating, _doubles),
    (_types.is_timestamp, _timestamps),
    (_types.is_duration, _durations),
    (lambda kind: _types.is_date(kind) or _types.is_time(kind) or _types.is_decimal(kind), _plain_text),
    (lambda kind: _types.is_fixed_size_binary(kind) or _types.is_binary(kind), _bytes),
    (lambda kind: _types.is_large_binary(kind) or _types.is_binary_view(kind), _bytes),
    (lambda kind: _types.is_list(kind) or _types.is_large_list(kind), _lists),
    (_types.is_fixed_size_list, _lists),
)
