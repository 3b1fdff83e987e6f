"""Envelopes: by content, bounded, and honest about where they break."""

from __future__ import annotations

import gzip

import pytest
import zstandard

from lakerunner_assets.decode.errors import EmptyObjectError, MalformedError, TooLargeError
from lakerunner_assets.decode.payload import decompress

PLAIN = bytes(range(256)) * 40_000
GZ = gzip.compress(PLAIN, 1)
ZST = zstandard.compress(PLAIN)


@pytest.mark.parametrize(
    "data", [PLAIN, GZ, ZST, GZ[:0] + gzip.compress(PLAIN[:7]) + gzip.compress(PLAIN[7:])]
)
def test_unfolds(data: bytes) -> None:
    assert decompress(data, len(PLAIN)) == PLAIN


def test_two_zstd_frames_are_one_payload() -> None:
    assert decompress(zstandard.compress(b"ab") + zstandard.compress(b"cd"), 10) == b"abcd"


@pytest.mark.parametrize("data", [PLAIN, GZ, ZST])
def test_bound(data: bytes) -> None:
    with pytest.raises(TooLargeError):
        decompress(data, len(PLAIN) - 1)


@pytest.mark.parametrize("data", [GZ[:-9], GZ[: len(GZ) // 2], GZ[:20], ZST[:-1], ZST[: len(ZST) // 2]])
def test_truncated_says_where(data: bytes) -> None:
    with pytest.raises(MalformedError, match="after") as caught:
        decompress(data, 1 << 30)
    assert 0 <= caught.value.offset <= len(PLAIN)


@pytest.mark.parametrize("at", [30, len(GZ) // 2, len(GZ) - 6])
def test_damaged_gzip(at: int) -> None:
    broken = GZ[:at] + bytes([GZ[at] ^ 0xFF]) + GZ[at + 1 :]
    with pytest.raises(MalformedError):
        decompress(broken, 1 << 30)


def test_empty() -> None:
    with pytest.raises(EmptyObjectError):
        decompress(b"", 1)
