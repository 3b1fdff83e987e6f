"""JSON scalars are written in protobuf form, by the rule of their field.

Part of the pass that `transcode_kernels.py` measures: hexadecimal and base64 are decoded where the bytes lie,
and calling `bytes.fromhex` would need a Python object per id.
"""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.field_kernels import Matrix
from lakerunner_assets.decode.json.schema_kernels import (
    BOOL,
    BYTES,
    CHILD,
    DOUBLE,
    EIGHT_BYTES,
    ENCODING,
    ENUM,
    FOUR_BYTES,
    ID,
    RULES,
    SCALARS,
    STRING,
    TAG,
    TAG_SIZE,
    TYPE,
    ZIGZAG,
    find_name,
)
from lakerunner_assets.decode.json.token_kernels import (
    BAD_BASE64,
    BAD_HEX,
    BAD_NUMBER,
    CLOSE_LIST,
    COMMA,
    DIGIT_0,
    DIGIT_9,
    EXPECTED_COMMA,
    FALSE,
    FIXES,
    LETTER_F,
    LETTER_T,
    MINUS,
    OUT_OF_RANGE,
    QUOTE,
    TRUE,
    TRUNCATED,
    UNKNOWN_NAME,
    WRONG_TYPE,
    copy_text,
    fault,
    skip_space,
    text_end,
    unescape,
    word_behind,
)
from lakerunner_assets.decode.json.value_kernels import NEGATIVE, exact_double, read_number, whole
from lakerunner_assets.decode.memory_kernels import store_word
from resources.arrays import Bytes, Int64s
from resources.kernel import Integer, inlined, scanner

LENGTH_BYTES = 5
"""Bytes reserved for a length that is not known yet."""

_LIMITS = {
    "enum": (2**31 - 1, 2**31),
    "int32": (2**31 - 1, 2**31),
    "sint32": (2**31 - 1, 2**31),
    "uint32": (2**32 - 1, 0),
    "fixed32": (2**32 - 1, 0),
    "int64": (2**63 - 1, 2**63),
    "sfixed64": (2**63 - 1, 2**63),
    "uint64": (2**64 - 1, 0),
    "fixed64": (2**64 - 1, 0),
}
_MOST = np.array([_LIMITS.get(name, (0, 0))[0] for name in SCALARS], np.uint64)
_LEAST = np.array([_LIMITS.get(name, (0, 0))[1] for name in SCALARS], np.uint64)
_INFINITY = int.from_bytes(b"Infinity", "little")


@scanner
def put_varint(out: Bytes, used: Integer, value: np.uint64) -> Integer:
    while value > np.uint64(127):
        out[np.uint64(used)] = np.uint8(value & np.uint64(127) | np.uint64(128))
        value >>= np.uint64(7)
        used += 1
    out[np.uint64(used)] = np.uint8(value)
    return used + 1


@scanner
def put_length(out: Bytes, start: Integer, content: Integer, end: Integer) -> None:
    """Write the length of `out[content:end]` as a varint that fills `out[start:content]`."""
    left = np.uint64(end - content)
    for at in range(start, content):
        more = np.uint64(128) if at < content - 1 else np.uint64(0)
        out[np.uint64(at)] = np.uint8(left & np.uint64(127) | more)
        left >>= np.uint64(7)


@inlined
def put_text(
    data: Bytes, position: Integer, end: Integer, out: Bytes, used: Integer, tally: Int64s
) -> tuple[Integer, Integer]:
    """Write the string that starts at `position`, with its length in front."""
    stop, escaped = text_end(data, position, end)
    if stop < 0:
        return stop, used
    length = stop - position
    if not escaped:
        used = put_varint(out, used, np.uint64(length))
        copy_text(out, used, data, position, length)
        return stop + 1, used + length
    content = put_varint(out, used, np.uint64(length))  # opened it is shorter: the same bytes, fewer bits
    behind = unescape(data, position, stop, out, content, tally)
    if behind < 0:
        return behind, used
    put_length(out, used, content, behind)
    return stop + 1, behind


@scanner
def put_binary(
    data: Bytes, position: Integer, end: Integer, kind: Integer, out: Bytes, used: Integer, tally: Int64s
) -> tuple[Integer, Integer]:
    """Write an id or bytes, with the length in front."""
    stop, escaped = text_end(data, position, end)
    if stop < 0:
        return stop, used
    length = stop - position
    content = put_varint(out, used, np.uint64(length))
    if escaped:  # "\\/" is a slash in base64
        opened = unescape(data, position, stop, out, content, tally)
        if opened < 0:
            return opened, used
        if kind == ID:
            behind = put_hex(out, content, opened, out, content)
        else:
            behind = put_base64(out, content, opened, out, content)
    elif kind == ID:
        behind = put_hex(data, position, stop, out, content)
    else:
        behind = put_base64(data, position, stop, out, content)
    if behind < 0:
        return fault(position, (-behind - 1) % 32), used
    put_length(out, used, content, behind)
    return stop + 1, behind


