"""Pure decisions bound how much of each organisation is cooked, and when reading pauses.

An organisation with `ingest_bytes_per_minute` gets that much into batches in any minute; the rest stays
registered and waits. An object larger than a whole share goes as soon as anything of one is left.

    limit 100 a minute, 70 used, waiting [20, 20, 5]   →   [20]  (the order is kept, nothing overtakes)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from resources.index.types import PendingObject
from resources.lake.options import OrgOptions

WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """Bytes that an organisation with a limit may still have batched in this minute."""

    limit: int
    used: int

    @property
    def left(self) -> int:
        return self.limit - self.used


@dataclass(frozen=True, slots=True)
class Quotas:
    """Allowances of organisations with a limit."""

    allowances: Mapping[str, Allowance] = field(default_factory=dict)

    def exhausted(self) -> list[str]:
        """Return organisations whose objects need not even be read."""
        return sorted(org for org, allowance in self.allowances.items() if allowance.left <= 0)

    def within(self, pending: Sequence[PendingObject]) -> list[PendingObject]:
        """Return the objects that may go now, in their order."""
        left = {org: allowance.left for org, allowance in self.allowances.items()}
        chosen: list[PendingObject] = []
        for obj in pending:
            if obj.org in left:
                fits = obj.size <= left[obj.org]
                never_fits = obj.size > self.allowances[obj.org].limit
                if not fits and not (never_fits and left[obj.org] > 0):
                    left[obj.org] = 0
                    continue
                left[obj.org] -= obj.size
            chosen.append(obj)
        return chosen


def quotas(options: Mapping[str, OrgOptions], batched: Mapping[str, int]) -> Quotas:
    """Compute the allowances; `batched` are bytes put into batches within the window."""
    limits = {org: found.ingest_bytes_per_minute for org, found in options.items()}
    return Quotas(
        {org: Allowance(limit, batched.get(org, 0)) for org, limit in limits.items() if limit is not None}
    )


def messages_to_read(pending_bytes: int, max_pending_bytes: int, max_messages: int) -> int:
    """Return 0 while too much is pending: what is not read stays in Kafka, visible as lag."""
    return 0 if pending_bytes >= max_pending_bytes else max_messages
