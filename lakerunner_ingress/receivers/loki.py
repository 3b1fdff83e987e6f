"""Checks Loki push: protobuf (snappy) stays as sent, JSON is translated into it.

A stream with invalid labels is left out and reported, the others are kept, as Loki does. A line that is not
UTF-8 is kept with U+FFFD in place of its odd bytes. In JSON, times are nanoseconds in text, and the third
element (structured metadata) may be absent:
`{"streams": [{"stream": {"app": "shop"}, "values": [["1700000000000000000", "a line", {"trace": "1"}]]}]}`
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lakerunner_ingress.receivers.forms import CheckedPush, Form, TimeBounds
from lakerunner_ingress.receivers.refusals import BadRequestError, UnsupportedError
from resources.lake.label_text import NAME, LabelTextError, label_text, parse_labels
from resources.lake.layout import Signal
from resources.lake.timecut import to_datetime
from resources.notifications.events import UNREADABLE
from resources.proto.loki import PushRequest, RawPushRequest
from resources.proto.parsing import NotAMessageError, parse

_NANOSECONDS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_SECOND = 1_000_000_000
JSON = "json"
"""Message of a push in JSON."""
WARNINGS = "X-Lakerunner-Warnings"


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
    """Translate JSON into a `PushRequest`."""
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


def is_json(content_type: str) -> bool:
    name = content_type.partition(";")[0].strip().lower()
    if name not in {"application/json", "application/x-protobuf"}:
        raise UnsupportedError(
            f"Content-Type {name[:64]!r}: expected application/x-protobuf or application/json"
        )
    return name == "application/json"


def encoding_of(content_encoding: str, json: bool) -> str:
    """Return the encoding of the body; protobuf is always a snappy block, even without a header."""
    name = content_encoding.strip().lower()
    return name if json or name not in {"", "identity"} else "snappy"


def read_loki(data: bytes, json: bool, times: TimeBounds | None = None) -> CheckedPush:
    """Check a push; lines with times far outside of `times` are left out like streams with invalid labels.

    Lines that are just outside are kept, but go to quarantine, which a header of the answer says.
    """
    request = translate(data) if json else None
    if request is None:
        request, data = _parse(data)
    else:
        data = request.SerializeToString()
    bad, why = _bad_streams(request)
    rejected = sum(
        len(stream.entries) for stream, left_out in zip(request.streams, bad, strict=True) if left_out
    )
    far, outside, headers = 0, "", dict[str, str]()
    if times is not None:
        far, outside, headers = _check_times(request, bad, times)
    why = why or outside
    if why and not _has_rest(request, bad, far):
        raise BadRequestError(why)
    if why:
        kept = PushRequest()
        kept.streams.extend(
            stream for stream, left_out in zip(request.streams, bad, strict=True) if not left_out
        )
        data = kept.SerializeToString()
    rejected += far
    reason = f"{why}; {rejected} lines were refused, the others were kept" if why else ""
    return CheckedPush(Signal.LOGS, Form.LOKI_PUSH, data, rejected, reason, headers)


def _has_rest(request: Any, bad: bytearray, far: int) -> bool:
    """Tell if something is left; a stream without lines is, unless all its lines were left out."""
    rest = [stream for stream, left_out in zip(request.streams, bad, strict=True) if not left_out]
    return any(stream.entries for stream in rest) if far else bool(rest)


def _check_times(request: Any, bad: bytearray, times: TimeBounds) -> tuple[int, str, dict[str, str]]:
    """Remove lines of far times; return their number, the first, and the headers that tell of those kept."""
    far, why, quarantined, first = 0, "", 0, ""
    for index, stream in enumerate(request.streams):
        if bad[index]:
            continue
        near: list[Any] = []
        for at, entry in enumerate(stream.entries):
            time_ns = entry.timestamp.seconds * _SECOND + entry.timestamp.nanos
            if times.are_far_from(time_ns):
                why = (
                    why or f"streams[{index}].values[{at}]: time {_shown(time_ns)} is far {_expected(times)}"
                )
                continue
            near.append(entry)
            if not times.contain(time_ns):
                quarantined += 1
                first = first or f"the first is of {_shown(time_ns)}"
        if len(near) < len(stream.entries):
            far += len(stream.entries) - len(near)
            del stream.entries[:]
            stream.entries.extend(near)
    headers = {}
    if quarantined:
        text = f"{quarantined} lines are {_expected(times)}; {first}; queries do not find them"
        headers[WARNINGS] = text
    return far, why, headers


def _expected(times: TimeBounds) -> str:
    first, last = _shown(times.first_ns), _shown(times.last_ns)
    return (
        f"outside of {first} (LAKERUNNER_HORIZON) to {last} (LAKERUNNER_FUTURE_TOLERANCE_S from now); "
        "times are nanoseconds since 1970"
    )


def _shown(time_ns: int) -> str:
    """Return a time in UTC, or the number where the calendar ends.

    >>> _shown(1_700_000_000), _shown(10**23)
    ('1970-01-01T00:00:01Z', '100000000000000000000000')
    """
    try:
        return f"{to_datetime(time_ns):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return str(time_ns)


def _bad_streams(request: Any) -> tuple[bytearray, str]:
    """Return a byte per stream, 1 if its labels are invalid, and the fault of the first of these."""
    bad, why = bytearray(len(request.streams)), ""
    for index, stream in enumerate(request.streams):
        try:
            reason = "" if parse_labels(stream.labels) else "a stream needs at least one label"
        except LabelTextError as error:
            reason = str(error)
        if reason:
            bad[index] = 1
            why = why or f"streams[{index}]: {reason}"
    return bad, why


def _parse(data: bytes) -> tuple[Any, bytes]:
    try:
        return parse(PushRequest, data), data
    except NotAMessageError as error:
        return _repair(data, str(error))


def _repair(data: bytes, reason: str) -> tuple[Any, bytes]:
    """Make every text UTF-8; raise `BadRequestError` if the message is damaged otherwise."""
    try:
        raw = parse(RawPushRequest, data)
    except NotAMessageError as error:
        raise BadRequestError(reason) from error
    for stream in raw.streams:
        stream.labels = _utf8(stream.labels)
        for entry in stream.entries:
            entry.line = _utf8(entry.line)
            for pair in (*entry.structured_metadata, *entry.parsed):
                pair.name, pair.value = _utf8(pair.name), _utf8(pair.value)
    repaired = raw.SerializeToString()
    return PushRequest.FromString(repaired), repaired


def _utf8(text: bytes) -> bytes:
    return text.decode(errors="replace").encode()
