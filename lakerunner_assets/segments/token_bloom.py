"""Builds the token bloom of a segment from Arrow buffers.

The filter is filled at full size and folded in half while it stays at most half full, which gives the same
bits as building it at that size. Reading and the definition of token and hash are in
`resources/lake/tokens.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode.copying import first_set, set_eight_bits
from lakerunner_assets.decode.eight_bytes import bits_of, first_bytes, load_padded, run_length, token_mask
from lakerunner_assets.decode.fingerprint import string_buffers
from resources.arrays import Bytes
from resources.kernel import Integer, inlined, kernel, scanner
from resources.lake.tokens import MAX_BLOCKS, MAX_TOKEN_BYTES, MIX_1, MIX_2, MULTIPLIER, SALTS, TokenBloom

Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]

MAX_FILL = 0.5
_RECENT_BITS = 12
_RECENT = 1 << _RECENT_BITS
"""Hashes just seen, and as many short words: most words of a line were in the line before it."""
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_SALTS = np.array(SALTS, np.uint32)
_SALTS.flags.writeable = False
_MULTIPLIER, _MIX_1, _MIX_2 = np.uint64(MULTIPLIER), np.uint64(MIX_1), np.uint64(MIX_2)


def build(columns: Iterable[pa.Array]) -> TokenBloom:
    """The bloom of all tokens in text columns, and of the hex form of id columns."""
    builder = Builder()
    builder.add(columns)
    return builder.finished()


class Builder:
    """A bloom that is filled column by column; the order they come in does not matter."""

    def __init__(self) -> None:
        self._words = np.zeros(MAX_BLOCKS * 8, np.uint32)
        self._recent = np.zeros(2 * _RECENT, np.uint64)

    def add(self, columns: Iterable[pa.Array]) -> None:
        for column in columns:
            if pa.types.is_fixed_size_binary(column.type):
                ids = column.drop_null()
                width = column.type.byte_width
                raw = np.frombuffer(ids.buffers()[1] or b"", np.uint8)[
                    ids.offset * width : (ids.offset + len(ids)) * width
                ]
                add_hex_ids(raw, width, self._words, self._recent)
            else:
                add_tokens(*string_buffers(_texts(column)), self._words, self._recent)

    def finished(self) -> TokenBloom:
        return TokenBloom(memoryview(folded(self._words).tobytes()).cast("I"))


def _texts(column: pa.Array) -> pa.Array:
    """Each text once where that is known for free; nulls are no text."""
    if pa.types.is_dictionary(column.type):
        used = used_codes(column.indices.drop_null().to_numpy(), len(column.dictionary))
        return column.dictionary.filter(pa.array(used)).drop_null()
    return column.drop_null() if column.null_count else column


@kernel
def used_codes(codes: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.bool_]:
    used = np.zeros(size, np.bool_)
    for code in codes:
        used[code] = True
    return used


def folded(words: Words) -> Words:
    """The smallest filter with the same answers that is not more than half full."""
    while len(words) > 8:
        half = words[: len(words) // 2] | words[len(words) // 2 :]
        if np.bitwise_count(half).sum() > MAX_FILL * 32 * len(half):
            return words
        words = half
    return words


@inlined
def finished(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(33))) * _MIX_1
    value = (value ^ (value >> np.uint64(33))) * _MIX_2
    return value ^ (value >> np.uint64(33))


@scanner
def token_hash(text: Bytes, start: Integer, end: Integer) -> np.uint64:
    stop = min(end, start + MAX_TOKEN_BYTES)
    value = np.uint64(stop - start) * _MULTIPLIER
    position = start
    while position < stop:
        word = first_bytes(load_padded(text, position), min(8, stop - position))
        value = (value ^ word) * _MULTIPLIER
        value ^= value >> np.uint64(32)
        position += 8
    return finished(value)


@inlined
def short_hash(word: np.uint64, length: Integer) -> np.uint64:
    """`token_hash` of one word of up to eight bytes."""
    value = ((np.uint64(length) * _MULTIPLIER) ^ word) * _MULTIPLIER
    return finished(value ^ (value >> np.uint64(32)))


@inlined
def insert(value: np.uint64, words: Words, recent: Hashes) -> None:
    """Set the token's eight bits, unless it was just seen: log lines repeat their words."""
    place = value & np.uint64(_RECENT - 1)
    if recent[place] != value:
        recent[place] = value
        block = (value >> np.uint64(32)) & np.uint64(len(words) // 8 - 1)
        low = np.uint32(value & np.uint64(0xFFFFFFFF))
        set_eight_bits(words, np.int64(block) * 8, low, _SALTS)


@scanner
def add_tokens(offsets: npt.NDArray[np.int32], text: Bytes, words: Words, recent: Hashes) -> None:
    """64 bytes at a time: which of them are in tokens is known before the first token is hashed."""
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
                place = np.uint64(_RECENT) + (word * _MULTIPLIER >> np.uint64(64 - _RECENT_BITS))
                if recent[place] != word:
                    recent[place] = word
                    insert(short_hash(word, length), words, recent)
            base = after


@inlined
def token_bits(text: Bytes, base: Integer, end: Integer) -> np.uint64:
    """A bit for each of the 64 bytes from `base`: whether it is in a token and before `end`."""
    bits = np.uint64(0)
    size = min(np.int64(64), end - base)
    place = np.int64(0)
    while place < size:
        word_bits = bits_of(token_mask(load_padded(text, base + place)))
        bits |= word_bits << np.uint64(place)
        place += 8
    return bits if size == 64 else bits & ((np.uint64(1) << np.uint64(size)) - np.uint64(1))


@scanner
def add_long_token(text: Bytes, start: Integer, end: Integer, words: Words, recent: Hashes) -> Integer:
    """One token of 64 bytes or more; where it ends."""
    stop = start + 64
    length = np.int64(8)
    while length == 8 and stop < end:
        length = run_length(token_mask(load_padded(text, stop)))
        stop += length
    stop = min(stop, end)
    insert(token_hash(text, start, stop), words, recent)
    return stop


@kernel
def add_hex_ids(raw: Bytes, width: int, words: Words, recent: Hashes) -> None:
    """Ids of a multiple of four bytes, as the text that people write them in."""
    for start in range(0, len(raw), width):
        value = np.uint64(2 * width) * _MULTIPLIER
        for offset in range(0, width, 4):
            value = (value ^ hex_digits(raw, start + offset)) * _MULTIPLIER
            value ^= value >> np.uint64(32)
        insert(finished(value), words, recent)


@inlined
def hex_digits(raw: Bytes, position: Integer) -> np.uint64:
    """The eight hex digits of four bytes."""
    word = np.uint64(0)
    for index in range(4):
        byte = np.uint64(raw[np.uint64(position + index)])
        nibbles = (byte >> np.uint64(4)) | (byte & np.uint64(15)) << np.uint64(8)
        word |= nibbles << np.uint64(16 * index)
    letters = ((word + np.uint64(0x0606060606060606)) >> np.uint64(4)) & np.uint64(0x0101010101010101)
    return word + np.uint64(0x3030303030303030) + letters * np.uint64(39)
