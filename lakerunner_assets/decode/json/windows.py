"""Cuts a payload of JSON records into windows that hold whole ones: lines, or elements of top-level lists.

What the payload begins with decides: `[` means lists. Memory depends on the size of a window and of the
largest record, not on the payload.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.json.scan_lines import MAX_LINE_BYTES, last_cut
from lakerunner_assets.decode.otlp.framing import Slice
from lakerunner_assets.decode.payload import Payload

SPACE = b" \t\r\n"


def line_windows(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Windows of about `slice_bytes` that hold whole records: lines, or elements of top-level lists."""
    head = payload.head()
    start = len(head) - len(head.removeprefix(b"\xef\xbb\xbf").lstrip(SPACE))
    return (_list_windows if head[start : start + 1] == b"[" else _whole_lines)(payload, start, slice_bytes)


def _whole_lines(payload: Payload, start: int, slice_bytes: int) -> Iterator[Slice]:
    length = slice_bytes
    while start < payload.size:
        data = payload.read(start, length)
        last = start + len(data) == payload.size
        size = len(data) if last else data.rfind(b"\n") + 1
        if size == 0 and length <= MAX_LINE_BYTES:
            length = min(2 * length, MAX_LINE_BYTES + 1)
            continue
        size = size or len(data)
        # a line that is no object may begin with the bracket that says "list" in front of a window
        yield Slice(start - 1, b"\n" + data[:size]) if data[:1] == b"[" else Slice(start, data[:size])
        start += size
        if not last and size == len(data) and not data.endswith(b"\n"):
            start = _behind_line(payload, start, slice_bytes)
        length = slice_bytes


def _behind_line(payload: Payload, start: int, slice_bytes: int) -> int:
    """Skip the rest of a line that is too long: its beginning was handed out, to be rejected."""
    while start < payload.size:
        data = payload.read(start, slice_bytes)
        found = data.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(data)
    return start


def _list_windows(payload: Payload, start: int, slice_bytes: int) -> Iterator[Slice]:
    """Each window is a list of its own: its first bracket is put in front where the payload has none."""
    length, opened = slice_bytes, False
    while start < payload.size:
        data = payload.read(start, length)
        last = start + len(data) == payload.size
        if not opened and data[:1] != b"[":
            space = len(data) - len(data.lstrip(SPACE))
            if space == 0:
                raise MalformedError(start, "expected '[' or the end behind a list of records")
            start += space
            continue
        cut, still_open = len(data), False
        if not last:
            ended, inside = last_cut(np.frombuffer(data, np.uint8), opened)
            cut, still_open = int(ended), bool(inside)
        if cut == 0:
            if length > MAX_LINE_BYTES:
                raise TooLargeError(start, f"one element of more than {MAX_LINE_BYTES} bytes")
            length = min(2 * length, MAX_LINE_BYTES + slice_bytes)
            continue
        before, behind = b"[" if opened else b"", b"]" if still_open else b""
        yield Slice(start - len(before), before + data[:cut] + behind)
        start, length, opened = start + cut, slice_bytes, still_open
