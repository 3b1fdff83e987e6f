"""Loki's JSON push as protobuf.

`{"streams": [{"stream": {"app": "shop"}, "values": [["1700000000000000000", "a line", {"trace": "1"}]]}]}`:
times are nanoseconds in text, the third element (structured metadata) may be left out.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lakerunner_ingress.receivers.refusals import BadRequestError
from resources.lake.label_text import NAME, label_text
from resources.notifications.announced import UNREADABLE
from resources.proto.loki import PushRequest

_NANOSECONDS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SECOND = 1_000_000_000


class _Value(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    time: str
    line: str
    metadata: dict[str, str] = {}


class _Stream(msgspec.Struct):
    stream: dict[str, str]
    values: list[_Value]


class _Push(msgspec.Struct):
    streams: list[_Stream]


_DECODER = msgspec.json.Decoder(_Push)


def translate(data: bytes) -> Any:
    """The `PushRequest`."""
    try:
        push = _DECODER.decode(data)
    except UNREADABLE as error:
        raise BadRequestError(f"not a Loki push in JSON: {error}") from error
    request = PushRequest()
    for index, stream in enumerate(push.streams):
        try:
            _add(request.streams.add(), stream, f"streams[{index}]")
        except UnicodeEncodeError as error:
            raise BadRequestError(f"streams[{index}]: text with half a surrogate pair") from error
    return request


def _add(target: Any, stream: _Stream, path: str) -> None:
    for name in stream.stream:
        if not NAME.fullmatch(name):
            raise BadRequestError(f"{path}.stream: {name[:64]!r} is no label name ({NAME.pattern})")
    target.labels = label_text(stream.stream)
    entries = target.entries
    for at, value in enumerate(stream.values):
        if not _NANOSECONDS.fullmatch(value.time):
            raise BadRequestError(f"{path}.values[{at}][0]: {value.time[:32]!r} is no time in nanoseconds")
        entry = entries.add(line=value.line)
        entry.timestamp.seconds, entry.timestamp.nanos = divmod(int(value.time), _SECOND)
        for name, text in value.metadata.items():
            entry.structured_metadata.add(name=name, value=text)