@inlined
def put_double(
    data: Bytes, position: Integer, end: Integer, out: Bytes, used: Integer, fixes: Matrix, tally: Int64s
) -> tuple[Integer, Integer]:
    """Write eight bytes for a number, a number in quotes, NaN or an infinity."""
    quoted = data[np.uint64(position)] == QUOTE
    if quoted:
        stop, _ = text_end(data, position + 1, end)
        if stop < 0:
            return stop, used
        position += 1
        end = stop
        known, value = read_named_double(data, position, stop)
        if known:
            store_word(out, used, np.float64(value).view(np.uint64))
            return stop + 1, used + 8
    behind, mantissa, exponent, shape = read_number(data, position, end)
    if behind < 0 or (quoted and behind != end):
        return fault(position, BAD_NUMBER) if quoted else behind, used
    value, exact = exact_double(mantissa, exponent, shape)
    if exact:
        store_word(out, used, np.float64(value).view(np.uint64))
    else:
        row = tally[FIXES]
        fixes[row, 0], fixes[row, 1], fixes[row, 2] = used, position, behind - position
        tally[FIXES] = row + 1
    return behind + 1 if quoted else behind, used + 8


@scanner
def read_named_double(data: Bytes, position: Integer, stop: Integer) -> tuple[bool, float]:
    """Recognise NaN, Infinity or -Infinity."""
    length = stop - position
    if length == 3:
        first, second, third = data[position], data[position + 1], data[position + 2]
        return first == 78 and second == 97 and third == 78, np.nan
    minus = length == 9 and data[np.uint64(position)] == 45
    if not minus and length != 8:
        return False, 0.0
    if minus:
        position += 1
    for index in range(8):
        if data[np.uint64(position + index)] != _INFINITY >> 8 * index & 255:
            return False, 0.0
    return True, -np.inf if minus else np.inf


@inlined
def put_integer(
    data: Bytes, position: Integer, end: Integer, field: Integer, out: Bytes, used: Integer
) -> tuple[Integer, Integer]:
    """Write an integer, an integer in quotes, or the name of an enum's value, as its field demands."""
    kind = RULES[field, TYPE]
    quoted = data[np.uint64(position)] == QUOTE
    if quoted:
        position += 1
        if kind == ENUM and position < end and not 45 <= data[np.uint64(position)] <= 57:
            return put_enum(data, position, end, field, out, used)
    behind, magnitude, exponent, shape = read_number(data, position, end)
    if behind < 0:
        return behind, used
    if exponent != 0 or shape > NEGATIVE:
        failed, magnitude = whole(position, magnitude, exponent, shape)
        if failed < 0:
            return failed, used
    if quoted:
        if behind >= end:
            return fault(behind, TRUNCATED), used
        if data[np.uint64(behind)] != QUOTE:
            return fault(position, BAD_NUMBER), used
        behind += 1
    if magnitude > (_LEAST[kind] if shape & NEGATIVE else _MOST[kind]):
        return fault(position, OUT_OF_RANGE), used
    value = np.uint64(0) - magnitude if shape & NEGATIVE else magnitude
    encoding = RULES[field, ENCODING]
    if encoding == EIGHT_BYTES:
        store_word(out, used, value)
        return behind, used + 8
    if encoding == FOUR_BYTES:
        store_word(out, used, value)
        return behind, used + 4
    if encoding == ZIGZAG:
        value = (
            magnitude * np.uint64(2) - np.uint64(1)
            if shape & NEGATIVE and magnitude
            else (magnitude * np.uint64(2))
        )
    return behind, put_varint(out, used, value)


@scanner
def put_enum(
    data: Bytes, position: Integer, end: Integer, field: Integer, out: Bytes, used: Integer
) -> tuple[Integer, Integer]:
    stop, _ = text_end(data, position, end)
    if stop < 0:
        return stop, used
    number = find_name(data, position, stop - position, RULES[field, CHILD])
    if number < 0:
        return fault(position, UNKNOWN_NAME), used
    return stop + 1, put_varint(out, used, np.uint64(number))


