"""The natural order of names: runs of digits compare as numbers.

>>> is_before("node2", "node10"), is_before("4m5", "4m600"), is_before("a", "a1")
(True, True, True)
"""

from __future__ import annotations

import re
from itertools import zip_longest

_PIECES = re.compile(r"\d+|\D+", re.ASCII)
_LARGEST = 2**63


def is_before(one: str, other: str) -> bool:
    """Piece by piece; numbers before texts, of equal numbers the one with more leading zeros."""
    for mine, others in zip_longest(_PIECES.findall(one), _PIECES.findall(other)):
        if mine is None or others is None:
            return mine is None
        if mine == others:
            continue
        if _is_number(mine) and _is_number(others):
            if int(mine) == int(others):
                return len(mine) > len(others)
            return int(mine) < int(others)
        return bool(mine < others)
    return False


def _is_number(piece: str) -> bool:
    return piece[0].isdigit() and piece.isascii() and int(piece) < _LARGEST
