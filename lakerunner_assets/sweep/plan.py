"""Pure decisions bound what a sweep may touch.

Segments of one day, keep 9 days, now the 11th at 03:00 (so that what ended by the 2nd at 01:00 may go):

    hours 00, 01 of the 2nd                    → the first goes, the second stays
    a sealed day of the 1st and its hour 05    → both go, together with all 24 partitions
    a sealed day of the 2nd and its hour 00    → both stay until the whole day is out
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from resources.index.sweeping_types import Aging, AgingSegment, OldTier, OldWindow, OrphanCount, Retention
from resources.lake.frequency import AS_SENT, rollup_of
from resources.lake.layout import InvalidKeyError, Signal, segment_key
from resources.lake.retention import FREQUENCIES, NOTICE_S, RAW, ended_by_ns
from resources.lake.timecut import HOUR_NS, from_datetime
from resources.settings import Settings, SettingsError

GRACE_MARGIN_S = 60.0
"""Time between the longest query and the first deletion, for clocks and commits of publications."""
LISTED_EVERY_S = 3600.0
LISTED_AT_ONCE = 4
MANY_ORPHANS = 100
_KEY_PARTS = 7


@dataclass(frozen=True, slots=True)
class Policy:
    """The patience of the sweeper, and its limits in one sweep."""

    grace_s: float
    orphan_s: float
    notice_s: float = NOTICE_S
    remember_s: float = 35 * 86_400.0
    """Age from which rows of deleted raw objects go: no queue delivers a notification later."""
    batch_s: float = 7 * 86_400.0
    run_s: float = 86_400.0
    message_s: float = 86_400.0
    asked_days: int = 14
    """Days for which the query log is kept."""
    windows: int = 4000
    """Limit per tier."""
    files: int = 20_000
    """Limit of each kind, and per tier."""
    chunk: int = 500
    """Keys per transaction."""
    all_orphans: bool = False
    """True if somebody looked at the orphans: even many are deleted."""

    @classmethod
    def of(cls, settings: Settings, *, all_orphans: bool = False) -> Policy:
        """Build the policy; refuse a grace that a query may outlast and find files gone."""
        needed = settings.query_timeout_s + GRACE_MARGIN_S
        if settings.sweep_grace_s <= needed:
            raise SettingsError(
                f"LAKERUNNER_SWEEP_GRACE_S is {settings.sweep_grace_s}: expected more than {needed:g}, the "
                f"longest query (LAKERUNNER_QUERY_TIMEOUT_S) and {GRACE_MARGIN_S:g} s; nothing is swept"
            )
        return cls(
            float(settings.sweep_grace_s),
            float(settings.sweep_orphan_s),
            asked_days=settings.query_log_days,
            all_orphans=all_orphans,
        )


@dataclass(frozen=True, slots=True)
class RawAge:
    """The time by which arrival hours of raw objects must have ended to be deleted."""

    org: str
    signal: Signal
    ended_by_ns: int


def in_force(found: Iterable[Retention], policy: Policy, org: str = "") -> list[Retention]:
    """Return retentions that stood long enough, of one organisation or all."""
    return [r for r in found if r.stood_s >= policy.notice_s and org in {"", r.org}]


def old_tiers(found: Iterable[Retention], now_ns: int) -> list[OldTier]:
    return [
        OldTier(r.org, r.signal, FREQUENCIES[r.tier], ended_by_ns(r.keep_days, now_ns))
        for r in found
        if r.tier != RAW
    ]


def raw_ages(found: Iterable[Retention], now_ns: int) -> list[RawAge]:
    return [RawAge(r.org, r.signal, ended_by_ns(r.keep_days, now_ns)) for r in found if r.tier == RAW]


def forgettable_ages(found: Sequence[Retention], now_ns: int) -> list[RawAge]:
    """Return ages of rows of raw objects: where raw objects and segments age, the longer."""
    raw = {(age.org, age.signal): age.ended_by_ns for age in raw_ages(found, now_ns)}
    return [
        RawAge(tier.org, tier.signal, min(tier.ended_by_ns, raw[tier.org, tier.signal]))
        for tier in old_tiers(found, now_ns)
        if tier.frequency_ms == AS_SENT and (tier.org, tier.signal) in raw
    ]


def too_young(found: Iterable[Retention], policy: Policy) -> list[Retention]:
    """Return retentions that delete nothing yet."""
    return [r for r in found if r.stood_s < policy.notice_s]


@dataclass(slots=True)
class _Stretch:
    start_ns: int
    end_ns: int
    segments: list[AgingSegment] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)


def old_windows(aging: Aging, tier: OldTier) -> list[OldWindow]:
    """Return stretches of windows that ended, were seen whole, and have no busy segment."""
    limit = min(tier.ended_by_ns, aging.seen_to_ns)
    return [
        OldWindow(s.start_ns, s.end_ns, tuple(s.segments), tuple(s.partitions))
        for s in _stretches(aging, partition_width(tier.frequency_ms))
        if s.end_ns <= limit and not any(segment.busy for segment in s.segments)
    ]


def partition_width(frequency_ms: int) -> int:
    return rollup_of(frequency_ms).partition_ns if frequency_ms else HOUR_NS


def _stretches(aging: Aging, width_ns: int) -> Iterator[_Stretch]:
    """Join windows that overlap; hours that only touch stay apart."""
    spans: list[tuple[int, int, AgingSegment | None]] = [
        *((s.start_ns, s.start_ns + s.width_ns, s) for s in aging.segments),
        *((start, start + width_ns, None) for start in aging.partitions),
    ]
    current: _Stretch | None = None
    for start, end, segment in sorted(spans, key=lambda span: span[:2]):
        if current is None or start >= current.end_ns:
            if current is not None:
                yield current
            current = _Stretch(start, end)
        current.end_ns = max(current.end_ns, end)
        if segment is None:
            current.partitions.append(start)
        else:
            current.segments.append(segment)
    if current is not None:
        yield current


def to_list(orgs: Sequence[str], listed_at: Mapping[str, float], now_s: float) -> list[str]:
    """Choose organisations to compare with the index: those not listed longest, a few.

    >>> to_list(["a", "b", "c"], {"a": 9000.0, "b": 100.0}, 10_000.0)
    ['c', 'b']
    """
    due = [org for org in orgs if now_s - listed_at.get(org, 0.0) >= LISTED_EVERY_S]
    return sorted(due, key=lambda org: (listed_at.get(org, 0.0), org))[:LISTED_AT_ONCE]


def is_ours(key: str, org: str) -> bool:
    """Tell if a key is a segment of this organisation, by spelling it again.

    >>> is_ours("db/acme/c/20260102/logs/03/tbl_0123456789abcdef0123456789abcdef.parquet", "acme")
    True
    >>> is_ours("db/acme/c/20260102/logs/03/notes.txt", "acme")
    False
    """
    parts = key.split("/")
    if len(parts) != _KEY_PARTS:
        return False
    _, owner, collector, day, dataset, folder, name = parts
    try:
        hour = None if folder == "all" else int(folder)
        start_ns = _day_start(day) + (hour or 0) * HOUR_NS
        spelled = segment_key(owner, collector, dataset, start_ns, hour, name[4:36])
    except (ValueError, InvalidKeyError):
        return False
    return owner == org and spelled == key and _is_id(name[4:36])


def _day_start(day: str) -> int:
    return from_datetime(dt.datetime.strptime(day, "%Y%m%d").replace(tzinfo=dt.UTC))


def _is_id(text: str) -> bool:
    return len(text) == 32 and set(text) <= set("0123456789abcdef")


def suspicious(counts: Mapping[str, OrphanCount]) -> dict[str, str]:
    """Find organisations whose files are mostly unknown: rather a wrong or an old index."""
    return {
        org: f"{org}: the index knows {c.segments} segments, the lake has {c.orphans} other files "
        f"({c.bytes} bytes) under db/{org}/; none is deleted. Is this the lake of another index, or "
        "the index an old copy? If they may go: lakerunner sweep --all-orphans"
        for org, c in counts.items()
        if c.orphans > MANY_ORPHANS and c.orphans > c.segments
    }
