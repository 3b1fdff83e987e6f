"""Messages of PostgreSQL's protocol 3.0 become values, and answers become bytes.

Nothing here waits or knows a session. A body that is not what its type byte promises is a `SqlError` of class
08, after which the connection ends: what follows could only be guessed.

>>> decode(b"Q", b"SELECT 1\\0")
Query(text='SELECT 1')
>>> ready(b"I")
b'Z\\x00\\x00\\x00\\x05I'
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakerunner_query.errors import Position, QueryError

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
PROTOCOL_MAJOR, PROTOCOL_3_0 = 3, 196608
MAX_STARTUP_BYTES = 10_000
"""Bytes of the first message, and of a password: nobody is known yet."""
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ci")
SEVERITIES = {"FATAL", "ERROR", "WARNING", "NOTICE"}


class SqlError(Exception):
    """An error with the SQLSTATE that clients decide by; `is_fatal` ends the connection."""

    def __init__(
        self,
        sqlstate: str,
        message: str,
        *,
        hint: str = "",
        position: Position | int | None = None,
        is_fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint
        self.position = position
        self.is_fatal = is_fatal


SQLSTATES: Mapping[str, str] = {
    "parse_error": "42601",
    "unsupported": "0A000",
    "not_for_spark": "0A000",
    "invalid_request": "22023",
    "unauthorized": "28P01",
    "forbidden": "28000",
    "limit_exceeded": "54000",
    "too_large": "53200",
    "too_many_queries": "53300",
    "query_timeout": "57014",
    "cancelled": "57014",
    "index_unavailable": "57P03",
    "store_unavailable": "57P03",
    "worker_unavailable": "57P03",
    "work_failed": "XX000",
    "segments_missing": "58030",
    "execution": "22000",
    "internal": "XX000",
}
"""SQLSTATE of an error of a query, by its code."""
READ_ONLY, NOT_SUPPORTED, PARTIAL = "25006", "0A000", "58P02"
"""Writes; what this server has not; an answer that lacks segments (class 58, system error)."""
VIOLATION, CANCELLED, SHUTDOWN, IDLE = "08P01", "57014", "57P01", "57P05"


def sql_error(error: QueryError) -> SqlError:
    return SqlError(SQLSTATES.get(error.code, "XX000"), error.message, position=error.position)


@dataclass(frozen=True, slots=True)
class Query:
    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    kind: str
    """`S`, a statement, or `P`, a portal."""
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    portal: str
    max_rows: int


@dataclass(frozen=True, slots=True)
class Close:
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A message whose type says everything, or whose body is not looked at."""

    kind: str


Message = Query | Parse | Bind | Describe | Execute | Close | Plain


class _Body:
    """A message's body, read from front to end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def int16(self) -> int:
        return int.from_bytes(self.take(2))

    def int32(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def take(self, count: int) -> bytes:
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise SqlError(VIOLATION, "insufficient data left in message", is_fatal=True)
        found = self.data[self.at : end]
        self.at = end
        return found

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise SqlError(VIOLATION, "invalid string in message", is_fatal=True)
        found = self.data[self.at : end]
        self.at = end + 1
        return utf8(found)

    def value(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        if self.at != len(self.data):
            raise SqlError(VIOLATION, "invalid message format: bytes are left over", is_fatal=True)


def utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = data[error.start : error.start + 1].hex()
        raise SqlError("22021", f'invalid byte sequence for encoding "UTF8": 0x{at}') from error


def decode(kind: bytes, body: bytes) -> Message:
    """Read one message of a client that has logged in."""
    reader = _READERS.get(kind)
    if reader is None:
        raise SqlError(VIOLATION, f"invalid frontend message type {kind[0]}", is_fatal=True)
    cursor = _Body(body)
    found = reader(cursor)
    if not isinstance(found, Plain):
        cursor.end()
    return found


def _parse(body: _Body) -> Parse:
    return Parse(body.text(), body.text(), tuple(body.int32() & 0xFFFFFFFF for _ in range(body.int16())))


def _bind(body: _Body) -> Bind:
    portal, statement = body.text(), body.text()
    formats = tuple(body.int16() for _ in range(body.int16()))
    values = tuple(body.value() for _ in range(body.int16()))
    return Bind(portal, statement, formats, values, tuple(body.int16() for _ in range(body.int16())))


def _target(body: _Body) -> tuple[str, str]:
    kind = body.take(1).decode("latin-1")
    if kind not in {"S", "P"}:
        raise SqlError(VIOLATION, f"invalid subtype {kind!r} of a message", is_fatal=True)
    return kind, body.text()


def _plain(kind: str) -> Callable[[_Body], Plain]:
    return lambda _body: Plain(kind)


_READERS: Mapping[bytes, Callable[[_Body], Message]] = {
    b"Q": lambda body: Query(body.text()),
    b"P": _parse,
    b"B": _bind,
    b"D": lambda body: Describe(*_target(body)),
    b"E": lambda body: Execute(body.text(), body.int32()),
    b"C": lambda body: Close(*_target(body)),
    **{kind.encode(): _plain(kind) for kind in "SHXFdcfp"},
}


def startup_parameters(body: bytes) -> dict[str, str]:
    """Read the pairs of a start-up message, which a zero byte ends."""
    cursor, found = _Body(body), dict[str, str]()
    while name := cursor.text():
        found[name] = cursor.text()
    cursor.end()
    return found


def message(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return _HEAD.pack(kind, len(body) + 4) + body


def cstring(text: str) -> bytes:
    return text.replace("\0", "\\0").encode("utf-8", "replace") + b"\0"


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return _LENGTH.pack(value)


def ready(status: bytes) -> bytes:
    return message(b"Z", status)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", cstring(name), cstring(value))


def negotiate(unknown: Sequence[str]) -> bytes:
    """Name the newest version that is spoken here, and the options that are not known."""
    return message(b"v", int32(PROTOCOL_3_0), int32(len(unknown)), *map(cstring, unknown))


def complete(tag: str) -> bytes:
    return message(b"C", cstring(tag))


def parameter_description(types: Sequence[int]) -> bytes:
    return message(b"t", int16(len(types)), *(struct.pack(">I", oid) for oid in types))


def row_description(columns: Sequence[tuple[str, int, int]], formats: Sequence[int]) -> bytes:
    """Describe columns, each a name, the OID of its type, and its size (-1: any)."""
    fields = [
        cstring(name) + struct.pack(">IhIhih", 0, 0, oid, size, -1, form)
        for (name, oid, size), form in zip(columns, formats, strict=True)
    ]
    return message(b"T", int16(len(columns)), *fields)


def report(severity: str, sqlstate: str, text: str, *, hint: str = "", position: int | None = None) -> bytes:
    """Write an error or a notice; `position` counts characters of the statement from 1."""
    fields = [("S", severity), ("V", severity), ("C", sqlstate), ("M", text), ("H", hint)]
    fields.append(("P", str(position) if position else ""))
    body = b"".join(kind.encode() + cstring(value) for kind, value in fields if value)
    return message(b"E" if severity in {"ERROR", "FATAL"} else b"N", body, b"\0")


def offset_of(position: Position | int | None, text: str, start: int) -> int | None:
    """Return the 1-based character of a place in `text`, which begins `start` characters into the whole.

    >>> offset_of(Position(2, 3), "ab\\ncdef", 0)
    6
    """
    if position is None:
        return None
    if isinstance(position, int):
        return start + position
    lines = text.split("\n")[: position.line - 1]
    return start + sum(len(line) + 1 for line in lines) + position.column
