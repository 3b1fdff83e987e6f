"""Parameters of a statement: their types, inferred from where they stand, and their values.

A client may name the type of a parameter; else it is inferred from a cast, from `LIMIT`, or from the column
of a logical table that the parameter is compared with. What is left is text, which LakeQL casts where it is
used.

>>> infer("SELECT $1::int, message FROM logs WHERE timestamp > $2 AND level = $3", 3)
(23, 1114, 25)
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from uuid import UUID

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakerunner_query.api.postgres.messages import SqlError, utf8
from lakerunner_query.api.postgres.values import (
    BINARY,
    BOOL,
    DATE,
    EPOCH_US,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
)
from lakerunner_query.lakeql.views import RELATIONS

MAX_PARAMETERS = 65_535
UNKNOWN_OIDS = frozenset({0, 18, 19, 25, 705, 1042, 1043})
"""Types whose values are text; 0 and 705 are of parameters without one."""
_CASTS = {
    "INT": INT4, "BIGINT": INT8, "SMALLINT": INT2, "DOUBLE": FLOAT8, "FLOAT": FLOAT4, "BOOLEAN": BOOL,
    "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMPTZ, "TIMESTAMPNTZ": TIMESTAMP, "DATE": DATE,
    "DECIMAL": NUMERIC,
}  # fmt: skip
_COLUMNS = {
    column.name: {"TIMESTAMP": TIMESTAMP, "BIGINT": INT8, "INTEGER": INT4, "DOUBLE": FLOAT8}.get(
        column.type, VARCHAR
    )
    for table in RELATIONS.values()
    for column in table.columns
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)


def infer(text: str, count: int) -> tuple[int, ...]:
    """Return the OID of the type of each parameter."""
    found = [VARCHAR.oid] * count
    try:
        tree = sqlglot.parse_one(text, read="duckdb") if count else None
    except (SqlglotError, RecursionError):  # LakeQL words the error when the statement runs
        return tuple(found)
    for one in tree.find_all(exp.Parameter, exp.Placeholder) if tree else ():
        number = str(one.this)
        place = int(number) - 1 if number.isdigit() else -1
        if 0 <= place < count and found[place] == VARCHAR.oid:
            found[place] = _type_at(one)
    return tuple(found)


def preferred(given: Sequence[int], inferred: Sequence[int]) -> tuple[int, ...]:
    """Prefer the types that the client names."""
    longest = max(len(given), len(inferred))
    named = (*given, *(0,) * (longest - len(given)))
    found = (*inferred, *(VARCHAR.oid,) * (longest - len(inferred)))
    return tuple(one or other for one, other in zip(named, found, strict=True))


def _type_at(one: exp.Expr) -> int:
    around = one.parent
    if isinstance(around, exp.Cast):
        return _CASTS.get(around.to.this.name, VARCHAR).oid
    if isinstance(around, exp.Limit | exp.Offset):
        return INT8.oid
    if isinstance(around, _COMPARISONS):
        columns = [side.name for side in around.iter_expressions() if isinstance(side, exp.Column)]
        return _COLUMNS.get(columns[0], VARCHAR).oid if columns else VARCHAR.oid
    return VARCHAR.oid


def parameter(oid: int, form: int, raw: bytes | None) -> object:
    """Return the value of a parameter; one without a type stays text, which is cast where it is used."""
    if raw is None:
        return None
    readers = _FROM_BINARY if form == BINARY else _FROM_TEXT
    read = readers.get(oid, utf8 if oid in UNKNOWN_OIDS or form == TEXT else None)
    if read is None or oid in _ARRAYS:
        hint = "pass one parameter per value: IN ($1, $2)" if oid in _ARRAYS else "pass it as text"
        raise SqlError("0A000", f"parameters of the type with OID {oid} are not taken here", hint=hint)
    try:
        return read(raw)
    except (ValueError, InvalidOperation, struct.error, OverflowError, IndexError) as error:
        state, what = ("22P03", "binary") if form == BINARY else ("22P02", "text")
        raise SqlError(state, f"invalid {what} representation of a parameter (type OID {oid})") from error


def _flag(raw: bytes) -> bool:
    word = raw.strip().lower()
    if word in {b"t", b"true", b"1", b"y", b"yes", b"on"}:
        return True
    if word in {b"f", b"false", b"0", b"n", b"no", b"off"}:
        return False
    raise ValueError(word)


def _number(text: str) -> int | float:
    value = Decimal(text)
    is_whole = value.is_finite() and value == value.to_integral_value() and abs(value) < 2**63
    return int(value) if is_whole else float(value)


def _unpack(form: str) -> Callable[[bytes], object]:
    return lambda raw: struct.unpack(form, raw)[0]


def _numeric_from(raw: bytes) -> int | float:
    count, weight, sign, scale = struct.unpack_from(">hhHh", raw)
    groups = struct.unpack_from(f">{count}h", raw, 8)
    if sign not in {0, 0x4000}:
        return float({0xC000: "nan", 0xD000: "inf", 0xF000: "-inf"}[sign])
    whole = sum((Decimal(group).scaleb(4 * (weight - at)) for at, group in enumerate(groups)), Decimal(0))
    del scale
    return _number(str(-whole if sign else whole))


def _time_from(raw: bytes) -> str:
    micros = struct.unpack(">q", raw)[0] + EPOCH_US
    return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)).strftime(
        "%Y-%m-%d %H:%M:%S.%f"
    )


def _date_from(raw: bytes) -> str:
    return (dt.date(2000, 1, 1) + dt.timedelta(days=struct.unpack(">i", raw)[0])).isoformat()


def _utc(raw: bytes) -> str:
    """Turn a time with a zone into the same one in UTC; other words (`now`) stay."""
    text = utf8(raw)
    try:
        found = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    return text if found.tzinfo is None else found.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


_FROM_TEXT: dict[int, Callable[[bytes], object]] = {
    16: _flag, 20: int, 21: int, 23: int, 26: int, 700: float, 701: float,
    1184: _utc, 1700: lambda raw: _number(utf8(raw)),
}  # fmt: skip
_FROM_BINARY: dict[int, Callable[[bytes], object]] = {
    16: lambda raw: bool(raw[0]), 20: _unpack(">q"), 21: _unpack(">h"), 23: _unpack(">i"), 26: _unpack(">I"),
    700: _unpack(">f"), 701: _unpack(">d"), 114: utf8, 3802: lambda raw: utf8(raw[1:]),
    1082: _date_from, 1114: _time_from, 1184: _time_from, 1700: _numeric_from,
    2950: lambda raw: str(UUID(bytes=raw)),
}  # fmt: skip
_ARRAYS = frozenset({
    1000, 1001, 1002, 1003, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1115, 1182, 1185, 1231, 199,
    2951, 3807,
})  # fmt: skip
