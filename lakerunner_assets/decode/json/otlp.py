"""OTLP JSON is read in windows, each transcoded to protobuf and decoded as such.

A payload holds one document, several, or one per line. A window ends behind the last whole resource group
(ResourceLogs, …Metrics, …Spans), wherever that is in its document; the next one starts there. Of a payload
with a document per line (receivers and collectors write a line per request) a broken or cut-off line is
rejected with its position; its neighbours are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.dispatch import DecodedSlice, Decoder, Request, SliceDecoder
from lakerunner_assets.decode.errors import (
    JSON_REASONS,
    DecodeError,
    MalformedError,
    TooLargeError,
    error_of,
    fault_of,
)
from lakerunner_assets.decode.field_kernels import Matrix, spans_of
from lakerunner_assets.decode.json import value_kernels as late
from lakerunner_assets.decode.json.schema_kernels import MESSAGES
from lakerunner_assets.decode.json.token_kernels import MAX_DEPTH, OTHER_SIGNAL, OUT_OF_RANGE, TRUNCATED
from lakerunner_assets.decode.json.transcode_kernels import (
    AT,
    FIXED,
    FRAME_WIDTH,
    GROWTH,
    OUTSIDE,
    PLACE,
    REPLACED,
    ROOM,
    TALLY_WIDTH,
    USED,
    transcode,
)
from lakerunner_assets.decode.otlp.framing import Slice
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.text import doubles
from resources.arrays import Int64s
from resources.lake.layout import Signal
from resources.lake.signals import FACTS

Transcode = Callable[[bytes, int], bytes]
"""Function from a whole document and its position to protobuf."""


@dataclass(slots=True)
class RefusedLines:
    """Lines that could not be read."""

    lines: int = 0
    first: str = ""

    def add(self, error: MalformedError) -> None:
        self.lines += 1
        self.first = self.first or str(error)


def is_lines(window: bytes, start: int) -> bool:
    """Recognise a document per line, as opposed to one document over several.

    >>> is_lines(b'{"a":1}\\n{"a"', 0), is_lines(b'{\\n "a": 1\\n}', 0)
    (True, False)
    """
    lines = [line.lstrip() for line in window.split(b"\n")]
    lines = [line for line in lines if line]
    return all(line.startswith(b"{") for line in lines) and (start > 0 or len(lines) > 1)


def salvage_lines(
    payload: Payload, start: int, slice_bytes: int, most: int, transcode: Transcode, refused: RefusedLines
) -> Iterator[Slice]:
    """Make requests of the readable lines from `start` on, several lines in one."""
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


MAX_GROUP_BYTES = 256 << 20
"""Bytes of one resource group as JSON, which is decoded in one piece."""
LONE_SURROGATES = "lone_surrogates"
_MARK = b"\xef\xbb\xbf"


def decode_otlp_json(signal: Signal, decode_slice: SliceDecoder) -> Decoder:
    """Make a decoder of OTLP JSON of any size."""

    def decoder(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
        place, notes, refused = request.place, Counter[str](), RefusedLines()
        for part in requests(payload, signal, request.slice_bytes, notes, refused):
            try:
                decoded = decode_slice(part.data, place, request.options)
            except DecodeError as error:  # its offset is in protobuf that nobody has
                raise type(error)(part.base, error.message) from error
            place = replace(place, first_position=place.first_position + decoded.table.num_rows)
            yield replace(decoded, notes=dict(Counter(decoded.notes) + notes)) if notes else decoded
            notes.clear()
        if refused.lines:
            nothing = decode_slice(b"", place, request.options)
            yield replace(nothing, rejected=refused.lines, first_rejected=refused.first)

    return decoder


def requests(
    payload: Payload,
    signal: Signal,
    slice_bytes: int,
    notes: Counter[str],
    refused: RefusedLines | None = None,
) -> Iterator[Slice]:
    """Yield protobuf requests that hold all records of the payload in order; at least one.

    `base` is where the window starts that a request was made of. With `refused`, lines that cannot be read
    are counted there, if there are others that can.
    """
    reader = _Reader(signal)
    start, length = len(_MARK) if payload.head(3) == _MARK else 0, slice_bytes
    some = False
    while start < payload.size or not some:
        window = payload.read(start, length)
        last = start + len(window) == payload.size
        try:
            done, data = reader.read(window, start, last, notes)
        except MalformedError:
            if refused is None or reader.inside or not is_lines(window, start):
                raise
            for part in _salvage(payload, start, signal, slice_bytes, notes, refused):
                yield part
                some = True
            if not some:
                raise
            return
        if data or last:
            yield Slice(start, data)
            some = True
        if done == 0 and not last:
            length = _larger(start, length, slice_bytes)
            continue
        start, length = start + done, slice_bytes


def _salvage(
    payload: Payload, start: int, signal: Signal, slice_bytes: int, notes: Counter[str], refused: RefusedLines
) -> Iterator[Slice]:
    def transcode_line(line: bytes, place: int) -> bytes:
        return _Reader(signal).read(line, place, True, notes)[1]

    most = max(slice_bytes, MAX_GROUP_BYTES)
    return salvage_lines(payload, start, slice_bytes, most, transcode_line, refused)


def _larger(start: int, length: int, slice_bytes: int) -> int:
    most = max(slice_bytes, MAX_GROUP_BYTES)
    if length >= most:
        raise TooLargeError(start, f"one resource group of more than {most} bytes of JSON")
    return min(2 * length, most)


class _Reader:
    """The transcoder between windows: it knows where in the document the last one ended."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._place = OUTSIDE
        self._frames: Matrix = np.zeros((MAX_DEPTH, FRAME_WIDTH), np.int64)

    @property
    def inside(self) -> bool:
        """True if the last window ended inside a document."""
        return self._place != OUTSIDE

    def read(self, window: bytes, base: int, last: bool, notes: Counter[str]) -> tuple[int, bytes]:
        """Transcode a window; return the bytes read, all of the last one's, and the request."""
        data = np.frombuffer(window, np.uint8)
        out = np.empty(GROWTH * len(window) + ROOM, np.uint8)
        fixes = np.empty((len(window) // late.SHORTEST + 1, late.WIDTH), np.int64)
        tally: Int64s = np.zeros(TALLY_WIDTH, np.int64)
        tally[PLACE] = self._place
        ended = int(transcode(data, ROOTS[self._signal], out, fixes, self._frames, tally))
        if ended < 0 and (last or fault_of(ended)[1] != TRUNCATED):
            raise self._error(ended, window, base)
        self._place = int(tally[PLACE])
        if tally[FIXED]:
            fixes = fixes[: tally[FIXED]]
            values = doubles(data, spans_of(fixes, late.START))
            late.patch(out, fixes, _finite(values, fixes, base).view(np.int64))
        if tally[REPLACED]:
            notes[LONE_SURROGATES] += int(tally[REPLACED])
        return int(tally[AT]), out[: tally[USED]].tobytes()

    def _error(self, position: int, window: bytes, base: int) -> MalformedError:
        offset, reason = fault_of(position)
        if reason != OTHER_SIGNAL:
            return error_of(position, base)
        name = window[offset + 1 : window.index(b'"', offset + 1)].decode()
        return MalformedError(base + offset, f"{name} in an object of {self._signal.value}")


def _finite(values: npt.NDArray[np.float64], fixes: Matrix, base: int) -> npt.NDArray[np.float64]:
    wrong = np.flatnonzero(np.isinf(values))
    if len(wrong):
        raise MalformedError(base + int(fixes[wrong[0], late.START]), JSON_REASONS[OUT_OF_RANGE])
    return values


ROOTS = {signal: MESSAGES[facts.otlp_request] for signal, facts in FACTS.items()}
