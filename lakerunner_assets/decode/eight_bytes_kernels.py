"""Text is read and classified eight bytes at a time, in one 64-bit number.

A *mask* has the top bit of every byte that belongs to a class. Log lines are short words between single
separators: one mask that finds the end of a word replaces a loop with an unpredictable exit, which makes
masking and tokenising fast. Bytes behind the text read as 0, which is in no class.

`"took 12ms"` at 0: letters 0-3 and 7, digits 5-6; the run of token bytes is 4 long.

`benchmarks.kernels.decode`: the masks of log lines and the JSON readers are built on this and measured there.
"""

from __future__ import annotations

import numpy as np

from resources.arrays import Bytes
from resources.kernel import Integer, inlined, scanner

_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_LOWER = np.uint64(0x2020202020202020)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@scanner
def load_word(data: Bytes, position: Integer) -> np.uint64:
    """Read eight bytes, little endian (LLVM makes this one load)."""
    at = np.uint64(position)
    word = np.uint64(0)
    for index in range(8):
        word |= np.uint64(data[at + np.uint64(index)]) << np.uint64(8 * index)
    return word


@scanner
def load_padded(data: Bytes, position: Integer) -> np.uint64:
    """Read eight bytes, zeros behind the end of the data."""
    if position + 8 <= len(data):
        return load_word(data, position)
    word = np.uint64(0)
    for index in range(len(data) - position):
        word |= np.uint64(data[np.uint64(position + index)]) << np.uint64(8 * index)
    return word


@inlined
def first_bytes(mask: np.uint64, count: Integer) -> np.uint64:
    """Keep the low `count` bytes (1 to 8) of a mask or word."""
    return mask & (_ALL >> np.uint64(64 - 8 * count))


@inlined
def at_least(low_bytes: np.uint64, bound: int) -> np.uint64:
    """Mask the bytes >= bound; all bytes must be below 128."""
    return (low_bytes + _ONES * np.uint64(128 - bound)) & _TOPS


@inlined
def digit_mask(word: np.uint64) -> np.uint64:
    low = word & ~_TOPS
    return at_least(low, 48) & ~at_least(low, 58) & ~word


@inlined
def hex_letter_mask(word: np.uint64) -> np.uint64:
    low = (word & ~_TOPS) | _LOWER
    return at_least(low, 97) & ~at_least(low, 103) & ~word


@inlined
def token_mask(word: np.uint64) -> np.uint64:
    """Mask letters, digits, `_` and everything that is not ASCII."""
    low = word & ~_TOPS
    lower = low | _LOWER
    letters = at_least(lower, 97) & ~at_least(lower, 123)
    digits = at_least(low, 48) & ~at_least(low, 58)
    underscores = at_least(low, 95) & ~at_least(low, 96)
    return letters | digits | underscores | (word & _TOPS)


@inlined
def same_as(word: np.uint64, byte: int) -> np.uint64:
    """Mask the bytes equal to `byte`."""
    differs = word ^ (_ONES * np.uint64(byte))
    return ~((differs & ~_TOPS) + ~_TOPS | differs) & _TOPS


@inlined
def bits_of(mask: np.uint64) -> np.uint64:
    """Return a mask as eight bits, the first byte's lowest."""
    return ((mask >> np.uint64(7)) * np.uint64(0x0102040810204080)) >> np.uint64(56)


@inlined
def run_length(mask: np.uint64) -> np.int64:
    """Count the leading bytes that are in the mask."""
    gaps = (~mask & _TOPS) >> np.uint64(7)
    below = (gaps - np.uint64(1)) & ~gaps & _ONES
    return np.int64((below * _ONES) >> np.uint64(56))
