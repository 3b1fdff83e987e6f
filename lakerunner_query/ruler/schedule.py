"""Times at which groups are evaluated, and the processes that evaluate them; pure.

Groups of one interval are spread over it: each has an offset of its own, which no process changes. A group
belongs to the live process with the highest score for it, so that a process which comes or goes moves only
the groups that are its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BUCKET_MS = 10_000
"""Width of the buckets of derived metrics, which answer rules that are evaluated at their edges."""
GRACE_MS = 2_000
"""Milliseconds by which a process notices late that data is there."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Evaluation times `offset + k x interval`."""

    interval_ms: int
    offset_ms: int

    @classmethod
    def of(cls, identity: str, interval_ms: int) -> Slots:
        """Return the times of a group, whose offset follows from its identity.

        As many as can be are multiples of ten seconds, at which derived metrics can answer.

        >>> Slots.of("acme/shop/errors", 60_000).offset_ms % BUCKET_MS
        0
        """
        grain_ms = math.gcd(interval_ms, BUCKET_MS)
        return cls(interval_ms, _score(identity) % (interval_ms // grain_ms) * grain_ms)

    def latest(self, at_ms: int) -> int:
        """Return the last evaluation time up to a moment.

        >>> Slots(60_000, 7_000).latest(100_000)
        67000
        """
        return (at_ms - self.offset_ms) // self.interval_ms * self.interval_ms + self.offset_ms

    def missed(self, before_ms: int, now_ms: int) -> int:
        """Count the evaluation times strictly between two of them.

        >>> Slots(10, 0).missed(20, 50)
        2
        """
        return max(0, (self.latest(now_ms) - self.latest(before_ms)) // self.interval_ms - 1)


def share(groups: Mapping[int, str], owners: Sequence[str], owner: str) -> set[int]:
    """Return the groups (by id, with their identities) that belong to one of the live processes."""
    return {
        rule_id
        for rule_id, identity in groups.items()
        if max(owners, key=lambda one: _score(f"{one}/{identity}"), default=owner) == owner
    }


def next_time(slots: Slots, until_ms: int, before_ms: int | None, clock_ms: int, waited_ms: int) -> int:
    """Return the time to evaluate next, with data that is complete up to `until_ms`.

    Times that waited for data, by up to `waited_ms`, are made up for one by one. A process that falls behind
    because it is slow leaves times out.

    >>> slots = Slots(10_000, 0)
    >>> next_time(slots, 93_000, 50_000, 98_000, 40_000), next_time(slots, 93_000, 50_000, 98_000, 5_000)
    (60000, 90000)
    """
    latest = slots.latest(until_ms)
    if before_ms is None:
        return latest
    following = slots.latest(before_ms) + slots.interval_ms
    is_late_by_data = clock_ms - following <= waited_ms + GRACE_MS
    return following if following < latest and is_late_by_data else latest


def _score(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
