r"""Foreign CSV with a header is read in windows of bounded size.

The delimiter is the one of `,` tab `;` `|` that the header has most of. All values are text and stay text; an
empty cell is absent, `""` is the empty text. Names are stripped of spaces; an empty one becomes `column_3`,
one that comes again `name_2`, so that equal files give equal columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.dispatch import DecodedSlice, Decoder, Request
from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.field_kernels import Spans
from lakerunner_assets.decode.foreign import csv_kernels as kernel
from lakerunner_assets.decode.foreign.mapping import ROLES_OF_SIGNAL, OwnNames, comparable, resolve, valid
from lakerunner_assets.decode.foreign.numbers import read_numbers
from lakerunner_assets.decode.foreign.tables import WINDOW_BYTES, decode_rows
from lakerunner_assets.decode.json.lines import RawRows
from lakerunner_assets.decode.payload import Payload
from lakerunner_assets.decode.text import REPAIRED, column_at
from resources.arrays import Bytes
from resources.lake.layout import Signal
from resources.lake.signals import FACTS

SAMPLE_ROWS = 1000


def value_names(rows: RawRows, own_names: OwnNames) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Find the value columns of a CSV file of metrics when no column names the metric.

    Text does not tell: those count whose first cells mostly read as numbers. An organisation that says which
    (`fields`: `value`) is obeyed.
    """
    given = tuple((role, tuple(names)) for role, names in own_names)
    roles = resolve(list(rows.columns), own_names, ROLES_OF_SIGNAL["metrics"])
    if roles["metric_name"] or any(role == "value" for role, _ in given):
        return given
    others = {key for role, keys in roles.items() for key in keys if role != "value"}
    names: list[str] = []
    for key, column in sorted(rows.columns.items(), key=lambda item: item[0]):
        sample = column.drop_null().slice(0, SAMPLE_ROWS)
        present = valid(sample)
        numeric = read_numbers(key[1], sample).known
        if key not in others and 2 * numeric.sum() > present.sum():
            names.append(comparable(key[0]))
    return (*given, ("value", tuple(names)))


DELIMITERS = b",\t;|"
MAX_WIDTH = 10_000
"""Columns of a file at most; more is not a table of telemetry."""
_BOM = b"\xef\xbb\xbf"
_REASONS = {
    kernel.OPEN_QUOTE: f"a quote opens and does not close within {kernel.MAX_ROW_BYTES} bytes",
    kernel.TOO_LONG: f"longer than {kernel.MAX_ROW_BYTES} bytes",
}


@dataclass(frozen=True, slots=True)
class Header:
    """Names of the columns, their delimiter, and the position of the first row."""

    names: tuple[str, ...]
    delimiter: int
    end: int
    broken_names: int


def decode_csv(signal: Signal) -> Decoder:
    """Make a decoder of CSV files that hold records of this signal."""

    def decoder(payload: Payload, request: Request) -> Iterator[DecodedSlice]:
        header = read_header(payload)
        windows = csv_windows(payload, header, request.slice_bytes)
        if not FACTS[signal].has_samples:
            return decode_rows(windows, request, signal)
        first = next(windows, None)
        if first is None:
            return iter(())
        options = replace(request.options, fields=value_names(first, request.options.fields))
        return decode_rows(_again(first, windows), replace(request, options=options), signal)

    return decoder


def _again(first: RawRows, rest: Iterator[RawRows]) -> Iterator[RawRows]:
    yield first
    del first
    yield from rest


def read_header(payload: Payload) -> Header:
    """Read the first line that is not blank."""
    data = payload.read(0, kernel.MAX_ROW_BYTES)
    start = len(_BOM) if data.startswith(_BOM) else 0
    while data[start : start + 1] in {b"\n", b"\r"}:
        start += 1
    line = np.frombuffer(data, np.uint8)[start:].copy()
    delimiter = _delimiter(data[start:])
    starts, lengths = np.zeros(MAX_WIDTH, np.int64), np.zeros(MAX_WIDTH, np.int32)
    escaped = np.zeros(MAX_WIDTH, np.uint8)
    final = start + len(line) == payload.size
    end, count = kernel.scan_row(
        line, 0, len(line), final, delimiter, starts, lengths, MAX_WIDTH, 0, 1, escaped, True
    )
    if end < 0 or len(line) == 0:
        raise MalformedError(start, "CSV: no header; expected a first line of column names")
    if count > MAX_WIDTH:
        raise TooLargeError(start, f"CSV: {count} columns; expected at most {MAX_WIDTH}")
    kernel.unescape(line, starts, lengths, int(count), 0, 1, escaped)
    raw = [line[s : s + max(n, 0)].tobytes() for s, n in zip(starts[:count], lengths[:count], strict=True)]
    names = [name.decode("utf-8", "replace") for name in raw]
    broken = sum(name.encode() != each for name, each in zip(names, raw, strict=True))
    return Header(unique_names(names), delimiter, start + int(end), broken)


