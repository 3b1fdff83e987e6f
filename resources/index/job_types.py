"""A query job is a statement that was handed over to Spark; its row in the index is its whole state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class JobState(StrEnum):
    DUE = "due"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNDER_WAY = frozenset({JobState.DUE, JobState.RUNNING})


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Bounds of how a job is driven."""

    lease_s: float = 15.0
    """Seconds without a heartbeat after which another driver takes a job over."""
    max_attempts: int = 3
    """Attempts that may be lost to a killed driver or a Spark that went away."""
    keep_s: float = 3600.0
    """Seconds for which a job and its result stay."""


@dataclass(frozen=True, slots=True)
class QueryJob:
    """A row of `query_job` as it was read."""

    job_id: str
    org: str
    statement: str
    state: JobState = JobState.DUE
    attempt: int = 0
    """Number of the claim; it fences off drivers that lost their lease."""
    progress: Mapping[str, float] = field(default_factory=dict)
    result: Mapping[str, object] | None = None
    error: str = ""
    error_code: str = ""
    age_s: float = 0.0
    """Seconds since it was asked for."""
    silent_s: float = 0.0
    """Seconds since a driver noticed it while it was due, or since the end of its lease while it runs."""
    expires_s: float = 0.0
    """Seconds until it is forgotten."""

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY
