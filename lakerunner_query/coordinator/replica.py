"""Replicas of index rows answer queries while the index does not.

Intervals that queries touched lately are read again in the background: the ids of what is live, and in full
what is new, all of an organisation in one transaction. A replica is never changed. A look-up is answered from
one replica or from none, so that a segment is never seen beside those that it was merged from.

    10:00:07  query of logs 09:10 to 10:00   ->  touched: logs from 09:00 on
    10:00:08  survey: 212 live segments, all new; again after 10 s: 213, one new, three gone
    10:05:00  the index is away: any query of logs after 09:00 is answered, as of 10:04:58
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from resources.index.contract import QueryIndex
from resources.index.types import Segment, SegmentQuery, Snapshot, TierQuery, TierView
from resources.lake.timecut import DAY_NS, HOUR_NS, cut

NEVER_NS = 2**63 - 1 - 2 * DAY_NS
"""End of an interval that is open towards the future."""
RECENT_NS = 2 * HOUR_NS
"""Age up to which the end of a query is taken for now: the next one will end later."""
TOUCHED_S = 1800.0
"""Seconds for which an interval that nobody asks for is kept up to date."""
MAX_TOUCHED = 128
"""Intervals of one organisation that are remembered."""
REFRESH_S, COST_FACTOR = 10.0, 20.0
"""Seconds between two surveys of an organisation, or this many times what the last one took."""
PUT_OFF_S = 120.0
ROW_BYTES = 1_200
"""Bytes of a segment without its terms and names."""
BYTES_FOR_ONE = 4_096
"""Share of the memory that a segment is thought to need before it is read."""

KeyT = TypeVar("KeyT")
Kind = tuple[str, int]
"""Dataset and frequency."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of one kind of segments, both ends included."""

    kind: Kind
    start_ns: int
    end_ns: int

    def covers(self, kind: Kind, start_ns: int, end_ns: int) -> bool:
        return self.kind == kind and self.start_ns <= start_ns and end_ns <= self.end_ns

    def holds(self, segment: Segment) -> bool:
        mine = (segment.dataset, segment.frequency_ms) == self.kind
        return mine and segment.max_ns >= self.start_ns and segment.min_ns <= self.end_ns


@dataclass(frozen=True, slots=True)
class Row:
    """A segment, its names apart from it, and its sorted terms."""

    segment: Segment
    label_names: tuple[str, ...]
    metric_names: tuple[str, ...]
    terms: np.ndarray

    def has(self, terms: Sequence[np.ndarray]) -> bool:
        """Tell whether at least one term of each array is among those of the segment."""
        mine = self.terms
        if not terms:
            return True
        if not len(mine):
            return False
        return all(
            bool((mine[np.minimum(np.searchsorted(mine, each), len(mine) - 1)] == each).any())
            for each in terms
        )

    def named(self) -> Segment:
        return replace(self.segment, label_names=self.label_names, metric_names=self.metric_names)


@dataclass(frozen=True)
class Replica:
    """Rows of one organisation as of one moment."""

    moment_ns: int
    """Wall time just before the rows were read."""
    read_at: float
    """The same on the monotonic clock."""
    cost_s: float
    spans: tuple[Span, ...]
    rows: dict[str, Row]
    """Rows by segment id, ordered by (min_ns, segment_id)."""
    tiers: dict[TierQuery, TierView]
    bytes: int

    def snapshot(self, questions: Sequence[SegmentQuery], tiers: TierQuery | None) -> Snapshot | None:
        """Answer all questions, or none if this replica does not hold the whole of one of them."""
        if not all(self.covers(question) for question in questions):
            return None
        view = TierView((), ()) if tiers is None else self._tiers(tiers)
        if view is None:
            return None
        return Snapshot(tuple(tuple(self._select(question)) for question in questions), view)

    def covers(self, question: SegmentQuery) -> bool:
        kind = question.dataset, question.frequency_ms
        return any(span.covers(kind, question.start_ns, question.end_ns) for span in self.spans)

    def covers_tiers(self, wanted: TierQuery) -> bool:
        return any(_covers(one, wanted) for one in self.tiers)

    def _select(self, question: SegmentQuery) -> Iterator[Segment]:
        span = Span((question.dataset, question.frequency_ms), question.start_ns, question.end_ns)
        terms = [np.array(alternatives, np.int64) for alternatives in question.terms]
        for row in self.rows.values():
            of_collector = not question.collectors or row.segment.collector in question.collectors
            if span.holds(row.segment) and of_collector and row.has(terms):
                yield row.named() if question.names else row.segment

    def _tiers(self, wanted: TierQuery) -> TierView | None:
        known = next((view for one, view in self.tiers.items() if _covers(one, wanted)), None)
        if known is None:
            return None
        start, end, frequencies = wanted.start_ns, wanted.end_ns, set(wanted.frequencies_ms)
        return TierView(
            tuple(
                one
                for one in known.partitions
                if one.frequency_ms in frequencies
                and one.start_ns < end
                and one.start_ns + (DAY_NS if one.frequency_ms * 1_000_000 == DAY_NS else HOUR_NS) > start
            ),
            tuple(
                one
                for one in known.segments
                if one.frequency_ms in frequencies
                and one.hour_ns < end
                and one.hour_ns + one.width_ns > start
            ),
        )


