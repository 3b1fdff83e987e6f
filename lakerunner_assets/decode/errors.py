"""Why a raw object could not be decoded, and where.

Every error fails one object and never its neighbours, so each carries what an operator needs to look at that
object: the byte offset in the decompressed payload. Callers decide by type, never by message text.
"""

from __future__ import annotations


class DecodeError(ValueError):
    """A raw object cannot be decoded; `offset` is where in the (decompressed) payload."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"byte {offset}: {message}")
        self.offset = offset
        self.message = message

    def __reduce__(self) -> tuple[type[DecodeError], tuple[int, str]]:
        return type(self), (self.offset, self.message)  # crosses process borders in Spark tasks


class MalformedError(DecodeError):
    """The bytes are not what their format says."""


class EmptyObjectError(MalformedError):
    """A zero-byte object: legal protobuf (no records), yet likely a broken upload. The caller decides."""


class TooLargeError(DecodeError):
    """Decompressed size passes the bound; `offset` is the bound."""
