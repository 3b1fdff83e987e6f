"""Spans in scanned bytes: one row of numbers and positions per span, per event, per link, per attribute.

Events and links own attributes too. Each kind of row has a matrix of its own that names its owner's row, and
all are filled in one walk over the spans.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lakerunner_assets.decode.field_kernels import (
    ATTRIBUTE_WIDTH,
    OWNER,
    Matrix,
    Spans,
    matrix,
    read_key_value,
)
from lakerunner_assets.decode.wire_kernels import read_fixed, read_length, read_tag, read_varint, skip_field
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, scanner

START, END, KIND, STATUS_CODE, FLAGS, DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS = range(8)
TRACE_ID, SPAN_ID, PARENT_ID, NAME, TRACE_STATE, STATUS_MESSAGE = 8, 10, 12, 14, 16, 18
"""Each a position and a length."""
SPAN_WIDTH = 20

# Column 0 of events and links is OWNER, as in attributes.
EVENT_TIME, EVENT_DROPPED, EVENT_NAME, EVENT_WIDTH = 1, 2, 3, 5
LINK_FLAGS, LINK_DROPPED, LINK_TRACE_ID, LINK_SPAN_ID, LINK_STATE, LINK_WIDTH = 1, 2, 3, 5, 7, 9

ATTRIBUTES, EVENTS, EVENT_ATTRIBUTES, LINKS, LINK_ATTRIBUTES = range(5)
ATTRIBUTE_TAG, EVENT_TAG, LINK_TAG, STATUS_TAG = 74, 90, 106, 122
EVENT_ATTRIBUTE_TAG, LINK_ATTRIBUTE_TAG = 26, 34


class Found(NamedTuple):
    """All rows of a slice; `used` counts the filled rows of the five matrices behind `spans`."""

    spans: Matrix
    attributes: Matrix
    events: Matrix
    event_attributes: Matrix
    links: Matrix
    link_attributes: Matrix
    used: Int64s


def room_for(spans: int, counts: Int64s) -> Found:
    return Found(
        matrix(spans, SPAN_WIDTH),
        matrix(int(counts[ATTRIBUTES]), ATTRIBUTE_WIDTH),
        matrix(int(counts[EVENTS]), EVENT_WIDTH),
        matrix(int(counts[EVENT_ATTRIBUTES]), ATTRIBUTE_WIDTH),
        matrix(int(counts[LINKS]), LINK_WIDTH),
        matrix(int(counts[LINK_ATTRIBUTES]), ATTRIBUTE_WIDTH),
        np.zeros(5, np.int64),
    )


@scanner
def count_spans(data: Bytes, spans: Spans, counts: Int64s) -> Integer:
    """Count what the spans own; a fault or 0."""
    for index in range(len(spans.start)):
        position: Integer = spans.start[index]
        end = position + spans.length[index]
        while position < end:
            tag, position = read_tag(data, position, end)
            if position < 0:
                return position
            start = position
            position = skip_field(data, position, end, tag)
            if position < 0:
                return position
            if tag == ATTRIBUTE_TAG:
                counts[ATTRIBUTES] += 1
            elif tag == EVENT_TAG:
                counts[EVENTS] += 1
                failed = count_inner(data, start, position, EVENT_ATTRIBUTE_TAG, counts, EVENT_ATTRIBUTES)
                if failed < 0:
                    return failed
            elif tag == LINK_TAG:
                counts[LINKS] += 1
                failed = count_inner(data, start, position, LINK_ATTRIBUTE_TAG, counts, LINK_ATTRIBUTES)
                if failed < 0:
                    return failed
    return np.int64(0)


@scanner
def count_inner(
    data: Bytes, position: Integer, end: Integer, wanted: Integer, counts: Int64s, place: Integer
) -> Integer:
    """Count fields `wanted` of the message whose length prefix is at `position`."""
    _, position = read_length(data, position, end)
    while 0 <= position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag == wanted:
            counts[place] += 1
        position = skip_field(data, position, end, tag)
    return position


@scanner
def read_spans(data: Bytes, spans: Spans, found: Found) -> Integer:
    """Fill a row per span and per thing it owns, whose numbers were counted before; a fault or 0."""
    for row in range(len(spans.start)):
        start = spans.start[row]
        failed = read_span(data, start, start + spans.length[row], row, found)
        if failed < 0:
            return failed
    return np.int64(0)


@scanner
def read_span(data: Bytes, position: Integer, end: Integer, row: Integer, found: Found) -> Integer:
    """One Span into row `row`."""
    spans = found.spans
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag & 7 == 2:
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            failed: Integer = 0
            if tag == ATTRIBUTE_TAG:
                failed = read_attribute(
                    data, position, position + length, row, found.attributes, found.used, ATTRIBUTES
                )
            elif tag == EVENT_TAG:
                failed = read_event(data, position, position + length, row, found)
            elif tag == LINK_TAG:
                failed = read_link(data, position, position + length, row, found)
            elif tag == STATUS_TAG:
                failed = read_status(data, position, position + length, row, spans)
            else:
                field = text_field(tag)
                if field >= 0:
                    spans[row, field] = position
                    spans[row, field + 1] = length
            if failed < 0:
                return failed
            position += length
        elif tag == 57:
            spans[row, START], position = read_fixed(data, position, end, 8)
        elif tag == 65:
            spans[row, END], position = read_fixed(data, position, end, 8)
        elif tag == 133:
            spans[row, FLAGS], position = read_fixed(data, position, end, 4)
        elif tag == 48:
            number, position = read_varint(data, position, end)
            spans[row, KIND] = np.int64(np.int32(number))
        elif tag in (80, 96, 112):
            number, position = read_varint(data, position, end)
            spans[row, DROPPED_ATTRIBUTES + (tag - 80) // 16] = number & 0xFFFFFFFF
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def text_field(tag: Integer) -> Integer:
    """Where position and length of a Span's text or id go; -1 for fields we do not know."""
    if tag == 10:
        return TRACE_ID
    if tag == 18:
        return SPAN_ID
    if tag == 26:
        return TRACE_STATE
    if tag == 34:
        return PARENT_ID
    return NAME if tag == 42 else -1


