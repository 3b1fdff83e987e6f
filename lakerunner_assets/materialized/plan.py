"""A pure decision tells which hours are derived anew, and from which segments.

spans 12:00 v4, derived v7 from v3            →  derive 12:00 again, if it is still v7 then
spans 12:00 v4, derived v8 from v4, not due   →  nothing to do, if it was derived by the rules of now
spans 12:00 deleted because of their age      →  refused: half of its rows are gone
logs 12:00 only grew since they were counted  →  derive what was added, and add it to what stands
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from lakerunner_assets.materialized.rule_cells import RuleTask
from resources.index.dependents import source_window
from resources.index.rule_types import RuleHour
from resources.index.types import HourGrowth, Partition, Segment, TierView
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
    by: str = ""
    """Rules that derive them, with their versions; empty: nothing can be added to the derived samples."""

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
    objects: tuple[int, ...] = ()
    """Raw objects whose records are counted, if `are_known`."""
    are_known: bool = False
    standing: tuple[Segment, ...] | None = None
    """Derived segments that `own` is added to; None: `own` is all there is."""


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
    growths: Mapping[int, HourGrowth] = MappingProxyType({}),
    *,
    force: bool,
    whole: bool = False,
) -> HourPlan:
    """Plan the hours, all records of each if `whole`.

    The view holds their neighbours, too, and `growths` what came to hours of logs.
    """
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
            first, end = source_window(signal, hour)
            read = [versions.get(near) for near in range(first, end, HOUR_NS)]
            built_from = {p.start_ns: p.sent_version for p in read if p is not None}
            mine = [s for s in metrics.segments if s.hour_ns == hour and wanted.replaces(s.origin)]
            all_of_it = _derivation(own, built_from, view.segments, tuple(s.segment_id for s in mine))
            todo.append(_grown(all_of_it, mine, growths.get(hour), wanted, whole=force or whole))
    return HourPlan(tuple(todo), tuple(current), tuple(empty), tuple(refused))


def _is_current(own: Partition, source: Partition | None, wanted: Wanted) -> bool:
    read = own.built_from.get(own.start_ns, 0) if own.version else -1
    return read == (source.sent_version if source else 0) and wanted.is_built(own.start_ns)


def _grown(
    found: Derivation, mine: Sequence[Segment], growth: HourGrowth | None, wanted: Wanted, *, whole: bool
) -> Derivation:
    """Derive only what was added, if that is certain: records were added, and nothing else changed."""
    source = found.built_from.get(found.hour_ns, 0)
    if growth is None or growth.sent_version != source:  # records came between the two looks
        return found
    objects = tuple(one for one, _ in growth.objects)
    known = replace(found, objects=objects, are_known=True)
    new = {one: rows for one, rows in growth.objects if one not in set(growth.built_objects)}
    stands = (
        growth.version == found.expected_version > 0
        and growth.built_by == wanted.by != ""
        and growth.built_version >= growth.rewritten_version
        and set(growth.built_objects) <= set(objects)
        and wanted.is_built(found.hour_ns)
        and all(b.source_version == growth.built_version for b in wanted.built if b.hour_ns == found.hour_ns)
        and len(mine) <= 1
    )
    if whole or not stands or sum(s.rows for s in growth.added) != sum(new.values()):
        return known
    return replace(
        known, own=growth.added, standing=tuple(mine), source_bytes=sum(s.bytes for s in growth.added)
    )


def _derivation(
    own: Partition, versions: Mapping[int, int], segments: Sequence[Segment], retire: tuple[str, ...]
) -> Derivation:
    hour, end = own.start_ns, own.start_ns + HOUR_NS
    facts = FACTS[own.signal]
    first_ns, last_ns = hour - facts.margin_ns, end + facts.margin_behind_ns
    sent = [s for s in segments if s.frequency_ms == AS_SENT and not s.origin]
    mine = [s for s in sent if s.max_ns > hour and s.min_ns <= end]  # a sealed day lies over its hours
    others = [s for s in sent if s.max_ns <= hour or s.min_ns > end]
    beside = [s for s in others if s.max_ns > first_ns and s.min_ns <= last_ns]
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
