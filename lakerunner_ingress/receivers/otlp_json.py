"""Checks OTLP in JSON resource by resource, and writes it as one line.

A resource that breaks the schema is left out and counted, its neighbours stay. The text stays as it was sent
(numbers are not rewritten): only white space between tokens goes, and letters and digits that were written as
escapes stand for themselves, since decoders look for plain names and digits.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np

from lakerunner_ingress.receivers.forms import CheckedPush, Form
from lakerunner_ingress.receivers.otlp_schema import CAMEL_ONLY, NAMED_BOTH_WAYS
from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError
from resources.lake.layout import Signal
from resources.notifications.events import UNREADABLE

_DOCUMENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RESOURCES = msgspec.json.Decoder(list[msgspec.Raw] | None)
MAX_DEPTH = 100
"""Protobuf's limit, which decoders share; every message is at least one level of JSON."""
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_METRICS = frozenset({"metrics", "gauge", "sum", "histogram", "exponentialHistogram", "summary"})
_SNAKE_CASE = re.compile(rb'"[a-z]+_[a-z_]+"[ \t\r\n]*:')
_NEEDLESS = re.compile(rb"\\(?:u00(2[bBdDeE]|3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|5[fF])|.)", re.DOTALL)
MAX_RESOURCES = 10_000


class TooDeepError(ValueError):
    """The JSON is nested deeper than decoders follow."""


def read_json(data: bytes, signal: Signal, key: str) -> CheckedPush:
    """Check a document whose one member is `key`: resourceLogs, resourceMetrics or resourceSpans."""
    resources = _resources(data, key)
    if len(resources) > MAX_RESOURCES:
        raise TooLargeError(f"{len(resources)} elements in {key}: expected at most {MAX_RESOURCES}")
    kept: list[bytes] = []
    rejected, reason = 0, ""
    for index, raw in enumerate(resources):
        try:
            kept.append(_check(bytes(raw), signal))
        except (*UNREADABLE, TooDeepError) as error:
            rejected += _records(raw)
            reason = reason or f"{key}[{index}]: {error}"
    if resources and not kept:
        raise BadRequestError(reason)
    line = b'{"%b":[%b]}\n' % (key.encode(), b",".join(kept)) if kept else b""
    return CheckedPush(signal, Form.OTLP_JSON, line, rejected, reason)


def _resources(data: bytes, key: str) -> list[msgspec.Raw]:
    try:
        str(data, "utf-8")  # parts that are not decoded below would stay unchecked
        document = _DOCUMENT.decode(data)
        if key not in document and document:
            raise BadRequestError(f"expected {key}, found {', '.join(sorted(document))[:200]}")
        return (_RESOURCES.decode(document[key]) if document else None) or []
    except UnicodeDecodeError as error:
        raise BadRequestError(f"byte {error.start}: not UTF-8") from error
    except UNREADABLE as error:
        raise BadRequestError(f"not a JSON document of {key}: {error}") from error


def depth(text: bytes) -> int:
    """Return the depth of JSON, including members of no schema.

    A quote that is not escaped ends a text.
    """
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in text else text
    marks = np.frombuffer(plain.translate(None, _OTHERS), np.uint8)
    outside = np.bitwise_xor.accumulate(marks == ord('"')) == 0
    opening = (marks == ord("[")) | (marks == ord("{"))
    closing = (marks == ord("]")) | (marks == ord("}"))
    steps = (opening & outside).astype(np.int8) - (closing & outside).astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _check(text: bytes, signal: Signal) -> bytes:
    """Check one resource and remove its white space."""
    if rb"\u00" in text:
        text = _NEEDLESS.sub(_unescape, text)
    if (levels := depth(text)) > MAX_DEPTH:
        raise TooDeepError(f"nested {levels} levels deep: expected at most {MAX_DEPTH}")
    checks = NAMED_BOTH_WAYS if _SNAKE_CASE.search(text) else CAMEL_ONLY
    checks[signal].decode(text)
    return msgspec.json.format(text, indent=-1)


def _unescape(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 16)]) if escape[1] else escape[0]


def _records(raw: msgspec.Raw) -> int:
    """Estimate the records of a broken resource, at least one."""
    try:
        found = _count(msgspec.json.decode(raw))
    except UNREADABLE:
        found = 0
    return max(1, found)


def _count(value: Any) -> int:
    """Count the members of the lists of records, wherever a resource has them."""
    if isinstance(value, list):
        return sum(_count(each) for each in value)
    if not isinstance(value, dict):
        return 0
    total = 0
    for name, inner in value.items():
        if name in {"logRecords", "spans", "dataPoints"}:
            total += len(inner) if isinstance(inner, list) else 1
        elif name.startswith("scope") or name in _METRICS:
            total += _count(inner)
    return total
