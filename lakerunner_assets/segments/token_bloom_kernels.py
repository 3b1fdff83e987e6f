"""Kernels split texts into tokens, hash them and set their bits in the token bloom.

The numbers of the hash are those of `resources/lake/tokens.py`, which readers load without numba; a test
compares the two bit by bit.

`python -m benchmarks.kernels.segments`: 1.4 ms for 20,000 lines; Arrow's `split_pattern_regex` takes 26 ms,
Python's `re` 62 ms, both without hashing. `used_codes` takes 0.07 ms, assignment by NumPy 0.29 ms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakerunner_assets.decode.eight_bytes_kernels import (
    bits_of,
    first_bytes,
    load_padded,
    run_length,
    token_mask,
)
from lakerunner_assets.decode.memory_kernels import first_set, set_eight_bits
from resources.arrays import Bytes, UInt64s
from resources.kernel import Integer, inlined, kernel, scanner

Words = npt.NDArray[np.uint32]

_RECENT_BITS = 12
RECENT = 1 << _RECENT_BITS
"""Slots for hashes just seen, and as many for short words: most words of a line were in the line before."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_MAX_TOKEN_BYTES = 128
_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31],
    np.uint32,
)
_SALTS.flags.writeable = False
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


@kernel
def used_codes(codes: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.bool_]:
    used = np.zeros(size, np.bool_)
    for code in codes:
        used[code] = True
    return used


@inlined
def mix(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(33))) * _MIX_1
    value = (value ^ (value >> np.uint64(33))) * _MIX_2
    return value ^ (value >> np.uint64(33))


@scanner
def token_hash(text: Bytes, start: Integer, end: Integer) -> np.uint64:
    stop = min(end, start + _MAX_TOKEN_BYTES)
    value = np.uint64(stop - start) * _MULTIPLIER
    position = start
    while position < stop:
        word = first_bytes(load_padded(text, position), min(8, stop - position))
        value = (value ^ word) * _MULTIPLIER
        value ^= value >> np.uint64(32)
        position += 8
    return mix(value)


@inlined
def short_hash(word: np.uint64, length: Integer) -> np.uint64:
    """Compute `token_hash` of one word of up to eight bytes."""
    value = ((np.uint64(length) * _MULTIPLIER) ^ word) * _MULTIPLIER
    return mix(value ^ (value >> np.uint64(32)))


@inlined
def insert(value: np.uint64, words: Words, recent: UInt64s) -> None:
    """Set the token's eight bits, unless it was just seen: log lines repeat their words."""
    place = value & np.uint64(RECENT - 1)
    if recent[place] != value:
        recent[place] = value
        block = (value >> np.uint64(32)) & np.uint64(len(words) // 8 - 1)
        low = np.uint32(value & np.uint64(0xFFFFFFFF))
        set_eight_bits(words, np.int64(block) * 8, low, _SALTS)


@scanner
def add_tokens(offsets: npt.NDArray[np.int32], text: Bytes, words: Words, recent: UInt64s) -> None:
    """Add the tokens of texts, 64 bytes at a time: a mask of token bytes comes before any hash."""
    for row in range(len(offsets) - 1):
        base: Integer = np.int64(offsets[row])
        end = np.int64(offsets[row + 1])
        while base < end:
            inside = token_bits(text, base, end)
            if inside == _ALL:
                base = add_long_token(text, base, end, words, recent)
                continue
            borders = inside ^ (inside << np.uint64(1))
            after = base + 64
            while borders:
                start = base + first_set(borders)
                borders &= borders - np.uint64(1)
                if borders == 0:  # it goes on behind these 64: from its start again
                    after = start
                    break
                length = base + first_set(borders) - start
                borders &= borders - np.uint64(1)
                if length > 8:
                    insert(token_hash(text, start, start + length), words, recent)
                    continue
                word = first_bytes(load_padded(text, start), length)
                place = np.uint64(RECENT) + (word * _MULTIPLIER >> np.uint64(64 - _RECENT_BITS))
                if recent[place] != word:
                    recent[place] = word
                    insert(short_hash(word, length), words, recent)
            base = after


@inlined
def token_bits(text: Bytes, base: Integer, end: Integer) -> np.uint64:
    """Mark those of 64 bytes from `base` that are in a token and before `end`."""
    bits = np.uint64(0)
    size = min(np.int64(64), end - base)
    place = np.int64(0)
    while place < size:
        word_bits = bits_of(token_mask(load_padded(text, base + place)))
        bits |= word_bits << np.uint64(place)
        place += 8
    return bits if size == 64 else bits & ((np.uint64(1) << np.uint64(size)) - np.uint64(1))


@scanner
def add_long_token(text: Bytes, start: Integer, end: Integer, words: Words, recent: UInt64s) -> Integer:
    """Add one token of 64 bytes or more; return its end."""
    stop = start + 64
    length = np.int64(8)
    while length == 8 and stop < end:
        length = run_length(token_mask(load_padded(text, stop)))
        stop += length
    stop = min(stop, end)
    insert(token_hash(text, start, stop), words, recent)
    return stop


@kernel
def add_hex_ids(raw: Bytes, width: int, words: Words, recent: UInt64s) -> None:
    """Add ids of a multiple of four bytes in the hex form that people write."""
    for start in range(0, len(raw), width):
        value = np.uint64(2 * width) * _MULTIPLIER
        for offset in range(0, width, 4):
            value = (value ^ hex_digits(raw, start + offset)) * _MULTIPLIER
            value ^= value >> np.uint64(32)
        insert(mix(value), words, recent)


@inlined
def hex_digits(raw: Bytes, position: Integer) -> np.uint64:
    """Return the eight hex digits of four bytes."""
    word = np.uint64(0)
    for index in range(4):
        byte = np.uint64(raw[np.uint64(position + index)])
        nibbles = (byte >> np.uint64(4)) | (byte & np.uint64(15)) << np.uint64(8)
        word |= nibbles << np.uint64(16 * index)
    letters = ((word + np.uint64(0x0606060606060606)) >> np.uint64(4)) & np.uint64(0x0101010101010101)
    return word + np.uint64(0x3030303030303030) + letters * np.uint64(39)
