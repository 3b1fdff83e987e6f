"""Arrow columns become PostgreSQL's rows; each column has one function, chosen once.

A record batch is encoded as a whole: per column the bytes of all values, then all rows joined by Arrow. One
Python call per value would be fifteen times slower (`benchmarks/postgres_rows.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TEXT, BINARY = 0, 1
EPOCH_US = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL's times begin."""
EPOCH_DAYS = 10_957
_PLAIN_FROM, _PLAIN_TO = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Years 1 to 9999, in microseconds: outside of them PostgreSQL writes times in another way."""


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL as far as row descriptions name it."""

    oid: int
    size: int
    name: str
    array: int = 0
    """OID of the type of its arrays."""


BOOL, BYTEA, INT8 = PgType(16, 1, "bool", 1000), PgType(17, -1, "bytea", 1001), PgType(20, 8, "int8", 1016)
INT2, INT4, VARCHAR = PgType(21, 2, "int2", 1005), PgType(23, 4, "int4", 1007), PgType(25, -1, "text", 1009)
FLOAT4, FLOAT8 = PgType(700, 4, "float4", 1021), PgType(701, 8, "float8", 1022)
DATE, TIME = PgType(1082, 4, "date", 1182), PgType(1083, 8, "time", 1183)
TIMESTAMP, TIMESTAMPTZ = PgType(1114, 8, "timestamp", 1115), PgType(1184, 8, "timestamptz", 1185)
INTERVAL, NUMERIC = PgType(1186, 16, "interval", 1187), PgType(1700, -1, "numeric", 1231)
UUID_TYPE, JSON = PgType(2950, 16, "uuid", 2951), PgType(114, -1, "json", 199)


@dataclass(frozen=True, slots=True)
class Piece:
    """A column of a batch on its way: arrays to join, and the bytes that each row takes of them."""

    parts: tuple[pa.Array, ...]
    lengths: np.ndarray


Encode = Callable[[pa.Array], Piece]


def type_of(kind: pa.DataType) -> PgType:
    """Return the type under which a column of Arrow is shown."""
    if pa.types.is_dictionary(kind):
        return type_of(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = type_of(kind.value_type)
        return PgType(item.array, -1, f"_{item.name}") if item.array else JSON
    return next((shown for belongs, shown in _SHOWN if belongs(kind)), VARCHAR)


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.UuidType)


_SHOWN: tuple[tuple[Callable[[pa.DataType], bool], PgType], ...] = (
    (pa.types.is_boolean, BOOL),
    (pa.types.is_int64, INT8),
    (pa.types.is_int32, INT4),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_int8(kind) or pa.types.is_uint8(kind), INT2),
    (pa.types.is_uint16, INT4),
    (pa.types.is_uint32, INT8),
    (lambda kind: pa.types.is_uint64(kind) or pa.types.is_decimal(kind), NUMERIC),
    (pa.types.is_float64, FLOAT8),
    (pa.types.is_floating, FLOAT4),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, TIMESTAMP),
    (pa.types.is_timestamp, TIMESTAMPTZ),
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
    (lambda kind: pa.types.is_interval(kind) or pa.types.is_duration(kind), INTERVAL),
    (_is_uuid, UUID_TYPE),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind),
        BYTEA,
    ),
    (pa.types.is_nested, JSON),
)  # fmt: skip


def encoder(kind: pa.DataType, form: int) -> Encode:
    """Choose the function that encodes every value of a column."""
    if pa.types.is_dictionary(kind):
        inner = encoder(kind.value_type, form)
        return lambda column: inner(column.dictionary_decode())
    shown = type_of(kind)
    if shown.name.startswith("_"):
        return _array_encoder(encoder(kind.value_type, form), type_of(kind.value_type).oid, form)
    if form == BINARY:
        return _BINARY.get(shown.oid, _text_piece)
    return _TEXT.get(shown.oid, _cast_text)


def encode_rows(columns: Sequence[pa.Array], encoders: Sequence[Encode]) -> memoryview:
    """Return all rows as DataRow messages."""
    rows = len(columns[0]) if columns else 0
    pieces = [encode(column) for encode, column in zip(encoders, columns, strict=True)]
    heads = np.empty(rows, np.dtype([("kind", "S1"), ("length", ">i4"), ("columns", ">i2")]))
    heads["kind"], heads["columns"] = b"D", len(columns)
    heads["length"] = sum((piece.lengths for piece in pieces), np.int64(6))
    joined = pc.binary_join_element_wise(
        _fixed_width(heads), *(part for piece in pieces for part in piece.parts), b""
    )
    offsets = np.frombuffer(joined.buffers()[1], np.int32)
    return memoryview(joined.buffers()[2])[offsets[joined.offset] : offsets[joined.offset + rows]]


