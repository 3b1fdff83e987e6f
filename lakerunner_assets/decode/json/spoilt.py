"""What can be saved of an object with one OTLP document per line when a line cannot be read.

Receivers and collectors write a line per request of somebody else. A line that is broken, or cut off by a
crash, is rejected with its place; its neighbours are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.otlp.framing import Slice
from lakerunner_assets.decode.payload import Payload

Transcode = Callable[[bytes, int], bytes]
"""A whole document and where it starts → protobuf."""


@dataclass(slots=True)
class Refused:
    """Lines that could not be read."""

    lines: int = 0
    first: str = ""

    def add(self, error: MalformedError) -> None:
        self.lines += 1
        self.first = self.first or str(error)


def is_lines(window: bytes, start: int) -> bool:
    """Whether this looks like a document per line, rather than one document over several.

    >>> is_lines(b'{"a":1}\\n{"a"', 0), is_lines(b'{\\n "a": 1\\n}', 0)
    (True, False)
    """
    lines = [line.lstrip() for line in window.split(b"\n")]
    lines = [line for line in lines if line]
    return all(line.startswith(b"{") for line in lines) and (start > 0 or len(lines) > 1)


def saved(
    payload: Payload, start: int, slice_bytes: int, most: int, transcode: Transcode, refused: Refused
) -> Iterator[Slice]:
    """Requests made of the readable lines from `start` on, several lines in one."""
    parts: list[bytes] = []
    base, size = start, 0
    for place, line in _lines(payload, start, slice_bytes, most):
        try:
            found = transcode(line, place)
        except MalformedError as error:
            refused.add(error)
            continue
        parts.append(found)
        size += len(found)
        if size >= slice_bytes:
            yield Slice(base, b"".join(parts))
            parts, size, base = [], 0, place + len(line)
    if parts:
        yield Slice(base, b"".join(parts))


def _lines(payload: Payload, start: int, slice_bytes: int, most: int) -> Iterator[tuple[int, bytes]]:
    length = slice_bytes
    while start < payload.size:
        window = payload.read(start, length)
        end = len(window) if start + len(window) == payload.size else window.rfind(b"\n") + 1
        if end == 0:
            if length >= most:
                raise TooLargeError(start, f"one line of more than {most} bytes of JSON")
            length = min(2 * length, most)
            continue
        place = start
        for line in window[:end].split(b"\n"):
            if line.strip():
                yield place, line
            place += len(line) + 1
        start, length = start + end, slice_bytes
