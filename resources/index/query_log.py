"""The query log counts what was asked, by organisation, day and normal form.

AskedQuery("acme", 1767225600000000000, "logql", 'sum(rate({app="web"} |= "error"[5m]))', True, asked=120, …)

It holds queries that derived metrics could serve. No text is cut short: one that is too long is not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """Query of an organisation, and what its answers took."""

    org: str
    day_ns: int
    """Start of the day in UTC on which it was asked."""
    language: str
    query: str
    """Normal form of its text."""
    is_aligned: bool
    """Its steps and their distances are multiples of ten seconds."""
    asked: int = 1
    served: int = 0
    """Times that derived metrics answered it, at least in part; they count nothing else."""
    seconds: float = 0.0
    """Sum of the time that answers took."""
    read_bytes: float = 0.0
    """Sum of the bytes that answers were made from, as the index estimates them."""
    segments: int = 0
    """Sum of the segments that answers were made from."""
    window_s: float = 0.0
    """Sum of the event time that answers were made from."""
    series: int = 0
    """Most series of an answer."""
    last_ns: int = 0
    """Time at which it was asked last."""

    @property
    def identity(self) -> str:
        """Return a key that is as short for long texts."""
        key = f"{self.language}\0{int(self.is_aligned)}\0{self.query}"
        return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]


def add_up(queries: Iterable[AskedQuery]) -> list[AskedQuery]:
    """Add up queries of the same organisation, day and identity; return them by these."""
    found: dict[tuple[str, int, str], AskedQuery] = {}
    for one in queries:
        key = (one.org, one.day_ns, one.identity)
        known = found.get(key)
        found[key] = one if known is None else sum_of(known, one)
    return [found[key] for key in sorted(found)]


def sum_of(left: AskedQuery, right: AskedQuery) -> AskedQuery:
    return replace(
        left,
        day_ns=min(left.day_ns, right.day_ns),
        asked=left.asked + right.asked,
        served=left.served + right.served,
        seconds=left.seconds + right.seconds,
        read_bytes=left.read_bytes + right.read_bytes,
        segments=left.segments + right.segments,
        window_s=left.window_s + right.window_s,
        series=max(left.series, right.series),
        last_ns=max(left.last_ns, right.last_ns),
    )


class QueryLogIndex(Protocol):
    """Query log as the query side writes and reads it."""

    def add_asked(self, queries: Sequence[AskedQuery], most: int) -> int:
        """Add to what was asked; return how many queries there was no room for.

        An organisation has room for about `most` different queries a day; those that it has go on to count.
        """

    def asked_queries(self, org: str, since_ns: int, most: int) -> list[AskedQuery]:
        """List what was asked on days from `since_ns` on, added up over the days.

        At most so many, those that took the most time; `day_ns` is that of the first day.
        """
