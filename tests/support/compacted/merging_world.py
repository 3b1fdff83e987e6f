"""A lake of sizes only: segments arrive, plans are carried out, bytes written are counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lakerunner_assets.compacted.plan import plan_merges
from lakerunner_assets.compacted.policy import MIB, Merge, Policy
from resources.index.types import BatchKind, LiveSegment
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS

DAY_START = 20_458 * 24 * HOUR_NS
HOUR = DAY_START + 12 * HOUR_NS
POLICY = Policy(
    target_bytes=1024 * MIB, files=32, close_ns=4500 * SECOND_NS, seal_after_ns=86_400 * SECOND_NS
)
MAX_ROUNDS = 40


def live(number: int, size: int, hour: int = HOUR, **more: object) -> LiveSegment:
    values: dict[str, object] = {
        "segment_id": f"{number:032x}",
        "key": f"db/{number}",
        "org": "acme",
        "collector": "c",
        "signal": Signal.LOGS,
        "dataset": "logs",
        "frequency_ms": 0,
        "hour_ns": hour,
        "width_ns": HOUR_NS,
        "rows": 10,
        "bytes": size,
        "level": 0,
        "settled": False,
        "published_at_ns": hour,
        **more,
    }
    return LiveSegment(**values)  # type: ignore[arg-type]


@dataclass
class World:
    policy: Policy = POLICY
    signal: Signal = Signal.LOGS
    segments: dict[str, LiveSegment] = field(default_factory=dict)
    written: int = 0
    """Bytes, the first time included."""
    arrived: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))
    merges: list[tuple[int, Merge]] = field(default_factory=list)
    crowd: int = 0
    """The most segments that were live after planning."""

    def arrive(self, now_ns: int, size: int, hour: int = HOUR, collector: str = "c") -> None:
        number = next(self.numbers)
        segment = live(
            number,
            size,
            hour,
            collector=collector,
            signal=self.signal,
            dataset=self.signal.value,
            published_at_ns=now_ns,
        )
        self.segments[segment.segment_id] = segment
        self.arrived += size
        self.written += size

    def shown(self) -> list[LiveSegment]:
        """As the index shows them: windows with an unsettled segment, whole."""
        windows = {(s.hour_ns, s.hour_ns + s.width_ns) for s in self.segments.values() if not s.settled}
        return [
            s
            for s in self.segments.values()
            if any(s.hour_ns < end and s.hour_ns + s.width_ns > start for start, end in windows)
        ]

    def settle_down(self, now_ns: int) -> None:
        """Plan and carry out until nothing is left."""
        for _ in range(MAX_ROUNDS):
            plans = plan_merges(self.shown(), now_ns, self.policy)
            planned = [s.segment_id for merge in plans.merges for s in merge.inputs]
            assert len(planned) == len(set(planned)), "a segment was planned twice"
            assert not set(planned) & set(plans.settle)
            for merge in plans.merges:
                self._carry_out(now_ns, merge)
            for segment_id in plans.settle:
                self.segments[segment_id] = replace(self.segments[segment_id], settled=True)
            if not (plans.merges or plans.settle):
                self.crowd = max(self.crowd, len(self.segments))
                return
        raise AssertionError(f"no end after {MAX_ROUNDS} rounds")

    def _carry_out(self, now_ns: int, merge: Merge) -> None:
        self.merges.append((now_ns, merge))
        start, end = merge.start_ns, merge.start_ns + merge.width_ns
        for segment in merge.inputs:
            assert start <= segment.hour_ns
            assert segment.hour_ns + segment.width_ns <= end
            gone = self.segments.pop(segment.segment_id)
            assert (gone.collector, gone.dataset) == (merge.collector, merge.dataset)
        number = next(self.numbers)
        self.written += merge.bytes
        made = live(
            number,
            merge.bytes,
            merge.start_ns,
            width_ns=merge.width_ns,
            level=merge.level,
            collector=merge.collector,
            signal=merge.signal,
            dataset=merge.dataset,
            rows=merge.rows,
            published_at_ns=now_ns,
        )
        self.segments[made.segment_id] = made

    @property
    def amplification(self) -> float:
        return self.written / max(1, self.arrived)

    def compacting(self) -> list[Merge]:
        return [merge for _, merge in self.merges if merge.kind is BatchKind.COMPACT]


def trickle(world: World, every_s: float, size: int, hour: int = HOUR, spread: float = 0.0) -> None:
    """An hour of segments that arrive evenly, planned at every arrival, until it is over and settled."""
    chance = random.Random(1)
    moment = float(hour)
    while moment < hour + HOUR_NS:
        moment += every_s * SECOND_NS
        world.arrive(int(moment), int(size * chance.uniform(1 - spread, 1 + spread)), hour)
        world.settle_down(int(moment))
    world.settle_down(hour + 3 * HOUR_NS)
