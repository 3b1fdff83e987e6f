"""Step 4: tell the sender what became of each record; only after everything is durable."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def http_status(self) -> int:
        """400 only if every record was rejected: a sender retries on it, and must not for one in many."""
        return 400 if self.rejected and not (self.accepted or self.ignored) else 202


def acknowledge(validated: Validated) -> Acknowledgement:
    rejections = tuple(Rejection(r.index, r.key, r.reason) for r in validated.rejected)
    return Acknowledgement(len(validated.accepted), validated.ignored, rejections)
