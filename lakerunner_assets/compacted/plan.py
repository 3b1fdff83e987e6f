"""A pure decision chooses the merges among all live segments.

Groups are organisation, collector, dataset, frequency and window. Logs and traces stay by hour. Metrics do so
until their day is over; then the day is one group and its outputs are day-wide (of day-wide rollups: the
month). Planning again after each round of merges comes to an end where nothing is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lakerunner_assets.compacted.policy import (
    Choice,
    Merge,
    Plans,
    Policy,
    closing_choices,
    day_of,
    month_of,
    open_choices,
)
from lakerunner_assets.signals import SIGNALS
from resources.index.types import BatchKind, DuePartition, LiveSegment
from resources.lake.frequency import CARDINALITY_DATASET, DAY

NEVER_MERGED = frozenset({CARDINALITY_DATASET})


@dataclass(frozen=True, slots=True, order=True)
class Group:
    org: str
    collector: str
    dataset: str
    frequency_ms: int
    start_ns: int
    width_ns: int

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.width_ns


@dataclass(slots=True)
class _Planning:
    """Decisions of one pass so far."""

    now_ns: int
    policy: Policy
    merges: list[Merge] = field(default_factory=list)
    settle: list[str] = field(default_factory=list)

    def hour(self, group: Group, segments: Sequence[LiveSegment], *, settles: bool) -> None:
        over = self.policy.closed or (
            self.now_ns >= group.end_ns + self.policy.close_ns and self._quiet(segments)
        )
        choices = (closing_choices if over else open_choices)(segments, self.policy)
        self._add(BatchKind.COMPACT, group, choices)
        if over and settles and not choices:
            self._settle(segments)

    def whole(self, group: Group, segments: Sequence[LiveSegment]) -> None:
        choices = closing_choices(segments, self.policy)
        self._add(BatchKind.SEAL, group, choices)
        if not choices:
            self._settle(segments)

    def to_be_sealed(self, group: Group, segments: Sequence[LiveSegment]) -> bool:
        old = self.now_ns >= group.end_ns + self.policy.seal_after_ns
        return old and (self.policy.closed or self._quiet(segments))

    def _quiet(self, segments: Iterable[LiveSegment]) -> bool:
        """Tell if no rows were added lately. What merges wrote does not count."""
        newest = max((s.published_at_ns for s in segments if not (s.level or s.settled)), default=0)
        return newest <= self.now_ns - self.policy.quiet_ns

    def _add(self, kind: BatchKind, group: Group, choices: Iterable[Choice]) -> None:
        self.merges += [_merge(kind, group, choice) for choice in choices]

    def _settle(self, segments: Iterable[LiveSegment]) -> None:
        self.settle += [segment.segment_id for segment in segments if not segment.settled]


def plan_merges(
    live: Sequence[LiveSegment], now_ns: int, policy: Policy, due: Iterable[DuePartition] = ()
) -> Plans:
    """Plan merges and settling. `due` are rollups to be built: what they lie in is not sealed yet."""
    planning = _Planning(now_ns, policy)
    planning.settle += [s.segment_id for s in live if s.dataset in NEVER_MERGED and not s.settled]
    wanted = [segment for segment in live if segment.dataset not in NEVER_MERGED]
    for group, segments in sorted(_group([s for s in wanted if not _sealable(s)], _window)):
        planning.hour(group, segments, settles=True)
    awaited = {(d.org, *enclosing(d.start_ns)) for d in due for enclosing in (day_of, month_of)}
    for group, segments in sorted(_group([s for s in wanted if _sealable(s)], _enclosing)):
        due_in_it = (group.org, group.start_ns, group.width_ns) in awaited
        if planning.to_be_sealed(group, segments) and not due_in_it:
            planning.whole(group, segments)
        else:
            for inner, mine in sorted(_group(segments, _window)):
                planning.hour(inner, mine, settles=False)
    return Plans(tuple(planning.merges), tuple(sorted(planning.settle)))


def _merge(kind: BatchKind, group: Group, choice: Choice) -> Merge:
    return Merge(
        kind, choice.inputs[0].signal, group.org, group.collector, group.dataset,
        group.frequency_ms, group.start_ns, group.width_ns, choice.inputs, choice.reason,
    )  # fmt: skip


def _sealable(segment: LiveSegment) -> bool:
    return segment.dataset in SIGNALS[segment.signal].sealed_datasets


def _window(segment: LiveSegment) -> tuple[int, int]:
    return segment.hour_ns, segment.width_ns


def _enclosing(segment: LiveSegment) -> tuple[int, int]:
    """Return the window that the segment is sealed into."""
    return (month_of if segment.frequency_ms == DAY else day_of)(segment.hour_ns)


def _group(
    segments: Iterable[LiveSegment], window: Callable[[LiveSegment], tuple[int, int]]
) -> list[tuple[Group, tuple[LiveSegment, ...]]]:
    found: dict[Group, list[LiveSegment]] = defaultdict(list)
    for s in segments:
        found[Group(s.org, s.collector, s.dataset, s.frequency_ms, *window(s))].append(s)
    return [(group, tuple(sorted(mine, key=lambda s: s.segment_id))) for group, mine in found.items()]
