"""Builds the token bloom of a segment from Arrow buffers.

The filter is filled at full size and folded in half while it stays at most half full, which gives the same
bits as building it at that size. Reading and the definition of token and hash are in
`resources/lake/tokens.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_assets.decode.eight_bytes import first_bytes, load_padded, run_length, token_mask
from lakerunner_assets.decode.fingerprint import string_buffers
from lakerunner_assets.decode.kernel import Integer, inlined, kernel, scanner
from lakerunner_assets.decode.wire import Bytes
from resources.lake.tokens import MAX_BLOCKS, MAX_TOKEN_BYTES, MIX_1, MIX_2, MULTIPLIER, SALTS, TokenBloom

Words = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]

MAX_FILL = 0.5
_RECENT = 1 << 12
_MULTIPLIER, _MIX_1, _MIX_2 = np.uint64(MULTIPLIER), np.uint64(MIX_1), np.uint64(MIX_2)


def build(columns: Iterator[pa.Array]) -> TokenBloom:
    """The bloom of all tokens in text columns, and of the hex form of id columns."""
    words = np.zeros(MAX_BLOCKS * 8, np.uint32)
    recent = np.zeros(_RECENT, np.uint64)
    for column in columns:
        if pa.types.is_fixed_size_binary(column.type):
            ids = column.drop_null()
            width = column.type.byte_width
            raw = np.frombuffer(ids.buffers()[1] or b"", np.uint8)[
                ids.offset * width : (ids.offset + len(ids)) * width
            ]
            add_hex_ids(raw, width, words, recent)
        else:
            add_tokens(*string_buffers(_texts(column)), words, recent)
    return TokenBloom(memoryview(folded(words).tobytes()).cast("I"))


def _texts(column: pa.Array) -> pa.Array:
    """Each text once where that is known for free; nulls are no text."""
    if pa.types.is_dictionary(column.type):
        used = np.bincount(column.indices.drop_null().to_numpy(), minlength=len(column.dictionary))
        return column.dictionary.filter(pa.array(used > 0)).drop_null()
    return column.drop_null() if column.null_count else column


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
def insert(value: np.uint64, words: Words, recent: Hashes) -> None:
    """Set the token's eight bits, unless it was just seen: log lines repeat their words."""
    place = value & np.uint64(_RECENT - 1)
    if recent[place] != value:
        recent[place] = value
        block = (value >> np.uint64(32)) & np.uint64(len(words) // 8 - 1)
        low = np.uint32(value & np.uint64(0xFFFFFFFF))
        for index in range(8):
            bit = np.uint32(low * np.uint32(SALTS[index])) >> np.uint32(27)
            words[block * np.uint64(8) + np.uint64(index)] |= np.uint32(1) << bit


@scanner
def add_tokens(offsets: npt.NDArray[np.int32], text: Bytes, words: Words, recent: Hashes) -> None:
    for row in range(len(offsets) - 1):
        position = np.int64(offsets[row])
        end = np.int64(offsets[row + 1])
        while position < end:
            inside = token_mask(load_padded(text, position))
            length = run_length(inside)
            if length == 0:
                position += run_length(~inside)
                continue
            stop = position + length
            while length == 8 and stop < end:
                length = run_length(token_mask(load_padded(text, stop)))
                stop += length
            stop = min(stop, end)
            insert(token_hash(text, position, stop), words, recent)
            position = stop + 1  # what ends a token is not in one


@kernel
def add_hex_ids(raw: Bytes, width: int, words: Words, recent: Hashes) -> None:
    text = np.empty(width * 2, np.uint8)
    for start in range(0, len(raw), width):
        for index in range(width):
            byte = raw[np.uint64(start + index)]
            high, low = byte >> 4, byte & 15
            text[np.uint64(2 * index)] = high + (48 if high < 10 else 87)
            text[np.uint64(2 * index + 1)] = low + (48 if low < 10 else 87)
        insert(token_hash(text, 0, 2 * width), words, recent)
