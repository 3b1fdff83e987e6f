"""Foreign JSON records become raw columns, one per flattened key and kind of value.

    {"level": "info", "http": {"status": 200}}     level string | http.status int
    {"level": "warn", "tags": ["a", 1]}            →      "info" | 200  | null
                                                          "warn" | null | '["a",1]'

A malformed line is rejected alone, never its neighbours. The field mapping of the foreign decoders gives
columns their meaning. A payload is cut into windows of whole records, lines or, when it begins with `[`,
elements of top-level lists; memory depends on the size of a window and of the largest record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.any_value import take_values
from lakerunner_assets.decode.attributes import attribute_columns
from lakerunner_assets.decode.errors import MalformedError, TooLargeError, error_of, fault_of
from lakerunner_assets.decode.field_kernels import (
    ATTRIBUTE_WIDTH,
    VALUE,
    Attributes,
    Matrix,
    attributes_of,
    spans_of,
)
from lakerunner_assets.decode.json import lines_kernels as scanning
from lakerunner_assets.decode.json import value_kernels as late
from lakerunner_assets.decode.json.lines_kernels import MAX_LINE_BYTES, last_cut
from lakerunner_assets.decode.json.list_kernels import WIDE
from lakerunner_assets.decode.json.record_kernels import FRAME_WIDTH, LEAVES, ROOM_USED, ROWS, no_paths
from lakerunner_assets.decode.json.token_kernels import FIXES, MAX_DEPTH, NO_ROOM, SURROGATES
from lakerunner_assets.decode.naming import MAX_COLUMNS
from lakerunner_assets.decode.otlp.framing import Slice
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.slice_kernels import distinct, take_spans
from lakerunner_assets.decode.text import doubles
from resources.arrays import Bytes, Int64s


@dataclass(frozen=True, slots=True)
class RawRows:
    """Records of one window as columns of equal length; null where a record lacks the key."""

    count: int
    """Number of rows: records that could be read."""
    columns: dict[tuple[str, str], pa.Array]
    """Columns by (key, kind).

    Nested objects are flattened with dots (`http.status`), a key with values of two kinds has two columns.
    Kinds as in OTLP: string (string or dictionary array), bool, int (int64), double, array (dictionary array
    of JSON text). null and {} are absent.
    """
    overflow: pa.MapArray | None
    """Keys beyond the column limit: key → text, null where a record has none; None when nothing is in it."""
    lines: int
    """Number of records seen, read or rejected (blank lines are none): the next window's ordinals start
    there.
    """
    line_of_row: Int64s
    """Ordinal in this window, among all `lines`, of each row's record; ascending."""
    rejected: int
    first_rejected: str
    """Byte offset in the payload and why; '' when none was."""
    notes: dict[str, int] = field(default_factory=dict)
    """Counted oddities: repeated_keys (the last one won), integers_as_doubles, lone_surrogates, invalid_utf8,
    …
    """


__all__ = ["RawRows", "line_windows", "scan_lines"]

REPEATED = "repeated_keys"
WIDE_INTEGERS = "integers_as_doubles"
LONE_SURROGATES = "lone_surrogates"


def scan_lines(window: bytes, base: int, max_columns: int = MAX_COLUMNS) -> RawRows:
    """Read the records of a window made by `line_windows`; `base` is its position in the payload.

    Broken lists (not their elements alone) fail the whole object: where the next element starts is unknown.
    """
    found = _scan(window, base)
    notes: Counter[str] = Counter()
    tally = found.tally
    rows = int(tally[ROWS])
    notes[WIDE_INTEGERS] += int(tally[WIDE])
    notes[LONE_SURROGATES] += int(tally[SURROGATES])
    leaves = _last_ones(found.data, attributes_of(found.leaves), notes)
    flat = attribute_columns(found.data, leaves, rows, "record", notes, max_columns)
    rejected = int(tally[scanning.REJECTED])
    return RawRows(
        count=rows,
        columns={(attribute.key, attribute.kind): column for attribute, column in flat.columns.items()},
        overflow=flat.overflow,
        lines=int(tally[scanning.LINES]),
        line_of_row=found.lines,
        rejected=rejected,
        first_rejected=str(error_of(int(tally[scanning.FIRST_FAULT]), base)) if rejected else "",
        notes={name: count for name, count in notes.items() if count},
    )


def _last_ones(data: Bytes, leaves: Attributes, notes: Counter[str]) -> Attributes:
    """Drop nulls and the values that a later one of the same key overrides."""
    codes, keys = distinct(data, leaves.key)
    stays, repeated = scanning.last_of_each(leaves.owner, codes, leaves.values.kind, len(keys.start))
    notes[REPEATED] += int(repeated)
    if stays.all():
        return leaves
    rows = np.flatnonzero(stays)
    return Attributes(leaves.owner[rows], take_spans(leaves.key, rows), take_values(leaves.values, rows))


@dataclass(frozen=True, slots=True)
class _ScannedWindow:
    data: Bytes
    leaves: Matrix
    lines: Int64s
    tally: Int64s


def _scan(window: bytes, base: int) -> _ScannedWindow:
    """Scan with as much room as it takes: guessed first, then doubled."""
    size = len(window)
    data = np.empty(size + size // 4 + 4096, np.uint8)
    data[:size] = np.frombuffer(window, np.uint8)
    leaves = np.empty((size // 12 + 64, ATTRIBUTE_WIDTH), np.int64)
    lines = np.empty(size // 32 + 64, np.int64)
    fixes = np.empty((size // 32 + 64, late.WIDTH), np.int64)
    frames = np.zeros((MAX_DEPTH, FRAME_WIDTH), np.int64)
    paths = no_paths()
    tally = np.zeros(scanning.TALLY_WIDTH, np.int64)
    tally[ROOM_USED] = size
    scan = scanning.scan_list if window.startswith(b"[") else scanning.scan
    while (ended := int(scan(data, size, leaves, lines, fixes, frames, paths, tally))) < 0:
        if fault_of(ended)[1] != NO_ROOM:
            raise error_of(ended, base)
        data = np.concatenate((data, np.empty_like(data)))
        leaves = np.concatenate((leaves, np.empty_like(leaves)))
        lines = np.concatenate((lines, np.empty_like(lines)))
        fixes = np.concatenate((fixes, np.empty_like(fixes)))
    leaves, lines = leaves[: tally[LEAVES]], lines[: tally[ROWS]].copy()
    if tally[FIXES]:
        _patch(data, leaves, fixes[: tally[FIXES]])
    return _ScannedWindow(data, leaves, lines, tally)


def _patch(data: Bytes, leaves: Matrix, fixes: Matrix) -> None:
    """Write the doubles that were read late: in lists on the wire, and (targets below 0) in leaves."""
    bits = doubles(data, spans_of(fixes, late.START)).view(np.int64)
    late.patch(data, fixes, bits)
    own = fixes[:, late.TARGET] < 0
    leaves[-1 - fixes[own, late.TARGET], VALUE] = bits[own]


SPACE = b" \t\r\n"


def line_windows(payload: Payload, slice_bytes: int) -> Iterator[Slice]:
    """Cut a payload into windows of about `slice_bytes` that hold whole records."""
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
    """Skip the rest of a line that is too long; its beginning was yielded, to be rejected."""
    while start < payload.size:
        data = payload.read(start, slice_bytes)
        found = data.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(data)
    return start


def _list_windows(payload: Payload, start: int, slice_bytes: int) -> Iterator[Slice]:
    """Make each window a list of its own, adding the brackets that the payload does not have there."""
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
