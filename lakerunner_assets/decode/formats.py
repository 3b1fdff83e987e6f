"""The format of a payload is recognised by its content.

The object's name only decides between kinds of text.
"""

from __future__ import annotations

import re
from enum import StrEnum

from lakerunner_assets.decode.errors import MalformedError

MARKER = b"\xc2\xa9\x07"
"""Tag of field 15000, unknown to other readers: our receivers put it in front of other protocols."""


class Format(StrEnum):
    OTLP_PROTOBUF = "OTLP protobuf"
    OTLP_JSON = "OTLP JSON"
    REMOTE_WRITE = "Prometheus remote write"
    LOKI_PUSH = "Loki push"
    JSON_LINES = "JSON lines"
    CSV = "CSV"
    PARQUET = "Parquet"


_MARKED = {b"prometheus.WriteRequest": Format.REMOTE_WRITE, b"logproto.PushRequest": Format.LOKI_PUSH}
_OTLP_KEY = re.compile(rb'\s*\{\s*"resource_?(?:logs|metrics|spans)"\s*:', re.IGNORECASE)
_SPACE = b" \t\r\n\xef\xbb\xbf"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text has; escape is not among them, because terminals' colours end up in logs."""


def sniff(head: bytes, name: str) -> Format:
    """Return the format of a payload that begins with `head`, of the object called `name`.

    >>> sniff(b'{"resourceLogs": []}', "a.json").value, sniff(b"time,message\\n", "x").value
    ('OTLP JSON', 'CSV')
    """
    if head.startswith(b"PAR1"):
        return Format.PARQUET
    if head.startswith(MARKER):
        return _format_of_marker(head)
    if looks_like_otlp(head):
        return Format.OTLP_PROTOBUF
    text = head.lstrip(_SPACE)
    if text[:1] in {b"{", b"["} and not _CONTROL.search(head):
        return Format.OTLP_JSON if _OTLP_KEY.match(text) else Format.JSON_LINES
    if _CONTROL.search(head):
        return Format.OTLP_PROTOBUF  # not ours to judge: its decoder says at which byte it is not
    first = text.split(b"\n", 1)[0]
    if re.search(r"\.csv(\.|$)", name) or b"," in first:
        return Format.CSV
    raise MalformedError(
        0, f"neither OTLP, remote write, Loki push, JSON, CSV nor Parquet: begins with {head[:24]!r}"
    )


def looks_like_otlp(head: bytes) -> bool:
    """Recognise a resource group in front: its tag, a length, then a field it may begin with.

    The tag alone is a newline, and a newline and a brace are a tag and a length.
    """
    if not head.startswith(b"\n") or (not _CONTROL.search(head) and _is_text(head)):
        return False
    at = 1
    while at < min(len(head), 11) and head[at] & 128:
        at += 1
    following = head[at + 1 : at + 2]
    return following in {b"\n", b"\x12", b"\x1a"} or (len(head) == 2 and head[1] == 0)


def _is_text(head: bytes) -> bool:
    """Check for valid UTF-8; a character may be cut off at the end."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4
    return len(head) > 2


def _format_of_marker(head: bytes) -> Format:
    length = int.from_bytes(head[3:4], "big")  # 0 if the marker is all there is
    name = head[4 : 4 + length]
    if name not in _MARKED:
        raise MalformedError(0, f"marked as {name!r}, expected one of {sorted(_MARKED)}")
    return _MARKED[name]