def _fixed_width(records: np.ndarray) -> pa.Array:
    """View an array of records as binary values, without a copy."""
    width = records.dtype.itemsize
    offsets = np.arange(0, (len(records) + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records)]
    return pa.Array.from_buffers(pa.binary(), len(records), buffers)


def _piece(values: pa.Array) -> Piece:
    """Prefix binary values with their lengths; null is the length -1."""
    values = values if pa.types.is_binary(values.type) else values.cast(pa.binary())
    if values.null_count:
        nulls = _nulls(values)
        values = pc.fill_null(values, b"")
    else:
        nulls = None
    rows = len(values)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + rows + 1]
    lengths = np.diff(offsets)
    prefixes = np.empty(rows, np.dtype([("length", ">i4")]))
    prefixes["length"] = lengths if nulls is None else np.where(nulls, -1, lengths)
    return Piece((_fixed_width(prefixes), values), lengths.astype(np.int64) + 4)


def _nulls(column: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.is_null(column).to_numpy(zero_copy_only=False)
    return found


def _fixed(kind: str, number: Callable[[pa.Array], np.ndarray]) -> Encode:
    """Encode a column of fixed width; `kind` is the type of numpy in network order."""
    record = np.dtype([("length", ">i4"), ("value", kind)])

    def encode(column: pa.Array) -> Piece:
        records = np.empty(len(column), record)
        records["length"], records["value"] = record["value"].itemsize, number(column)
        whole = _fixed_width(records)
        if not column.null_count:
            return Piece((whole,), np.full(len(column), record.itemsize, np.int64))
        nulls = _nulls(column)
        parts = pc.if_else(pa.array(nulls), pa.scalar(b"\xff\xff\xff\xff", pa.binary()), whole)
        return Piece((parts,), np.where(nulls, 4, record.itemsize).astype(np.int64))

    return encode


def _numbers(column: pa.Array) -> np.ndarray:
    filled = pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0)
    found: np.ndarray = filled.to_numpy(zero_copy_only=False)
    return found


def _microseconds(column: pa.Array) -> np.ndarray:
    if pa.types.is_timestamp(column.type):
        kind = pa.timestamp("us", column.type.tz)
        whole = column if column.type == kind else column.cast(kind, safe=False)
    else:
        whole = column.cast(pa.time64("us"), safe=False)
    return _numbers(whole.cast(pa.int64()))


def _days(column: pa.Array) -> np.ndarray:
    return _numbers(column.cast(pa.date32(), safe=False).cast(pa.int32())) - EPOCH_DAYS


def _cast_text(column: pa.Array) -> Piece:
    return _piece(column.cast(pa.string()))


def _text_piece(column: pa.Array) -> Piece:
    """Encode a column whose binary form is its text."""
    return _TEXT.get(type_of(column.type).oid, _cast_text)(column)


def _timestamp_text(column: pa.Array) -> Piece:
    """Write times as `2026-01-01 00:00:00.25`, without zeros at the end; `+00` behind those with a zone."""
    zone = column.type.tz is not None
    whole = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    numbers = _numbers(whole.cast(pa.int64()))
    if len(numbers) and (numbers.min() < _PLAIN_FROM or numbers.max() >= _PLAIN_TO):
        texts = pa.array(
            [_odd_time(value, zone) for value in whole.cast(pa.int64()).to_pylist()], pa.string()
        )
        return _piece(texts)
    texts = pc.utf8_rtrim(whole.cast(pa.timestamp("us")).cast(pa.string()), characters="0")
    texts = pc.utf8_rtrim(texts, characters=".")
    return _piece(pc.binary_join_element_wise(texts, "+00", "") if zone else texts)


