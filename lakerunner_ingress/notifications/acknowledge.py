"""Step 4: tell the sender what became of each record; only after everything is durable."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from lakerunner_ingress.notifications.validate import Validated


@dataclass(frozen=True, slots=True)
class Rejection:
    index: int
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    accepted: int
    ignored: int
    rejected: tuple[Rejection, ...]
    note: str | UnsetType = UNSET
    """Left out of the answer unless there is something to say."""

    @property
    def http_status(self) -> int:
        """400 only if every record was rejected: a sender retries on it, and must not for one in many."""
        return 400 if self.rejected and not (self.accepted or self.ignored) else 202


def acknowledge(validated: Validated, note: str = "") -> Acknowledgement:
    rejections = tuple(Rejection(r.index, r.key, r.reason) for r in validated.rejected)
    return Acknowledgement(len(validated.accepted), validated.ignored, rejections, note or UNSET)
