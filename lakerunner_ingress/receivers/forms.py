"""Forms of raw objects from pushes, and the lanes that share an object."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resources.lake.layout import Signal

MARKER = b"\xc2\xa9\x07"
"""Tag of field 15000, which no protocol here uses: other readers skip it, ours learns the message type."""


class Form(StrEnum):
    """An encoding of requests; requests of one form can stand one after the other in an object."""

    OTLP_PROTOBUF = "otlp_protobuf"
    OTLP_JSON = "otlp_json"
    REMOTE_WRITE = "remote_write"
    LOKI_PUSH = "loki_push"

    @property
    def head(self) -> bytes:
        """First bytes of an object of this form."""
        return _HEADS.get(self, b"")

    @property
    def suffix(self) -> str:
        return ".json.zst" if self is Form.OTLP_JSON else ".binpb.zst"


def _marker(message: bytes) -> bytes:
    return MARKER + bytes([len(message)]) + message


_HEADS = {
    Form.REMOTE_WRITE: _marker(b"prometheus.WriteRequest"),
    Form.LOKI_PUSH: _marker(b"logproto.PushRequest"),
}


@dataclass(frozen=True, slots=True)
class CheckedPush:
    """The valid part of a push, and the reason why the rest is refused."""

    signal: Signal
    form: Form
    data: bytes
    rejected: int = 0
    """Number of refused records (log records, data points, spans, series, lines)."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """The requests that share an object."""

    org: str
    collector: str
    signal: Signal
    form: Form