def _odd_time(value: int | None, zone: bool) -> str | None:
    """Write one time as PostgreSQL does outside the years 1 to 9999; the ends of the range are infinite."""
    if value is None:
        return None
    if abs(value) >= 2**63 - 1:
        return "infinity" if value > 0 else "-infinity"
    text = str(np.datetime64(value, "us")).replace("T", " ").rstrip("0").rstrip(".")
    text += "+00" if zone else ""
    year, dash, rest = text.lstrip("-").partition("-")
    if value >= _PLAIN_FROM:
        return text.lstrip("+")
    return f"{int(year) + 1 if text.startswith('-') else 1:04}{dash}{rest} BC"


def _time_text(column: pa.Array) -> Piece:
    texts = column.cast(pa.time64("us"), safe=False).cast(pa.string())
    return _piece(pc.utf8_rtrim(pc.utf8_rtrim(texts, characters="0"), characters="."))


def _float_text(column: pa.Array) -> Piece:
    """Write the shortest digits, with exponents of two digits, `NaN` and `Infinity`."""
    texts = column.cast(pa.string())
    if pc.any(pc.match_substring(texts, "e")).as_py():
        texts = pc.replace_substring_regex(texts, r"e([+-])(\d)$", r"e\10\2")
    if not np.isfinite(_numbers(column)).all():
        texts = pc.replace_substring(pc.replace_substring(texts, "inf", "Infinity"), "nan", "NaN")
    return _piece(texts)


_FLAGS = np.array([b"f", b"t"])


def _bytea_text(column: pa.Array) -> Piece:
    values = column.cast(pa.binary()).to_pylist()
    return _piece(pa.array([None if one is None else "\\x" + one.hex() for one in values], pa.string()))


def _json_text(column: pa.Array) -> Piece:
    """Write lists, structs and maps as JSON; a map becomes an object."""
    if pa.types.is_map(column.type):
        rows = (
            {str(key): value for key, value in row} if row is not None else None for row in column.to_pylist()
        )
    else:
        rows = column.to_pylist()
    texts = [None if row is None else msgspec.json.encode(row, enc_hook=str).decode() for row in rows]
    return _piece(pa.array(texts, pa.string()))


