"""CSV cells are found by RFC 4180: quotes doubled within quotes, line breaks allowed there.

    time,message                         row 0: cells `1`, `say "hi", please`
    1,"say ""hi"", please"      →        rejected: 3 fields where the header has 2
    2,a,b                                row 1: cells `3`, absent
    3,

Broken text costs one line: after a row with a wrong number of fields, or with a quote that never closes,
reading goes on behind the first line break, so that a stray quote does not take its neighbours along.

`benchmarks.kernels.decode`: `pyarrow.csv` takes 0.7 of the time and cannot replace this: it does not say at
which byte a row is broken, and to it a quote that never closes is a row up to the end of the file.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import Integer, scanner

MAX_ROW_BYTES = 4 << 20
"""Bytes of a row at most; a quote that is open for so long was never meant to be one."""
PATIENCE_BYTES = 64 << 20
"""Bytes of one window read in vain behind unclosed quotes before line breaks always end rows."""

ROWS, LINES, REJECTED, FIRST_OFFSET, FIRST_LINE, FIRST_REASON, FIRST_FIELDS, PATIENCE, STATE_SIZE = range(9)
"""Counters of a scan: rows found, rows seen, rejected ones, the first of these and why."""

WRONG_COUNT, OPEN_QUOTE, TOO_LONG = range(1, 4)
_MORE, _UNCLOSED = -1, -2
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13


@scanner
def scan_rows(
    text: Bytes,
    end: Integer,
    final: bool,
    delimiter: Integer,
    starts: Int64s,
    lengths: Int32s,
    width: Integer,
    line_of_row: Int64s,
    escaped: Bytes,
    state: Int64s,
) -> Integer:
    """Find the cells of whole rows in `text[:end]`; return where the first row begins that is not whole.

    `starts` and `lengths` hold `len(line_of_row)` rows of `width` columns, column by column; a length of -1
    says absent. `escaped` is room for a flag per column. With `final`, the end of the text ends a row.
    """
    capacity = len(line_of_row)
    position: Integer = np.int64(0)
    while position < end and state[ROWS] < capacity:
        start = position
        blank = line_break(text, start, end)
        if blank > 0:
            position += blank
            continue
        row, patient = state[ROWS], state[PATIENCE] > 0
        position, count = scan_row(
            text, start, end, final, delimiter, starts, lengths, width, row, capacity, escaped, patient
        )
        if position == _MORE and end - start <= MAX_ROW_BYTES:
            return start
        whole = position >= 0
        reason = WRONG_COUNT
        if position == _UNCLOSED:
            reason = OPEN_QUOTE
            state[PATIENCE] -= min(end - start, MAX_ROW_BYTES)
        elif not whole or position - start > MAX_ROW_BYTES:
            reason = TOO_LONG
        elif count == width:
            unescape(text, starts, lengths, width, row, capacity, escaped)
            line_of_row[row] = state[LINES]
            state[ROWS] += 1
            state[LINES] += 1
            continue
        line_end = newline_after(text, start, end)
        if line_end < 0 and not final and not whole:
            return start  # longer than a row may be, and its end is not in sight
        if state[REJECTED] == 0:
            state[FIRST_OFFSET], state[FIRST_LINE] = start, state[LINES]
            state[FIRST_REASON], state[FIRST_FIELDS] = reason, count
        if whole and line_end >= 0 and line_end < position:
            state[PATIENCE] -= position - start  # its other lines are read again
        state[REJECTED] += 1
        state[LINES] += 1
        position = end if line_end < 0 else line_end
    return position


@scanner
def scan_row(
    text: Bytes,
    position: Integer,
    end: Integer,
    final: bool,
    delimiter: Integer,
    starts: Int64s,
    lengths: Int32s,
    width: Integer,
    row: Integer,
    capacity: Integer,
    escaped: Bytes,
    multiline: bool,
) -> tuple[Integer, Integer]:
    """Find the cells of one row; return the position behind (or _MORE, _UNCLOSED) and the field count."""
    limit = min(end, position + MAX_ROW_BYTES)
    count: Integer = np.int64(0)
    while True:
        start = position
        stop: Integer = np.int64(-1)
        flag = np.uint8(0)
        if position < end and text[np.uint64(position)] == _QUOTE:
            start = position + 1
            position, flag = closing_quote(text, start, limit, multiline)
            if position < 0:
                cut = limit == end and not final and multiline
                return np.int64(_MORE if cut else _UNCLOSED), count
            stop = position
            position += 1
            if position == end and not final:
                return np.int64(_MORE), count
        after = position
        while (
            position < end
            and text[np.uint64(position)] != delimiter
            and text[np.uint64(position)] != _NEWLINE
        ):
            position += 1
        if position == end and not final:
            return np.int64(_MORE), count
        last = position == end or text[np.uint64(position)] == _NEWLINE
        field_end = position
        if last and field_end > after and text[np.uint64(field_end - 1)] == _RETURN:
            field_end -= 1
        if count < width:
            slot = np.uint64(count * capacity + row)
            starts[slot] = start
            if stop < 0:
                lengths[slot] = np.int32(field_end - start if field_end > start else -1)
            elif field_end > after:  # text behind the closing quote belongs to the value
                lengths[slot] = np.int32(field_end - start)
                flag = np.uint8(1)
            else:
                lengths[slot] = np.int32(stop - start)
            escaped[np.uint64(count)] = flag
        count += 1
        if last:
            return min(position + 1, end), count
        position += 1


@scanner
def closing_quote(
    text: Bytes, position: Integer, limit: Integer, multiline: bool
) -> tuple[Integer, np.uint8]:
    """Find the closing quote, or -1; tell whether there are doubled quotes before it."""
    doubled = np.uint8(0)
    while position < limit:
        byte = text[np.uint64(position)]
        if byte == _QUOTE:
            if position + 1 >= limit or text[np.uint64(position + 1)] != _QUOTE:
                return position, doubled
            doubled = np.uint8(1)
            position += 1
        elif byte == _NEWLINE and not multiline:
            return np.int64(-1), doubled
        position += 1
    return np.int64(-1), doubled


@scanner
def unescape(
    text: Bytes,
    starts: Int64s,
    lengths: Int32s,
    width: Integer,
    row: Integer,
    capacity: Integer,
    escaped: Bytes,
) -> None:
    """Remove quotes inside of values in place: they only become shorter."""
    for column in range(width):
        if escaped[np.uint64(column)] == 0:
            continue
        slot = np.uint64(column * capacity + row)
        position = starts[slot]
        end = position + lengths[slot]
        used = position
        quoted = True
        while position < end:
            byte = text[np.uint64(position)]
            position += 1
            if quoted and byte == _QUOTE:
                quoted = position < end and text[np.uint64(position)] == _QUOTE
                if not quoted:
                    continue
                position += 1
            text[np.uint64(used)] = byte
            used += 1
        lengths[slot] = np.int32(used - starts[slot])


@scanner
def line_break(text: Bytes, position: Integer, end: Integer) -> Integer:
    """Return the bytes of the line break at `position`, 0 where there is none."""
    byte = text[np.uint64(position)]
    if byte == _RETURN and position + 1 < end and text[np.uint64(position + 1)] == _NEWLINE:
        return np.int64(2)
    return np.int64(1) if byte == _NEWLINE else np.int64(0)


@scanner
def newline_after(text: Bytes, position: Integer, end: Integer) -> Integer:
    """Return the position behind the next line break, or -1."""
    while position < end:
        if text[np.uint64(position)] == _NEWLINE:
            return position + 1
        position += 1
    return np.int64(-1)
