"""Parse errors name the position where the bytes stop being a message.

The library only says that they do. The position is looked for after a parse failed; sub-messages are parsed
as a whole, and searched only if they fail, so the cost stays near that of a parse whatever the size.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

MAX_DEPTH = 100
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types; groups (3 and 4) are retired."""
LAST_TAG = 0xFFFFFFFF
MAX_EXPLAINED_BYTES = 256 << 10
"""Size up to which the position is looked for: that costs many times a parse when a message is broken deep
inside.
"""


class NotAMessageError(ValueError):
    """Bytes that are no such message; the text names the position and the fault there."""


class _BrokenError(Exception):
    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


def parse(message: Any, data: bytes) -> Any:
    """Parse `data` as a `message` (a message class), or raise `NotAMessageError`."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise NotAMessageError(_explain(message, data)) from error


def _explain(message: Any, data: bytes) -> str:
    """Return position and reason of the first fault in `data`, which is no `message`."""
    name = message.DESCRIPTOR.name
    if len(data) > MAX_EXPLAINED_BYTES:
        return f"{len(data)} bytes that are not a {name}"
    try:
        _walk(message, memoryview(data), 0, name, 0)
    except _BrokenError as found:
        return f"byte {found.position}: {found.reason}"
    return f"not a {name}"


def _walk(message: Any, data: memoryview, base: int, path: str, depth: int) -> None:
    fields = message.DESCRIPTOR.fields_by_number
    position = 0
    while position < len(data):
        start = position
        tag, position = _varint(data, position, base, path)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag > LAST_TAG:
            raise _BrokenError(base + start, f"no field tag, in {path}")
        field = fields.get(number)
        where = f"{path}.{field.name}" if field else f"{path}, field {number}"
        if wire_type == VARINT:
            _, position = _varint(data, position, base, where)
        elif wire_type in {FIXED64, FIXED32}:
            position += 8 if wire_type == FIXED64 else 4
        elif wire_type == LENGTH:
            size, position = _varint(data, position, base, where)
            if size <= len(data) - position and field is not None:
                _inside(field, data[position : position + size], base + position, where, depth)
            position += size
        else:
            raise _BrokenError(base + start, f"wire type {wire_type}, in {where}")
        if position > len(data):
            raise _BrokenError(base + start, f"cut short, in {where}")


def _inside(field: Any, data: memoryview, base: int, path: str, depth: int) -> None:
    """Search a sub-message or a text."""
    if field.message_type is not None:
        kind = field.message_type._concrete_class  # noqa: SLF001 - the only way from a field to its class
        try:
            kind.FromString(bytes(data))
        except DecodeError:
            if depth == MAX_DEPTH:
                raise _BrokenError(base, f"nested deeper than {MAX_DEPTH} levels") from None
            _walk(kind, data, base, path, depth + 1)
    elif field.type == field.TYPE_STRING:
        try:
            str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise _BrokenError(base + error.start, f"not UTF-8, in {path}") from None


def _varint(data: memoryview, position: int, base: int, path: str) -> tuple[int, int]:
    value = 0
    for index in range(10):
        if position + index >= len(data):
            raise _BrokenError(base + position, f"cut short, in {path}")
        byte = data[position + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return value, position + index + 1
    raise _BrokenError(base + position, f"varint longer than 10 bytes, in {path}")
