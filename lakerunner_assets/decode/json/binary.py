"""Bytes that JSON writes as text: ids in hexadecimal, bytes in base64."""

from __future__ import annotations

import numpy as np

from lakerunner_assets.decode.json.tokens import BAD_BASE64, BAD_HEX, fault
from resources.arrays import Bytes
from resources.kernel import Integer, scanner

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
    """Bytes of the hexadecimal text before `stop`; where they end, or a fault."""
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
    """Bytes of the base64 text before `stop`, padded or not; where they end, or a fault."""
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