def _interval_parts(column: pa.Array) -> list[tuple[int, int, int] | None]:
    """Return months, days and microseconds."""
    if pa.types.is_duration(column.type):
        whole = column.cast(pa.duration("us"), safe=False).cast(pa.int64()).to_pylist()
        return [None if one is None else (0, 0, one) for one in whole]
    return [
        None if one is None else (one.months, one.days, one.nanoseconds // 1000) for one in column.to_pylist()
    ]


def _interval_text(column: pa.Array) -> Piece:
    return _piece(
        pa.array(
            [None if one is None else interval_text(*one) for one in _interval_parts(column)], pa.string()
        )
    )


def interval_text(months: int, days: int, micros: int) -> str:
    """
    >>> interval_text(14, -3, 3_661_500_000), interval_text(0, 0, 0)
    ('1 year 2 mons -3 days +01:01:01.5', '00:00:00')
    """
    years, months = int(months / 12), months - 12 * int(months / 12)
    units = ((years, "year"), (months, "mon"), (days, "day"))
    words, is_negative = list[str](), False
    for count, unit in units:
        if count:
            sign = "+" if is_negative and count > 0 else ""
            words.append(f"{sign}{count} {unit}{'s' if count != 1 else ''}")
            is_negative = count < 0
    if micros or not words:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else "+" if is_negative else ""
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        words.append(f"{sign}{clock}.{fraction:06}".rstrip("0").rstrip(".") if fraction else sign + clock)
    return " ".join(words)


def _interval_binary(column: pa.Array) -> Piece:
    packed = [
        None if one is None else struct.pack(">qii", one[2], one[1], one[0])
        for one in _interval_parts(column)
    ]
    return _piece(pa.array(packed, pa.binary()))


def _numeric_binary(column: pa.Array) -> Piece:
    values = column.cast(pa.decimal128(20, 0)) if pa.types.is_uint64(column.type) else column
    return _piece(
        pa.array([None if one is None else numeric_bytes(one) for one in values.to_pylist()], pa.binary())
    )


def numeric_bytes(value: Decimal) -> bytes:
    """Write a number as groups of four digits.

    >>> numeric_bytes(Decimal("-12345.6")).hex()
    '0003000140000001000109291770'
    """
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    text = "".join(map(str, digits)) + "0" * max(0, int(exponent))
    text = text.rjust(scale + 1, "0")
    whole, part = text[: len(text) - scale], text[len(text) - scale :]
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    groups = [int(whole[at : at + 4]) for at in range(0, len(whole), 4)]
    weight = len(groups) - 1
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups += [int(part[at : at + 4]) for at in range(0, len(part), 4)]
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack(">hhHh", len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return head + struct.pack(f">{len(groups)}h", *groups)


def _uuid_storage(column: pa.Array) -> pa.Array:
    return column.storage.cast(pa.binary())


def _uuid_text(column: pa.Array) -> Piece:
    raw = _uuid_storage(column).to_pylist()
    return _piece(pa.array([None if one is None else str(UUID(bytes=one)) for one in raw], pa.string()))


def _array_encoder(encode: Encode, oid: int, form: int) -> Encode:
    """Encode lists: their values as one column, then one array of one dimension per row."""

    def encode_lists(column: pa.Array) -> Piece:
        lists = column.cast(pa.list_(column.type.value_type))
        data = bytes(encode_rows([lists.flatten()], [encode]))
        values, at = list[bytes | None](), 0
        while at < len(data):  # every value is a row of one column
            length = int.from_bytes(data[at + 7 : at + 11], signed=True)
            values.append(None if length < 0 else data[at + 11 : at + 11 + length])
            at += 11 + max(0, length)
        write = _binary_array if form == BINARY else _text_array
        found, taken = list[bytes | None](), 0
        for count in pc.list_value_length(lists).to_pylist():
            found.append(None if count is None else write(values[taken : taken + count], oid))
            taken += count or 0
        return _piece(pa.array(found, pa.binary()))

    return encode_lists


def _binary_array(values: Sequence[bytes | None], oid: int) -> bytes:
    has_nulls = None in values
    head = struct.pack(">iiI", 1 if values else 0, has_nulls, oid)
    if not values:
        return head
    items = (b"\xff\xff\xff\xff" if one is None else struct.pack(">i", len(one)) + one for one in values)
    return b"".join((head, struct.pack(">ii", len(values), 1), *items))


def _text_array(values: Sequence[bytes | None], oid: int) -> bytes:
    del oid
    return b"{" + b",".join(b"NULL" if one is None else _quoted_item(one) for one in values) + b"}"


def _quoted_item(one: bytes) -> bytes:
    if one and one.lower() != b"null" and not one.translate(None, _PLAIN_BYTES):
        return one
    return b'"' + one.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


_PLAIN_BYTES = bytes(code for code in range(256) if code > 32 and code not in b'{}",\\')
_TEXT: dict[int, Encode] = {
    BOOL.oid: _fixed("S1", lambda column: _FLAGS[_numbers(column).astype(np.int8)]),
    BYTEA.oid: _bytea_text,
    FLOAT4.oid: _float_text,
    FLOAT8.oid: _float_text,
    TIMESTAMP.oid: _timestamp_text,
    TIMESTAMPTZ.oid: _timestamp_text,
    TIME.oid: _time_text,
    INTERVAL.oid: _interval_text,
    JSON.oid: _json_text,
    UUID_TYPE.oid: _uuid_text,
}
_BINARY: dict[int, Encode] = {
    BOOL.oid: _fixed("u1", _numbers),
    BYTEA.oid: lambda column: _piece(column.cast(pa.binary())),
    INT2.oid: _fixed(">i2", _numbers),
    INT4.oid: _fixed(">i4", _numbers),
    INT8.oid: _fixed(">i8", _numbers),
    FLOAT4.oid: _fixed(">f4", _numbers),
    FLOAT8.oid: _fixed(">f8", _numbers),
    DATE.oid: _fixed(">i4", _days),
    TIME.oid: _fixed(">i8", _microseconds),
    TIMESTAMP.oid: _fixed(">i8", lambda column: _since_2000(_microseconds(column))),
    TIMESTAMPTZ.oid: _fixed(">i8", lambda column: _since_2000(_microseconds(column))),
    INTERVAL.oid: _interval_binary,
    NUMERIC.oid: _numeric_binary,
    UUID_TYPE.oid: lambda column: _piece(_uuid_storage(column)),
}


def _since_2000(microseconds: np.ndarray) -> np.ndarray:
    """Shift the epoch; the ends of the range stay where they are, they are infinite."""
    low, high = -(2**63) + 1, 2**63 - 1
    shifted = microseconds - EPOCH_US
    shifted[microseconds >= high] = high
    shifted[microseconds <= low] = -(2**63)
    return shifted
