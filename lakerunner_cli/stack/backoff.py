"""How long to wait before a crashed child is started again."""

from __future__ import annotations

FIRST_S = 0.5
LONGEST_S = 10.0
CALM_S = 60.0


def delay(crashes_in_a_row: int) -> float:
    """0.5, 1, 2, 4, 8, 10, 10 … seconds.

    >>> [delay(n) for n in (1, 2, 5, 6, 60)]
    [0.5, 1.0, 8.0, 10.0, 10.0]
    """
    return min(LONGEST_S, FIRST_S * 2.0 ** min(crashes_in_a_row - 1, 10))


def crashes_in_a_row(before: int, lived_s: float) -> int:
    """A child that lived for a minute starts a new count."""
    return 1 if lived_s >= CALM_S else before + 1
