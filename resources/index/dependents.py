"""Publications change partitions; rollups and materialized metrics are built from those."""

from __future__ import annotations

from dataclasses import dataclass

from resources.index.rule_types import RecordedFrom, RuleKind, RuleSet, StoredRule
from resources.index.types import BatchKind, Publication
from resources.lake.frequency import AS_SENT
from resources.lake.layout import RULER, Signal
from resources.lake.signals import FACTS
from resources.lake.timecut import HOUR_NS, cut, hour_start


@dataclass(frozen=True, slots=True)
class HoursOfRule:
    """Hours that a change of a rule makes due: from `since_ns` on, and all that it was built for."""

    rule_id: int
    signal: Signal
    since_ns: int


NEVER_NS = 2**62
"""Start of the hours of a rule that was deleted, or that has another source now."""
DERIVING = frozenset({BatchKind.MATERIALIZE, BatchKind.RECORD})
"""Batches that publish what was derived or recorded: nothing is derived from that."""


def is_sent(publication: Publication) -> bool:
    """Tell if what was sent changes; derived metrics change only what is read."""
    return publication.claim.kind not in DERIVING


def is_rewrite(publication: Publication) -> bool:
    """Tell if records of the changed hours are replaced; cooking only adds some."""
    return is_sent(publication) and (
        publication.claim.kind is not BatchKind.COOK or bool(publication.retire or publication.given_up)
    )


def changed_partitions(publication: Publication) -> list[int]:
    """Return the starts of the partitions whose content changes, in the order in which they are locked."""
    return sorted({*publication.hours, *(built.start_ns for built in publication.built)})


def dependents(publication: Publication) -> list[tuple[int, int]]:
    """Return (frequency, start) of partitions to be built again, in the order in which they are locked."""
    facts = FACTS[publication.claim.signal]
    rollups = {
        (rollup.frequency_ms, start)
        for rollup in facts.rollups
        if rollup.source_ms == publication.frequency_ms
        for start in {cut(start + 1, rollup.partition_ns) for start in changed_partitions(publication)}
    }
    return sorted(rollups)


def derivable_hours(publication: Publication) -> list[int]:
    """Return the hours whose metrics are to be derived again, in the order in which they are locked."""
    is_source = publication.frequency_ms == AS_SENT and is_sent(publication)
    return sorted(_touched(publication)) if is_source else []


def recordable_hours(publication: Publication) -> list[int]:
    """Return the hours to be recorded again; derived metrics are recorded from, too."""
    is_source = publication.frequency_ms == AS_SENT and publication.claim.kind is not BatchKind.RECORD
    if not is_source or not FACTS[publication.claim.signal].recorded_by:
        return []
    return changed_partitions(publication)


@dataclass(frozen=True, slots=True)
class AddedRecords:
    """Records of an interval (both inclusive) that alerts may have been evaluated without."""

    min_ns: int
    max_ns: int
    metric_names: tuple[str, ...]
    """Metrics among them; none: any."""


def added_records(publication: Publication) -> list[AddedRecords]:
    """Return the records that were sent, or decoded anew; those of the ruler are what it decided itself."""
    claim = publication.claim
    if claim.kind not in {BatchKind.COOK, BatchKind.REBUILD} or claim.collector == RULER:
        return []
    if publication.retire:
        return [AddedRecords(hour + 1, hour + HOUR_NS, ()) for hour in changed_partitions(publication)]
    mine = (one for one in publication.segments if one.dataset == FACTS[claim.signal].dataset)
    return [AddedRecords(one.min_ns, one.max_ns, one.metric_names) for one in mine]


def recorded_window(recorded: RecordedFrom) -> tuple[int, int]:
    """Return the hours that an hour is recorded from, as bounds of their starts."""
    return recorded.start_ns - recorded.hours_back * HOUR_NS, recorded.start_ns + HOUR_NS


def hours_of_changes(before: RuleSet, after: RuleSet) -> list[HoursOfRule]:
    """Return what the changes of derived metrics make due, ordered by rule."""
    old = {rule.rule_id: rule for rule in before.rules if rule.kind is RuleKind.DERIVED}
    new = {rule.rule_id: rule for rule in after.rules if rule.kind is RuleKind.DERIVED}
    found: list[HoursOfRule] = []
    for rule_id in sorted(old.keys() | new.keys()):
        was, now = old.get(rule_id), new.get(rule_id)
        if now is not None and was is not None and now.version == was.version:
            continue
        found += [] if was is None else _hours_of(was, NEVER_NS)
        found += [] if now is None else _hours_of(now, hour_start(now.created_at_ns))
    return found


def _hours_of(rule: StoredRule, added_ns: int) -> list[HoursOfRule]:
    """Return the hours from `since_ns`, else from `added_ns`; none of a document without a source."""
    source, since = rule.document.get("source"), rule.document.get("since_ns")
    if source not in set(Signal):
        return []
    start = since if isinstance(since, int) and added_ns != NEVER_NS else added_ns
    return [HoursOfRule(rule.rule_id, Signal(str(source)), start)]


def source_window(signal: Signal, hour_ns: int) -> tuple[int, int]:
    """Return the hours that the metrics of an hour are derived from, as bounds of their starts."""
    facts = FACTS[signal]
    before, behind = (HOUR_NS if margin else 0 for margin in (facts.margin_ns, facts.margin_behind_ns))
    return hour_ns - before, hour_ns + HOUR_NS + behind


def _touched(publication: Publication) -> set[int]:
    """Return the changed hours, and their neighbours that are derived from records near the boundary."""
    changed = set(changed_partitions(publication))
    facts = FACTS[publication.claim.signal]
    mine = [s for s in publication.segments if s.hour_ns in changed]
    are_late = {s.hour_ns for s in mine if s.max_ns > s.hour_ns + HOUR_NS - facts.margin_ns}
    are_early = {s.hour_ns for s in mine if s.min_ns <= s.hour_ns + facts.margin_behind_ns}
    if publication.retire:  # what was taken away is not known
        are_late = are_early = changed
    behind = {hour + HOUR_NS for hour in are_late} if facts.margin_ns else set()
    before = {hour - HOUR_NS for hour in are_early} if facts.margin_behind_ns else set()
    return changed | before | behind