def unique_names(names: list[str]) -> tuple[str, ...]:
    """Name empty columns by their place and repeated ones by their number.

    >>> unique_names(["a", "", " a ", "a_2"])
    ('a', 'column_2', 'a_3', 'a_2')
    """
    wanted = [name.strip() or f"column_{place}" for place, name in enumerate(names, 1)]
    taken = set(wanted)
    seen: Counter[str] = Counter()
    found: list[str] = []
    for name in wanted:
        seen[name] += 1
        unique = name
        while seen[name] > 1 and unique in taken:
            unique = f"{name}_{seen[name]}"
            seen[name] += unique in taken
        taken.add(unique)
        found.append(unique)
    return tuple(found)


def _delimiter(data: bytes) -> int:
    """Return the most frequent delimiter of the first line outside of quotes."""
    line = data.split(b"\n", 1)[0]
    outside = b"".join(line.split(b'"')[::2])
    return max(DELIMITERS, key=lambda each: (outside.count(each), -DELIMITERS.index(each)))


def csv_windows(payload: Payload, header: Header, slice_bytes: int) -> Iterator[RawRows]:
    """Read the rows behind the header, at most `slice_bytes` of text at a time."""
    start = header.end
    size = max(min(slice_bytes, WINDOW_BYTES), 1)
    broken = header.broken_names
    while start < payload.size:
        data = payload.read(start, size)
        window = _Window(np.frombuffer(data, np.uint8).copy(), start, start + len(data) == payload.size)
        rows, used = window.rows(header, broken)
        if rows.lines == 0 and used == 0:
            if size <= kernel.MAX_ROW_BYTES:
                size = kernel.MAX_ROW_BYTES + 1  # a row longer than the window
                continue
            used = _line_end(payload, start, size)
            rows = _skip_row(start)
        yield rows
        broken = 0
        start += used
        size = max(min(slice_bytes, WINDOW_BYTES), 1)


@dataclass(frozen=True, slots=True)
class _Window:
    text: Bytes
    base: int
    final: bool

    def rows(self, header: Header, broken_names: int) -> tuple[RawRows, int]:
        """Read the whole rows in the window; return the bytes they take too."""
        width = len(header.names)
        capacity = min(int(np.count_nonzero(self.text == ord("\n"))), len(self.text) // width) + 1
        starts = np.empty(width * capacity, np.int64)
        lengths = np.empty(width * capacity, np.int32)
        line_of_row = np.empty(capacity, np.int64)
        state = np.zeros(kernel.STATE_SIZE, np.int64)
        state[kernel.PATIENCE] = kernel.PATIENCE_BYTES
        used = kernel.scan_rows(
            self.text,
            len(self.text),
            self.final,
            header.delimiter,
            starts,
            lengths,
            width,
            line_of_row,
            np.zeros(width, np.uint8),
            state,
        )
        count = int(state[kernel.ROWS])
        notes: Counter[str] = Counter()
        if broken_names:
            notes[REPAIRED] += broken_names
        self.text.flags.writeable = False
        columns: dict[tuple[str, str], pa.Array] = {}
        for place, name in enumerate(header.names):
            run = slice(place * capacity, place * capacity + count)
            rows = np.flatnonzero(lengths[run] >= 0)
            if len(rows):
                spans = Spans(starts[run][rows], lengths[run][rows])
                columns[name, "string"] = column_at(self.text, spans, rows, count, notes)
        found = RawRows(
            count=count,
            columns=columns,
            overflow=None,
            lines=int(state[kernel.LINES]),
            line_of_row=line_of_row[:count].copy(),
            rejected=int(state[kernel.REJECTED]),
            first_rejected=self._first_rejected(state, width),
            notes=dict(notes),
        )
        return found, int(used)

    def _first_rejected(self, state: np.ndarray, width: int) -> str:
        if state[kernel.REJECTED] == 0:
            return ""
        reason = _REASONS.get(
            int(state[kernel.FIRST_REASON]), f"{state[kernel.FIRST_FIELDS]} fields, expected {width}"
        )
        return f"byte {self.base + state[kernel.FIRST_OFFSET]}: {reason}"


def _line_end(payload: Payload, start: int, size: int) -> int:
    """Return the distance from `start` behind the next line break, or to the end."""
    at = start
    while at < payload.size:
        data = payload.read(at, size)
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1 - start
        at += len(data)
    return payload.size - start


def _skip_row(start: int) -> RawRows:
    """Reject one row that is longer than any window."""
    reason = f"byte {start}: {_REASONS[kernel.TOO_LONG]}"
    return RawRows(0, {}, None, 1, np.zeros(0, np.int64), 1, reason)
