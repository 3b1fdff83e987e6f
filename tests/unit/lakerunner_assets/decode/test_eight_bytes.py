"""The arithmetic on eight bytes at once against one byte at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.eight_bytes_kernels import (
    digit_mask,
    hex_letter_mask,
    load_padded,
    run_length,
    token_mask,
)
from lakerunner_assets.decode.memory_kernels import copy_bytes, store_word
from resources.arrays import Bytes
from resources.kernel import kernel, scanner

BORDERS = st.sampled_from(list(b"\x00/09:@AFGZ[^_`afgz{\x7f\x80\xff"))


@scanner
def masks(data: Bytes, position: int) -> tuple[np.uint64, np.uint64, np.uint64, np.int64]:
    word = load_padded(data, position)
    inside = token_mask(word)
    return inside, digit_mask(word), hex_letter_mask(word), run_length(inside)


@kernel
def copied(source: Bytes, start: int, length: int, size: int) -> Bytes:
    target = np.zeros(size, np.uint8)
    copy_bytes(target, 0, source, start, length)
    return target


@kernel
def stored(at: int, size: int) -> Bytes:
    target = np.zeros(size, np.uint8)
    store_word(target, at, np.uint64(0x0807060504030201))
    return target


@given(st.lists(BORDERS | st.integers(0, 255), min_size=1, max_size=12).map(bytes))
@settings(deadline=None)
def test_masks_and_runs(text: bytes) -> None:
    inside, digits, letters, length = masks(np.frombuffer(text, np.uint8), 0)
    seen = text[:8].ljust(8, b"\0")

    def flags(mask: int) -> list[bool]:
        return [bool(int(mask) >> (8 * index + 7) & 1) for index in range(8)]

    tokens = [byte >= 128 or chr(byte).isalnum() or byte == 95 for byte in seen]
    assert flags(inside) == tokens
    assert flags(digits) == [byte in b"0123456789" for byte in seen]
    assert flags(letters) == [byte in b"abcdefABCDEF" for byte in seen]
    assert length == [*tokens, False].index(False)


def test_bytes_move_only_within_their_arrays() -> None:
    source = np.arange(10, dtype=np.uint8)
    assert copied(source, 7, 3, 3).tolist() == [7, 8, 9]
    assert stored(1, 9).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    for start, length, size in ((8, 3, 5), (-1, 1, 5), (0, -1, 5), (0, 4, 3)):
        with pytest.raises(IndexError):
            copied(source, start, length, size)
    for at in (-1, 2):
        with pytest.raises(IndexError):
            stored(at, 9)
