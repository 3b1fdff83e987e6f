"""Rules of an organisation, as the index keeps them: one row per thing that changes as a whole.

A group of recording and alert rules is one row, a derived metric is another. Every change makes a version;
versions are never edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from resources.lake.layout import Signal


class RuleKind(StrEnum):
    GROUP = "group"  # a group of recording and alert rules
    DERIVED = "derived"  # a derived metric


@dataclass(frozen=True, slots=True)
class StoredRule:
    """Newest version of a rule."""

    rule_id: int
    org: str
    kind: RuleKind
    namespace: str
    """Namespace of a group, as the ruler APIs name it (a file); empty for derived metrics."""
    name: str
    """Name of the group, or of the derived metric."""
    version: int
    document: Mapping[str, object] = field(hash=False)
    """The rule as JSON, see `lakerunner_query/rules/catalog.py`."""
    created_at_ns: int
    """Time of the first version."""
    updated_at_ns: int
    """Time of this version."""
    retired: bool = False
    """True once it was deleted; only the history shows such rules."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All live rules of an organisation, ordered by kind, namespace and name, as of one moment."""

    revision: int
    """Grows with every change of the organisation's rules; 0: there never was one."""
    rules: tuple[StoredRule, ...]


@dataclass(frozen=True, slots=True)
class PutRule:
    """A rule to be added or changed; nothing happens where the document is the same."""

    kind: RuleKind
    namespace: str
    name: str
    document: Mapping[str, object] = field(hash=False)


@dataclass(frozen=True, slots=True)
class DropRule:
    """A rule to be retired."""

    kind: RuleKind
    namespace: str
    name: str


RuleChange = PutRule | DropRule


class RulesChangedError(RuntimeError):
    """Somebody else changed the rules of the organisation since they were read; nothing was changed."""

    def __init__(self, org: str, expected: int, found: int) -> None:
        super().__init__(
            f"the rules of {org} are at revision {found}, expected {expected}: read them and try again"
        )


@dataclass(frozen=True, slots=True)
class RecordedFrom:
    """An hour of recorded metrics, and what it was recorded from: itself, and hours before it."""

    start_ns: int
    expected_version: int
    """Version when the hour was planned; 0 for one that never was recorded."""
    built_from: Mapping[int, int] = field(hash=False)
    """Versions by hour as read when it was planned, as `recorded_sources` tells them."""
    signals: tuple[Signal, ...]
    """Signals that rules read."""
    hours_back: int
    """Hours before its own that the hour is recorded from."""


@dataclass(frozen=True, slots=True)
class RuleHour:
    """Rule by which the metrics of an hour were derived."""

    hour_ns: int
    rule_id: int
    version: int
    source_version: int
    """`Partition.sent_version` of the hour that was read."""
    eligible: bool
    """False where the metric may not stand for its source: labels overflowed, or an event had no value."""
    rows: int
    """Samples of the rule in this hour."""
    errors: int = 0
    """Events with an error, or without a number."""
    refusals: tuple[str, ...] = ()
    """All other reasons why it is not eligible."""


@dataclass(frozen=True, slots=True)
class CoverageQuery:
    """Question in which hours of `(start_ns, end_ns]` a derived metric may not stand for its source."""

    org: str
    signal: Signal
    """Signal that the metrics are derived from."""
    rules: tuple[tuple[int, int], ...]
    """Rules by id and version."""
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class RuleGaps:
    """Hours in which a rule must not be used, although its source may hold records.

    The hour was not derived by this version, or not from the records that are there now, or records were
    deleted for their age, or labels overflowed a limit. All other hours are covered.
    """

    rule_id: int
    hours: tuple[int, ...]
    """Starts of hours, ascending."""