def _covers(known: TierQuery, wanted: TierQuery) -> bool:
    return (
        (known.org, known.signal, known.dataset) == (wanted.org, wanted.signal, wanted.dataset)
        and set(wanted.frequencies_ms) <= set(known.frequencies_ms)
        and known.start_ns <= wanted.start_ns
        and wanted.end_ns <= known.end_ns
    )


@dataclass(slots=True)
class _Touched:
    """Intervals that an organisation asked for, by the time of the last question."""

    spans: dict[Span, float] = field(default_factory=dict)
    tiers: dict[TierQuery, float] = field(default_factory=dict)
    too_large: set[Span] = field(default_factory=set)
    """Intervals of more segments than there is memory for."""

    @property
    def last(self) -> float:
        return max((*self.spans.values(), *self.tiers.values()), default=0.0)

    def forget(self, now: float) -> None:
        self.spans = _latest(self.spans, now)
        self.tiers = _latest(self.tiers, now)
        self.too_large &= set(self.spans)


def _latest(touched: dict[KeyT, float], now: float) -> dict[KeyT, float]:
    recent = [(one, at) for one, at in touched.items() if now - at < TOUCHED_S]
    return dict(sorted(recent, key=lambda each: each[1])[-MAX_TOUCHED:])


class Replicas:
    """Replicas of all organisations, within one bound of memory."""

    def __init__(self, index: QueryIndex, max_bytes: int) -> None:
        self._index = index
        self._max_bytes = max_bytes
        self._touched: dict[str, _Touched] = {}
        self._replicas: dict[str, Replica] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Names of labels and metrics, once for all segments that have them."""
        self._not_before: dict[str, float] = {}
        self._lock = threading.Lock()

    def touch(self, questions: Sequence[SegmentQuery], tiers: TierQuery | None) -> bool:
        """Note what is asked; tell whether no replica holds it."""
        now, now_ns, is_new = time.monotonic(), time.time_ns(), False
        with self._lock:
            for question in questions:
                touched = self._touched.setdefault(question.org, _Touched())
                span = _wide(question, now_ns)
                touched.spans[span] = now
                known = self._replicas.get(question.org)
                is_new |= span not in touched.too_large and (known is None or not known.covers(question))
            if tiers is not None:
                wide = _wide_tiers(tiers, now_ns)
                self._touched.setdefault(tiers.org, _Touched()).tiers[wide] = now
                known = self._replicas.get(tiers.org)
                is_new |= known is None or not known.covers_tiers(tiers)
        return is_new

    def find(self, org: str, max_age_s: float) -> Replica | None:
        """Return the organisation's replica unless it is older than that."""
        found = self._replicas.get(org)
        return found if found is not None and time.monotonic() - found.read_at <= max_age_s else None

    def youngest_age_s(self) -> float:
        """Return the age of the last survey; infinite if there was none."""
        ages = [time.monotonic() - one.read_at for one in list(self._replicas.values())]
        return min(ages, default=float("inf"))

    def due(self, *, max_age_s: float) -> list[str]:
        """List organisations whose replica is to be read again, and forget what nobody asks for."""
        now, found = time.monotonic(), []
        with self._lock:
            self._not_before = {org: until for org, until in self._not_before.items() if until > now}
            for org, touched in list(self._touched.items()):
                touched.forget(now)
                known = self._replicas.get(org)
                if not touched.spans and not touched.tiers:
                    del self._touched[org]
                elif org in self._not_before:
                    continue
                elif (
                    known is None
                    or self._is_short(known, touched)
                    or now - known.read_at > max(REFRESH_S, COST_FACTOR * known.cost_s)
                ):
                    found.append(org)
            for org, known in list(self._replicas.items()):
                if now - known.read_at > max_age_s:
                    del self._replicas[org]
        return found

    def _is_short(self, known: Replica, touched: _Touched) -> bool:
        spans = set(touched.spans) - touched.too_large
        return not all(any(_within(span, has) for has in known.spans) for span in spans) or not all(
            known.covers_tiers(one) for one in touched.tiers
        )

    def put_off(self, org: str) -> None:
        """Leave an organisation alone for a while: its survey takes too long."""
        self._not_before[org] = time.monotonic() + PUT_OFF_S

    def refresh(self, org: str) -> None:
        """Read an organisation's intervals as of one moment; takes a thread of its own."""
        with self._lock:
            touched = self._touched.get(org, _Touched())
            wanted = _united(set(touched.spans) - touched.too_large)
            tiers = tuple(touched.tiers)
            old = self._replicas.get(org)
        began, moment_ns = time.monotonic(), time.time_ns()
        questions = [SegmentQuery(org, *span.kind, span.start_ns, span.end_ns) for span in wanted]
        known = {} if old is None else old.rows
        found = self._index.survey(questions, tiers, list(known), max(1, self._max_bytes // BYTES_FOR_ONE))
        fresh = {one.segment.segment_id: self._row(one.segment, one.terms) for one in found.fresh}
        live = {key for ids in found.live if ids is not None for key in ids}
        rows = {key: fresh[key] if key in fresh else known[key] for key in live}
        spans = [span for span, ids in zip(wanted, found.live, strict=True) if ids is not None]
        took = time.monotonic() - began
        views = dict(zip(tiers, found.tiers, strict=True))
        made = _replica(Replica(moment_ns, began, took, tuple(spans), rows, views, 0))
        with self._lock:
            self._keep(org, made, wanted)

    def _keep(self, org: str, made: Replica, wanted: Sequence[Span]) -> None:
        """Put the replica into its place; make room, first by dropping those of others asked less lately."""
        self._replicas.pop(org, None)
        touched = self._touched.setdefault(org, _Touched())
        others = sorted(self._replicas, key=self._last)
        while (
            others and self._last(others[0]) <= touched.last and self._bytes() + made.bytes > self._max_bytes
        ):
            del self._replicas[others.pop(0)]
        while made.spans and self._bytes() + made.bytes > self._max_bytes:
            oldest = min(made.spans, key=lambda span: _last_touch(touched, span))
            made = _replica(replace(made, spans=tuple(one for one in made.spans if one != oldest)))
        for lost in set(wanted) - set(made.spans):
            parts = [one for one in set(touched.spans) - touched.too_large if _within(one, lost)]
            touched.too_large |= {max(parts, key=lambda one: one.end_ns - one.start_ns) for _ in parts[:1]}
        self._replicas[org] = made
        if len(self._names) > 100_000:
            self._names.clear()

    def _last(self, org: str) -> float:
        return self._touched[org].last if org in self._touched else 0.0

    def _bytes(self) -> int:
        return sum(one.bytes for one in self._replicas.values())

    def _row(self, segment: Segment, terms: bytes) -> Row:
        return Row(
            replace(segment, label_names=(), metric_names=()),
            self._names.setdefault(segment.label_names, segment.label_names),
            self._names.setdefault(segment.metric_names, segment.metric_names),
            np.sort(np.frombuffer(terms, np.int64)),
        )

    def gauges(self) -> dict[str, float]:
        replicas = list(self._replicas.values())
        return {
            "lakerunner_query_index_replica_segments": sum(len(one.rows) for one in replicas),
            "lakerunner_query_index_replica_bytes": sum(one.bytes for one in replicas),
            "lakerunner_query_index_replica_organisations": len(replicas),
        }


def _replica(made: Replica) -> Replica:
    """Order the rows of the spans that are left, and add up their size."""
    left = [row for row in made.rows.values() if any(span.holds(row.segment) for span in made.spans)]
    left.sort(key=lambda row: (row.segment.min_ns, row.segment.segment_id))
    names = {id(each): len(each) for row in left for each in (row.label_names, row.metric_names)}
    of_tiers = sum(len(view.segments) + len(view.partitions) for view in made.tiers.values())
    size = (len(left) + of_tiers) * ROW_BYTES + sum(row.terms.nbytes for row in left)
    size += sum(100 * count for count in names.values())
    return replace(made, rows={row.segment.segment_id: row for row in left}, bytes=size)


def _wide(question: SegmentQuery, now_ns: int) -> Span:
    """Widen a question to whole hours; one that ends about now goes on towards the future."""
    end = cut(question.end_ns, HOUR_NS) + HOUR_NS
    kind = question.dataset, question.frequency_ms
    is_open = end >= now_ns - RECENT_NS
    return Span(kind, cut(question.start_ns, HOUR_NS), NEVER_NS if is_open else end)


def _wide_tiers(wanted: TierQuery, now_ns: int) -> TierQuery:
    is_open = wanted.end_ns >= now_ns - RECENT_NS
    return replace(wanted, end_ns=NEVER_NS) if is_open else wanted


def _united(spans: Iterable[Span]) -> list[Span]:
    """Unite intervals that overlap, so that each segment is listed once."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.kind, one.start_ns)):
        last = found[-1] if found else None
        if last is not None and last.kind == span.kind and span.start_ns <= last.end_ns:
            found[-1] = replace(last, end_ns=max(last.end_ns, span.end_ns))
        else:
            found.append(span)
    return found


def _last_touch(touched: _Touched, span: Span) -> float:
    return max((at for one, at in touched.spans.items() if _within(one, span)), default=0.0)


def _within(span: Span, other: Span) -> bool:
    return other.covers(span.kind, span.start_ns, span.end_ns)