@scanner
def read_attribute(
    data: Bytes,
    position: Integer,
    end: Integer,
    owner: Integer,
    attributes: Matrix,
    used: Int64s,
    place: Integer,
) -> Integer:
    row = used[place]
    used[place] += 1
    attributes[row, OWNER] = owner
    return read_key_value(data, position, end, attributes, row)


@scanner
def read_status(data: Bytes, position: Integer, end: Integer, row: Integer, spans: Matrix) -> Integer:
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag == 18:
            length, position = read_length(data, position, end)
            spans[row, STATUS_MESSAGE] = position
            spans[row, STATUS_MESSAGE + 1] = length
            if position >= 0:
                position += length
        elif tag == 24:
            number, position = read_varint(data, position, end)
            spans[row, STATUS_CODE] = np.int64(np.int32(number))
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_event(data: Bytes, position: Integer, end: Integer, owner: Integer, found: Found) -> Integer:
    row = found.used[EVENTS]
    found.used[EVENTS] += 1
    events = found.events
    events[row, OWNER] = owner
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (18, EVENT_ATTRIBUTE_TAG):
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            if tag == 18:
                events[row, EVENT_NAME] = position
                events[row, EVENT_NAME + 1] = length
            else:
                failed = read_attribute(
                    data,
                    position,
                    position + length,
                    row,
                    found.event_attributes,
                    found.used,
                    EVENT_ATTRIBUTES,
                )
                if failed < 0:
                    return failed
            position += length
        elif tag == 9:
            events[row, EVENT_TIME], position = read_fixed(data, position, end, 8)
        elif tag == 32:
            number, position = read_varint(data, position, end)
            events[row, EVENT_DROPPED] = number & 0xFFFFFFFF
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position


@scanner
def read_link(data: Bytes, position: Integer, end: Integer, owner: Integer, found: Found) -> Integer:
    row = found.used[LINKS]
    found.used[LINKS] += 1
    links = found.links
    links[row, OWNER] = owner
    while position < end:
        tag, position = read_tag(data, position, end)
        if position < 0:
            return position
        if tag in (10, 18, 26, LINK_ATTRIBUTE_TAG):
            length, position = read_length(data, position, end)
            if position < 0:
                return position
            if tag == LINK_ATTRIBUTE_TAG:
                failed = read_attribute(
                    data, position, position + length, row, found.link_attributes, found.used, LINK_ATTRIBUTES
                )
                if failed < 0:
                    return failed
            else:
                field = LINK_TRACE_ID + (tag - 10) // 4
                links[row, field] = position
                links[row, field + 1] = length
            position += length
        elif tag == 53:
            links[row, LINK_FLAGS], position = read_fixed(data, position, end, 4)
        elif tag == 40:
            number, position = read_varint(data, position, end)
            links[row, LINK_DROPPED] = number & 0xFFFFFFFF
        else:
            position = skip_field(data, position, end, tag)
        if position < 0:
            return position
    return position
