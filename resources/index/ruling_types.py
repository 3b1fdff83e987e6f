"""Groups of alert rules as `ruler` processes hold them, and the notifications they leave behind.

A process beats for itself. A group that it owns is its own for as long as its lease lasts, and afterwards
until somebody else claims it; the token of the claim fences off whatever the old owner still writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from resources.lake.layout import Signal


class AlertState(StrEnum):
    """State of an alert, as the history keeps it."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The last evaluation of a group, as it was stored; a fresh one was never evaluated."""

    rule_id: int
    org: str
    owner: str = ""
    token: int = 0
    """Number of the claim."""
    version: int = 0
    """Version of the rules that were evaluated."""
    evaluated_ms: int = 0
    """Time that was evaluated; 0: none yet."""
    finished_s: float = 0.0
    """Unix time at which the evaluation was stored."""
    duration_s: float = 0.0
    delay_s: float = 0.0
    """Seconds between the time that was evaluated and the clock."""
    missed: int = 0
    """Evaluations that were due and did not take place."""
    error: str = ""
    state: Mapping[str, object] = field(default_factory=dict, hash=False)
    """State of rules and alerts, see `lakerunner_query/rules/evaluation.py`."""
    checked_ms: int = 0
    """Time of publication up to which changed records were looked at; written by `write_check` alone."""


@dataclass(frozen=True, slots=True)
class AlertChange:
    """A change of the state of one alert."""

    rule_id: int
    alert: str
    labels: Mapping[str, str] = field(hash=False)
    state: AlertState
    value: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification for one receiver."""

    receiver: str
    identity: str
    """Name of what it says: a later notice of the same name replaces one that still waits."""
    body: Mapping[str, object] = field(hash=False)


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A notification that somebody claimed to send it."""

    notice_id: int
    revision: int
    org: str
    body: Mapping[str, object] = field(hash=False)
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class WaitingNotices:
    """Notifications that one receiver has yet to take."""

    receiver: str
    waiting: int
    oldest_s: float
    attempts: int
    """Most failed attempts of one of them."""
    error: str
    """Reason of the last failed attempt."""


@dataclass(frozen=True, slots=True)
class Freshness:
    """Seconds for which the oldest data that queries do not see yet has waited."""

    org: str
    seconds: float
    derived_s: float
    """Seconds for which metrics that are derived from data have waited, or the data itself."""


@dataclass(frozen=True, slots=True)
class SealedSamples:
    """Samples of an organisation that go into one raw object, which has the name of the seal."""

    seal: str
    org: str
    sealed_ns: int
    parts: tuple[bytes, ...]
    """Messages of remote write, one per evaluation; they may stand one after the other."""


@dataclass(frozen=True, slots=True)
class ChangedInput:
    """Records of an interval (both inclusive) that a publication added."""

    input_id: int
    signal: Signal
    min_ns: int
    max_ns: int
    metric_names: tuple[str, ...]
    """Metrics among them; none: any."""
    published_ms: int


class Verdict(StrEnum):
    """Difference between what an alert did and what it would have done."""

    WOULD_HAVE_FIRED = "would_have_fired"
    WOULD_NOT_HAVE_FIRED = "would_not_have_fired"


@dataclass(frozen=True, slots=True)
class AlertCorrection:
    """Evaluations (both inclusive) at which an alert was decided wrongly, for lack of late data."""

    rule_id: int
    alert: str
    labels: Mapping[str, str] = field(hash=False)
    verdict: Verdict
    from_ms: int
    to_ms: int
    value: str
    """First value that the alert would have had; if it would not have fired, empty."""
    found_ms: int


@dataclass(frozen=True, slots=True)
class RecordedOutcome:
    """Result of a recording rule in the newest hour that was recorded."""

    group: str
    record: str
    hour_ns: int
    error: str = ""
    at_ms: int = 0
    """Time on the clock; the index sets it."""


@dataclass(frozen=True, slots=True)
class RecordedState:
    """Results of the recording rules of an organisation, and whether hours wait to be recorded."""

    behind_s: float = 0.0
    """Seconds for which an hour has been due to be recorded; 0: none is."""
    outcomes: tuple[RecordedOutcome, ...] = ()
