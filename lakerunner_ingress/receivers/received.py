"""What a checked request leaves behind, and the forms in which raw objects keep it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from resources.lake.layout import Signal

MARKER = b"\xc2\xa9\x07"
"""Tag of field 15000, which no protocol here uses: other readers skip it, ours learns what follows."""


class Form(StrEnum):
    """Requests of one form can stand one after the other in an object."""

    OTLP_PROTOBUF = "otlp_protobuf"
    OTLP_JSON = "otlp_json"
    REMOTE_WRITE = "remote_write"
    LOKI_PUSH = "loki_push"

    @property
    def head(self) -> bytes:
        """What an object of this form begins with."""
        return _HEADS.get(self, b"")

    @property
    def suffix(self) -> str:
        return ".json.zst" if self is Form.OTLP_JSON else ".binpb.zst"


def _marked(message: bytes) -> bytes:
    return MARKER + bytes([len(message)]) + message


_HEADS = {
    Form.REMOTE_WRITE: _marked(b"prometheus.WriteRequest"),
    Form.LOKI_PUSH: _marked(b"logproto.PushRequest"),
}


@dataclass(frozen=True, slots=True)
class Received:
    """The part of a request that is kept, and what is to be said about the rest."""

    signal: Signal
    form: Form
    data: bytes
    rejected: int = 0
    """Records (log records, data points, spans, series, lines) that were not taken."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """Whose requests go into one object."""

    org: str
    collector: str
    signal: Signal
    form: Form