@inlined
def put_scalar(
    data: Bytes,
    position: Integer,
    end: Integer,
    field: Integer,
    out: Bytes,
    used: Integer,
    fixes: Matrix,
    tally: Int64s,
) -> tuple[Integer, Integer]:
    """Write the value at `position`, behind its tag."""
    kind = RULES[field, TYPE]
    byte = data[np.uint64(position)]
    if kind == STRING:
        if byte != QUOTE:
            return fault(position, WRONG_TYPE), used
        return put_text(data, position + 1, end, out, used, tally)
    if kind == BOOL:
        if byte not in (LETTER_T, LETTER_F):
            return fault(position, WRONG_TYPE), used
        out[np.uint64(used)] = 1 if byte == LETTER_T else 0
        return word_behind(data, position, end, TRUE if byte == LETTER_T else FALSE), used + 1
    if kind in (ID, BYTES):
        if byte != QUOTE:
            return fault(position, WRONG_TYPE), used
        return put_binary(data, position + 1, end, kind, out, used, tally)
    if not is_number_or_text(byte):
        return fault(position, WRONG_TYPE), used
    if kind == DOUBLE:
        return put_double(data, position, end, out, used, fixes, tally)
    return put_integer(data, position, end, field, out, used)


@inlined
def is_number_or_text(byte: np.uint8) -> bool:
    return bool(byte in (QUOTE, MINUS) or DIGIT_0 <= byte <= DIGIT_9)


@scanner
def put_scalars(
    data: Bytes,
    position: Integer,
    end: Integer,
    field: Integer,
    out: Bytes,
    used: Integer,
    fixes: Matrix,
    tally: Int64s,
) -> tuple[Integer, Integer]:
    """Write the list whose bracket is before `position`: numbers packed, texts each with a tag."""
    packed = RULES[field, TYPE] != STRING
    content = used + RULES[field, TAG_SIZE] + LENGTH_BYTES
    if packed:
        store_word(out, used, np.uint64(RULES[field, TAG]))
        used = content
    opened = True
    while True:
        position = skip_space(data, position, end)
        if position >= end:
            return fault(position, TRUNCATED), used
        byte = data[np.uint64(position)]
        if byte == CLOSE_LIST:
            break
        if not opened:
            if byte != COMMA:
                return fault(position, EXPECTED_COMMA), used
            position = skip_space(data, position + 1, end)
            if position >= end:
                return fault(position, TRUNCATED), used
        opened = False
        if not packed:
            store_word(out, used, np.uint64(RULES[field, TAG]))
            used += RULES[field, TAG_SIZE]
        position, used = put_scalar(data, position, end, field, out, used, fixes, tally)
        if position < 0:
            return position, used
    if packed:
        put_length(out, content - LENGTH_BYTES, content, used)
    return position + 1, used


_DIGITS = np.full(256, 255, np.uint8)


_DIGITS[list(range(48, 58))] = range(10)


_DIGITS[list(range(65, 71))] = range(10, 16)


_DIGITS[list(range(97, 103))] = range(10, 16)


_SIXES = np.full(256, 255, np.uint8)


for _index, _letter in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
    _SIXES[_letter] = _index


_SIXES[45], _SIXES[95] = 62, 63  # base64url, which protobuf's JSON reads as well


@scanner
def put_hex(data: Bytes, position: Integer, stop: Integer, out: Bytes, used: Integer) -> Integer:
    """Decode the hexadecimal text before `stop`; return the end of the bytes, or a fault."""
    if (stop - position) % 2:
        return fault(position, BAD_HEX)
    if used + (stop - position) // 2 > len(out):
        raise IndexError("bytes that do not fit")
    seen = np.uint8(0)
    for at in range(position, stop, 2):
        high = _DIGITS[data[np.uint64(at)]]
        low = _DIGITS[data[np.uint64(at + 1)]]
        seen |= high | low
        out[np.uint64(used)] = high << np.uint8(4) | low
        used += 1
    return used if seen < 16 else fault(position, BAD_HEX)


@scanner
def put_base64(data: Bytes, position: Integer, stop: Integer, out: Bytes, used: Integer) -> Integer:
    """Decode the base64 text before `stop`, padded or not; return the end of the bytes, or a fault."""
    start = position
    for _ in range(2):
        if stop > position and (stop - start) % 4 != 1 and data[np.uint64(stop - 1)] == 61:
            stop -= 1
    if (stop - position) % 4 == 1:
        return fault(start, BAD_BASE64)
    if used + (stop - position) // 4 * 3 + 3 > len(out):
        raise IndexError("bytes that do not fit")
    bits = np.uint64(0)
    held = 0
    seen = np.uint8(0)
    while position < stop:
        six = _SIXES[data[np.uint64(position)]]
        seen |= six
        bits = (bits << np.uint64(6) | np.uint64(six & np.uint8(63))) & np.uint64(0xFFFF)
        held += 6
        position += 1
        if held >= 8:
            held -= 8
            out[np.uint64(used)] = np.uint8(bits >> np.uint64(held) & np.uint64(255))
            used += 1
    return used if seen < 64 else fault(start, BAD_BASE64)
