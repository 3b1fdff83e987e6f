"""Decoding errors carry the byte offset and the reason, and fail one object alone.

The offset is one of the decompressed payload, where an operator looks. Callers decide by type, never by
message text. Kernels report a *fault*, a negative position that encodes offset and reason; it becomes an
error here.
"""

from __future__ import annotations

import numpy as np


class DecodeError(ValueError):
    """Failure to decode a raw object; `offset` is a position in the decompressed payload."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"byte {offset}: {message}")
        self.offset = offset
        self.message = message

    def __reduce__(self) -> tuple[type[DecodeError], tuple[int, str]]:
        return type(self), (self.offset, self.message)  # crosses process borders in Spark tasks


class MalformedError(DecodeError):
    """Bytes that are not what their format says."""


class EmptyObjectError(MalformedError):
    """Zero-byte object: legal protobuf (no records), yet likely a broken upload. The caller decides."""


class TooLargeError(DecodeError):
    """Payload or record beyond a bound; `offset` is the bound or the record's position."""


WIRE_REASONS = (
    "field is cut short",
    "varint longer than 10 bytes",
    "length runs past the end of its message",
    "field number 0 or above the limit",
    "unknown wire type",
    "group without matching end",
    "value nested deeper than 100 levels",
)


def raise_fault(position: int | np.int64, base: int = 0) -> None:
    """Raise the error of a protobuf fault; `base` is where the scanned bytes start."""
    if position < 0:
        offset, reason = divmod(-position - 1, 16)
        raise MalformedError(int(base + offset), WIRE_REASONS[int(reason)])


JSON_REASONS = (
    "the text ends in the middle of a value",
    "expected a name in double quotes",
    "expected ':' behind a name",
    "expected ',' or the end of the list or object",
    "the value is of a type that its field cannot have",
    "control character in a string",
    "unknown escape in a string",
    "not a number as JSON writes it",
    "number out of the range of its field",
    "id is not an even number of hexadecimal digits",
    "not base64",
    "no such name in this enumeration",
    "nested deeper than 100 levels",
    "expected a value",
    "object of another signal",
    "expected an object",
    "text behind the object",
    "record longer than 64 MiB",
    "dotted keys of the record unfold to sixteen times its size",
)


def fault_of(position: int) -> tuple[int, int]:
    """Return offset and reason of a JSON fault."""
    return divmod(-position - 1, 32)


def error_of(position: int, base: int) -> MalformedError:
    offset, reason = fault_of(position)
    return MalformedError(base + offset, JSON_REASONS[reason])
