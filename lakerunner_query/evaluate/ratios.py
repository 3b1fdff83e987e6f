"""`limit_ratio`: which series are in, by a number in [0, 1] that only their labels decide.

The number is Prometheus': xxHash64 of the labels as its default build keeps them, a length before each text.
"""

from __future__ import annotations

import numpy as np
import xxhash

from lakerunner_query.vectors.vector import Labels
from resources.arrays import Doubles, Flags

_LARGEST = float(2**64 - 1)


def places(labels: list[Labels]) -> Doubles:
    return np.array([xxhash.xxh64_intdigest(_packed(one)) / _LARGEST for one in labels], np.float64)


def within(places: Doubles, ratios: Doubles) -> Flags:
    """(series, steps): a negative ratio takes the upper end, so that r and r - 1 share no series."""
    place, ratio = places[:, np.newaxis], np.clip(ratios, -1.0, 1.0)[np.newaxis, :]
    found: Flags = np.where(ratio >= 0, place < ratio, place >= 1.0 + ratio) & (ratio != 0)
    return found


def _packed(labels: Labels) -> bytes:
    texts = [text.encode() for label in labels for text in label]
    return b"".join(_length(len(text)) + text for text in texts)


def _length(size: int) -> bytes:
    return bytes([size]) if size < 255 else b"\xff" + size.to_bytes(3, "little")
