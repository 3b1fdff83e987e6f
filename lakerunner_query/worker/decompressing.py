"""Pages decompressed with what each thread keeps for it: setting that up takes longer than a small page."""

from __future__ import annotations

import threading

import numpy as np
import zstandard

from resources.arrays import Bytes

CODECS = {"ZSTD": "zstd", "UNCOMPRESSED": None}
"""As Parquet names them, and as they are named here."""


class _Kept(threading.local):
    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_kept = _Kept()


def decompressed(data: Bytes, size: int, codec: str | None) -> Bytes:
    """The bytes of a page, of which there must be so many."""
    if codec is None:
        return data
    try:
        if zstandard.frame_content_size(data.data) != size:  # before there is room for them
            raise ValueError(f"a page of {size} bytes whose compressed form is of another size")
        return np.frombuffer(_kept.zstd.decompress(data.data, max_output_size=size), np.uint8)
    except zstandard.ZstdError as error:
        raise ValueError(f"a damaged page: {error}") from error
