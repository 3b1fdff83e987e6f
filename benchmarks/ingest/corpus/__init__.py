"""Seeded telemetry: the same bytes in every run, on every machine."""

from __future__ import annotations

from dataclasses import dataclass

START_NS = 1_768_392_000_000_000_000
"""A whole hour; records lie behind it, since everything is cut left-open."""
HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Raw objects and what is in them."""

    name: str
    objects: tuple[bytes, ...]
    rows: int
    """Log records, data points or spans."""
    samples: int = 0
    """Metrics: what a Prometheus-like store makes of the data points (a histogram is several series)."""
    content_type: str = "application/x-protobuf"

    @property
    def bytes(self) -> int:
        return sum(map(len, self.objects))


def even(count: int, parts: int) -> list[int]:
    """`count` dealt into `parts` whole numbers that differ by one at most.

    >>> even(10, 4)
    [2, 3, 2, 3]
    """
    return [count * (part + 1) // parts - count * part // parts for part in range(parts)]
