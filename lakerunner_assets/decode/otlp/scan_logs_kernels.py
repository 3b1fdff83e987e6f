"""Log records in scanned bytes: one row of numbers and positions per record, one per attribute of it."""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import (
    ATTRIBUTE_WIDTH,
    OWNER,
    Matrix,
    Spans,
    read_any_value,
    read_key_value,
)
from lakerunner_assets.decode.wire_kernels import read_fixed, read_length, read_tag, read_varint, skip_field
from resources.arrays import Bytes
from resources.kernel import Integer, scanner

TIME, OBSERVED, SEVERITY, FLAGS, DROPPED, BODY_KIND, BODY, BODY_LENGTH = range(8)
SEVERITY_TEXT, EVENT_NAME, TRACE_ID, SPAN_ID = 8, 10, 12, 14  # each a position and a length
RECORD_WIDTH = 16
ATTRIBUTE_TAG = 50
NO_ROOM = -(2**62)
"""No fault: those carry the offset of a byte, times 16."""
MIN_ROOM = 1024


@scanner
def read_records(
    data: Bytes, spans: Spans, row: Integer, records: Matrix, attributes: Matrix, used: Integer
) -> tuple[Integer, Integer, Integer]:
    """Fill a row per LogRecord from `row` on, and one per attribute from `used` on.

    A fault or 0, and how far it came: less than all records when `attributes` has no room for the next one's.
    """
    while row < len(spans.start):
        start = spans.start[row]
        failed, behind = read_record(data, start, start + spans.length[row], records, row, attributes, used)
        if failed == NO_ROOM:
            return np.int64(0), row, used
        if failed < 0:
            return failed, row, used
        used = behind
        row += 1
    return np.int64(0), row, used


@scanner
def read_record(
    data: Bytes,
    position: Integer,
    end: Integer,
    records: Matrix,
    row: Integer,
    attributes: Matrix,
    used: Integer,
) -> tuple[Integer, Integer]:
    """One LogRecord into row `row`; also the number of attributes used so far."""
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position, used
        if tag & 7 == 2:
            length, position = read_length(data, position, end)
            if position < 0:
                return position, used
            if tag == ATTRIBUTE_TAG:
                if used == len(attributes):
                    return NO_ROOM, used
                for place in range(ATTRIBUTE_WIDTH):
                    attributes[used, place] = 0
                attributes[used, OWNER] = row
                failed = read_key_value(data, position, position + length, attributes, used)
                used += 1
                if failed < 0:
                    return failed, used
            elif tag == 42:
                failed = read_any_value(data, position, position + length, records, row, BODY_KIND)
                if failed < 0:
                    return failed, used
            else:
                field = text_field(tag)
                if field >= 0:
                    records[row, field] = position
                    records[row, field + 1] = length
            position += length
        elif tag == 9:
            records[row, TIME], position = read_fixed(data, position, end, 8)
        elif tag == 89:
            records[row, OBSERVED], position = read_fixed(data, position, end, 8)
        elif tag == 69:
            records[row, FLAGS], position = read_fixed(data, position, end, 4)
        elif tag == 16:
            number, position = read_varint(data, position, end)
            records[row, SEVERITY] = np.int64(np.int32(number))
        elif tag == 56:
            number, position = read_varint(data, position, end)
            records[row, DROPPED] = number & 0xFFFFFFFF
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position, used
    return position, used


@scanner
def text_field(tag: Integer) -> Integer:
    """Where position and length of a LogRecord's text or id go; -1 for fields we do not know."""
    if tag == 26:
        return SEVERITY_TEXT
    if tag == 74:
        return TRACE_ID
    if tag == 82:
        return SPAN_ID
    return EVENT_NAME if tag == 98 else -1
