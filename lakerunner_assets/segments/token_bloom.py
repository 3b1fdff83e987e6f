"""This module builds the token bloom of a segment from Arrow buffers.

The filter is filled at full size and fold in half while it stays at most half full, which gives the same
bits as building it at that size. Reading and the definition of token and hash are in
`resources/lake/tokens.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.text import string_buffers
from lakerunner_assets.segments.token_bloom_kernels import RECENT, Words, add_hex_ids, add_tokens, used_codes
from resources.lake.tokens import MAX_BLOCKS, TokenBloom

MAX_FILL = 0.5


def build(columns: Iterable[pa.Array]) -> TokenBloom:
    """Build the bloom of the tokens of texts and of the hex form of ids."""
    builder = Builder()
    builder.add(columns)
    return builder.finish()


class Builder:
    """A bloom that is filled column by column, in any order."""

    def __init__(self) -> None:
        self._words = np.zeros(MAX_BLOCKS * 8, np.uint32)
        self._recent = np.zeros(2 * RECENT, np.uint64)

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

    def finish(self) -> TokenBloom:
        return TokenBloom(memoryview(fold(self._words).tobytes()).cast("I"))


def _texts(column: pa.Array) -> pa.Array:
    """Return each text once where that is known for free; nulls are no text."""
    if pa.types.is_dictionary(column.type):
        used = used_codes(column.indices.drop_null().to_numpy(), len(column.dictionary))
        return column.dictionary.filter(pa.array(used)).drop_null()
    return column.drop_null() if column.null_count else column


def fold(words: Words) -> Words:
    """Return the smallest filter with the same answers that is at most half full."""
    while len(words) > 8:
        half = words[: len(words) // 2] | words[len(words) // 2 :]
        if np.bitwise_count(half).sum() > MAX_FILL * 32 * len(half):
            return words
        words = half
    return words
