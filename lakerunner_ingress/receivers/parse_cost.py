"""What parsing a body may take in memory, estimated from above before it is done.

Two bytes of protobuf (`0a 00`) can stand for a message of a hundred, and two of JSON (`1,`) for a number of
thirty; a body full of them is far larger once parsed. Ordinary bodies cost one to three times their size.
"""

from __future__ import annotations

import numpy as np

PER_MESSAGE = 48
"""Of a protobuf field of less than `SHORT` bytes; longer ones pay for themselves with their length."""
SHORT = 8
PER_OBJECT, PER_VALUE = 64, 16
"""Of a JSON object, and of any member or element."""
FREE_BYTES = 8 << 20
"""So much is not counted: only two bodies are parsed at a time."""
_PIECE = 1 << 20


def parse_cost(data: bytes) -> int:
    """Of whichever of the two it is: the other estimate is small then."""
    return max(0, max(json_cost(data), protobuf_cost(data)) - FREE_BYTES)


def json_cost(data: bytes) -> int:
    return PER_OBJECT * (data.count(b"{") + data.count(b"[")) + PER_VALUE * data.count(b",")


def protobuf_cost(data: bytes) -> int:
    """Counts what looks like the tag of a text or message with a small length behind it."""
    found = 0
    bytes_ = np.frombuffer(data, np.uint8)
    for start in range(0, max(0, len(bytes_) - 1), _PIECE):
        piece = bytes_[start : start + _PIECE + 1]
        found += int(np.count_nonzero((piece[:-1] & 7 == 2) & (piece[1:] < SHORT)))
    return PER_MESSAGE * found
