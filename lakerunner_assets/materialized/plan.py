"""A pure decision tells which hours are derived anew, and from which segments.

spans 12:00 v4, derived v7 from v3            →  derive 12:00 again, if it is still v7 then
spans 12:00 v4, derived v8 from v4, not due   →  nothing to do, if it was derived by the rules of now
spans 12:00 deleted because of their age      →  refused: half of its rows are gone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakerunner_assets.materialized.rule_cells import RuleTask
from resources.index.rule_types import RuleHour
from resources.index.types import Partition, Segment, TierView
from resources.lake.frequency import AS_SENT
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, MATERIALIZED_MS
from resources.lake.timecut import HOUR_NS


@dataclass(frozen=True, slots=True)
class Wanted:
    """Metrics that the hours of one organisation and signal are to have."""

    rules: tuple[RuleTask, ...]
    revision: int
    """Revision of the rules of the organisation that this was read from."""
    with_preset: bool
    most_series: int
    """Series that a rule may have in an hour."""
    origins: tuple[str, ...]
    """Names that the origins of the segments begin with that are swapped out."""
    built: tuple[RuleHour, ...]
    """Rules that the hours were derived by so far."""

    @property
    def is_nothing(self) -> bool:
        return not (self.rules or self.with_preset or self.built)

    def replaces(self, origin: str) -> bool:
        """Tell if a segment of this origin is swapped out."""
        return origin.partition("@")[0] in self.origins

    def is_built(self, hour_ns: int) -> bool:
        """Tell if the hour was derived by exactly these rules."""
        found = {(one.rule_id, one.version) for one in self.built if one.hour_ns == hour_ns}
        return found == {(rule.rule_id, rule.version) for rule in self.rules}


@dataclass(frozen=True, slots=True)
class Derivation:
    """One hour to be derived."""

    org: str
    signal: Signal
    hour_ns: int
    expected_version: int
    built_from: Mapping[int, int]
    """Versions of what was sent in the hour, and in its neighbours if it is derived from them, too."""
    own: tuple[Segment, ...]
    """Segments with records of the hour."""
    beside: tuple[Segment, ...]
    """Segments of the neighbours with records near it."""
    source_bytes: int
    retire: tuple[str, ...]
    """Ids of the derived segments that are swapped out."""


@dataclass(frozen=True, slots=True)
class HourPlan:
    todo: tuple[Derivation, ...] = ()
    current: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    """Hours that never had a record."""
    refused: tuple[tuple[int, str], ...] = ()


def plan_hours(
    org: str,
    signal: Signal,
    hours: Sequence[int],
    view: TierView,
    metrics: TierView,
    wanted: Wanted,
    *,
    force: bool,
) -> HourPlan:
    """Plan the hours; the view holds their neighbours, too."""
    versions = {p.start_ns: p for p in view.partitions if p.frequency_ms == AS_SENT and p.sent_version > 0}
    derived = {p.start_ns: p for p in view.partitions if p.frequency_ms == MATERIALIZED_MS}
    expired = {p.start_ns for p in metrics.partitions if p.expired}
    todo: list[Derivation] = []
    current: list[int] = []
    empty: list[int] = []
    refused: list[tuple[int, str]] = []
    for hour in sorted(hours):
        own = derived.get(hour) or Partition(org, signal, MATERIALIZED_MS, hour, 0, {}, 0)
        source = versions.get(hour)
        if source is None and own.version == 0:
            empty.append(hour)
        elif source is not None and source.expired:
            refused.append((hour, "its records were deleted for their age"))
        elif hour in expired:
            refused.append((hour, "the metrics of this hour were deleted for their age"))
        elif not force and not own.due and _is_current(own, source, wanted):
            current.append(hour)
        else:
            beside = HOUR_NS if FACTS[signal].margin_ns else 0
            read = [versions.get(near) for near in dict.fromkeys((hour - beside, hour, hour + beside))]
            built_from = {p.start_ns: p.sent_version for p in read if p is not None}
            mine = [s for s in metrics.segments if s.hour_ns == hour and wanted.replaces(s.origin)]
            todo.append(_derivation(own, built_from, view.segments, tuple(s.segment_id for s in mine)))
    return HourPlan(tuple(todo), tuple(current), tuple(empty), tuple(refused))


def _is_current(own: Partition, source: Partition | None, wanted: Wanted) -> bool:
    read = own.built_from.get(own.start_ns, 0) if own.version else -1
    return read == (source.sent_version if source else 0) and wanted.is_built(own.start_ns)


def _derivation(
    own: Partition, versions: Mapping[int, int], segments: Sequence[Segment], retire: tuple[str, ...]
) -> Derivation:
    hour, end = own.start_ns, own.start_ns + HOUR_NS
    margin_ns = FACTS[own.signal].margin_ns
    sent = [s for s in segments if s.frequency_ms == AS_SENT and not s.origin]
    mine = [s for s in sent if s.max_ns > hour and s.min_ns <= end]  # a sealed day lies over its hours
    others = [s for s in sent if s.max_ns <= hour or s.min_ns > end]
    beside = [s for s in others if s.max_ns > hour - margin_ns and s.min_ns <= end + margin_ns]
    return Derivation(
        own.org,
        own.signal,
        hour,
        own.version,
        versions,
        tuple(mine),
        tuple(beside),
        sum(s.bytes for s in (*mine, *beside)),
        retire,
    )
