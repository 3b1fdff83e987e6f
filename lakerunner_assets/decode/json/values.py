"""Steps over JSON values that nobody asked for, checking their grammar."""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.fields import Matrix
from lakerunner_assets.decode.json.numbers import read_number
from lakerunner_assets.decode.json.tokens import (
    BAD_VALUE,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    EXPECTED_COLON,
    EXPECTED_COMMA,
    EXPECTED_NAME,
    FALSE,
    MAX_DEPTH,
    NULL,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    TOO_DEEP,
    TRUE,
    TRUNCATED,
    fault,
    skip_space,
    skip_text,
    word_behind,
)
from resources.arrays import Bytes
from resources.kernel import Integer, scanner

KIND = 3
"""Column of the frames that says what is open: the byte that will close it."""


@scanner
def skip_scalar(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Behind a string, number or word."""
    byte = data[np.uint64(position)]
    if byte == QUOTE:
        return skip_text(data, position + 1, end)
    if byte == 45 or 48 <= byte <= 57:
        behind, _, _, _ = read_number(data, position, end)
        return behind
    if byte == 110:
        return word_behind(data, position, end, NULL)
    if byte == 116:
        return word_behind(data, position, end, TRUE)
    if byte == 102:
        return word_behind(data, position, end, FALSE)
    return fault(position, BAD_VALUE)


@scanner
def read_colon(data: Bytes, position: Integer, end: Integer) -> Integer:
    """From behind a name to the first byte of its value, which lies before `end`."""
    if position < end and data[np.uint64(position)] != COLON:
        position = skip_space(data, position, end)
    if position >= end:
        return fault(position, TRUNCATED)
    if data[np.uint64(position)] != COLON:
        return fault(position, EXPECTED_COLON)
    position = skip_space(data, position + 1, end)
    return fault(position, TRUNCATED) if position >= end else position


@scanner
def skip_value(data: Bytes, position: Integer, end: Integer, frames: Matrix, outer: Integer) -> Integer:
    """Behind the value at `position`, that lies `outer` levels deep."""
    depth = outer
    opened = False
    while True:
        position = skip_space(data, position, end)
        if position >= end:
            return fault(position, TRUNCATED)
        byte = data[np.uint64(position)]
        closing = np.int64(0) if depth == outer else frames[depth, KIND]
        if opened and byte == closing:
            position += 1
            depth -= 1
        else:
            if closing == CLOSE_OBJECT:
                if byte != QUOTE:
                    return fault(position, EXPECTED_NAME)
                position = skip_text(data, position + 1, end)
                if position < 0:
                    return position
                position = read_colon(data, position, end)
                if position < 0:
                    return position
                byte = data[np.uint64(position)]
            if byte in (OPEN_LIST, OPEN_OBJECT):
                depth += 1
                if depth >= MAX_DEPTH:
                    return fault(position, TOO_DEEP)
                frames[depth, KIND] = byte + 2
                position += 1
                opened = True
                continue
            position = skip_scalar(data, position, end)
            if position < 0:
                return position
        while depth > outer:  # behind a value: close what ends here
            position = skip_space(data, position, end)
            if position >= end:
                return fault(position, TRUNCATED)
            byte = data[np.uint64(position)]
            position += 1
            if byte == COMMA:
                break
            if byte != frames[depth, KIND]:
                return fault(position - 1, EXPECTED_COMMA)
            depth -= 1
        if depth == outer:
            return position
        opened = False
