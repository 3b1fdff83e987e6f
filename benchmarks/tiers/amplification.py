"""P20: bytes written by cooking, compacting and sealing for each byte first cooked, on real files.

Raw objects are cooked one by one while a simulated clock goes from object to object and on until nothing is
left to do. At every step of the planner's interval the real plan is made of what is live, and the real merges
are run and published. Nothing is rebuilt, and rollups are not counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.ingest.corpus import HOUR_NS, START_NS
from benchmarks.ingest.corpus.logs import as_otlp, web_events
from benchmarks.ingest.corpus.metrics import app_metrics
from benchmarks.report import Record
from benchmarks.tiers.scratch import scratch_server
from lakerunner_assets.compacted.plan import plan_merges
from lakerunner_assets.compacted.policy import Policy
from lakerunner_assets.compacted.run import Job, answers, claim_merge, publish_merge
from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.index.types import LiveSegment
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, SECOND_NS, hour_start
from resources.settings import MIB
from tests.support.cooking_lake import Lake, lake_in

MUST, AIM = 4.0, 2.2
SLICES = 180
"""Cooked segments of an hour, one per 20 seconds."""
MAX_ROUNDS = 50


@dataclass(slots=True)
class Counted:
    """Bytes of one sequence, and what they were written for."""

    cooked: int = 0
    cooked_segments: int = 0
    merged: dict[str, int] = field(default_factory=dict)
    merges: int = 0
    live_segments: int = 0

    @property
    def ratio(self) -> float:
        return (self.cooked + sum(self.merged.values())) / self.cooked


@dataclass(slots=True)
class World:
    """A lake whose clock is moved by hand."""

    lake: Lake
    signal: Signal
    policy: Policy
    now_ns: int = 0
    counted: Counted = field(default_factory=Counted)
    published: dict[str, int] = field(default_factory=dict)
    """Segments by the simulated time at which they were first seen."""

    def cook(self, name: str, data: bytes, hour: int) -> None:
        self.lake.arrive(name, data, hour, signal=self.signal)
        for change in self.lake.cook(self.signal):
            self.counted.cooked += change.bytes
            self.counted.cooked_segments += change.segments

    def tick(self) -> int:
        """One look of the planner and the run that it asks for; how many merges there were."""
        index = self.lake.index
        live = [self._seen(segment) for segment in index.unsettled(self.signal)]
        plans = plan_merges(live, self.now_ns, self.policy)
        if plans.settle:
            index.settle(plans.settle)
        run_context = self.lake.run_context()
        jobs = [claim_merge(run_context, merge) for merge in plans.merges]
        good = [job for job in jobs if isinstance(job, Job)]
        if len(good) < len(jobs):
            raise RuntimeError(f"nobody else works here, and yet: {jobs}")
        for job, answer in answers(run_context, good):
            if answer.fault is not None:
                raise RuntimeError(f"a merge failed: {answer.error}")
            made = publish_merge(run_context, job, answer)
            kind = "sealed" if job.merge.width_ns > HOUR_NS else self._of_hour(job)
            self.counted.merged[kind] = self.counted.merged.get(kind, 0) + sum(s.bytes for s in made)
            self.counted.merges += 1
        return len(plans.merges)

    def finish(self, step_ns: int, until_ns: int) -> None:
        """Let time pass, merging whenever there is something."""
        while self.now_ns < until_ns:
            self.now_ns += step_ns
            for _ in range(MAX_ROUNDS):
                if not self.tick():
                    break
            else:
                raise RuntimeError("the planner does not come to an end")

    def _of_hour(self, job: Job) -> str:
        return "closed hours" if self.now_ns >= job.merge.start_ns + HOUR_NS else "open hours"

    def _seen(self, segment: LiveSegment) -> LiveSegment:
        moment = self.published.setdefault(segment.segment_id, self.now_ns)
        return replace(segment, published_at_ns=moment)


def measure(records_per_slice: int, resources: int) -> list[Record]:
    with scratch_server() as database:
        logs = _hour_of_logs(database("logs")[0], records_per_slice, 1024 * MIB)
        busy_target = max(1, logs.cooked // 4)
        busy = _hour_of_logs(database("busy")[0], records_per_slice, busy_target)
        metrics = _day_of_metrics(database("metrics")[0], resources)
    return [
        _record("P20-logs", f"write amplification, an hour of {SLICES} cooked log segments", logs),
        _record("P20-busy", "the same, the hour is four times the size of a full segment", busy),
        _record("P20-metrics", "write amplification, 24 hours of metrics until sealed", metrics),
    ]


def _hour_of_logs(index: PostgresIndex, records: int, target_bytes: int) -> Counted:
    with _world(index, Signal.LOGS, target_bytes) as world:
        for number, data in enumerate(_slices(records)):
            world.now_ns = START_NS + (number + 1) * HOUR_NS // SLICES
            world.cook(f"{number:03}.binpb", data, START_NS)
            world.tick()
        world.finish(300 * SECOND_NS, START_NS + 4 * HOUR_NS)
        _check(world, SLICES * records)
        return world.counted


def _day_of_metrics(index: PostgresIndex, resources: int) -> Counted:
    """24 hours from noon on, so two days are sealed; five minutes per object, as the corpus has them."""
    corpus = app_metrics(DAY_NS // (15 * SECOND_NS), resources)
    width = DAY_NS // len(corpus.objects)
    with _world(index, Signal.METRICS, 1024 * MIB) as world:
        for number, data in enumerate(corpus.objects):
            world.now_ns = START_NS + (number + 1) * width
            world.cook(f"{number:04}.binpb", data, hour_start(START_NS + number * width + 1))
            world.tick()
        world.finish(900 * SECOND_NS, START_NS + 4 * DAY_NS)
        _check(world, corpus.rows)
        return world.counted


@contextmanager
def _world(index: PostgresIndex, signal: Signal, target_bytes: int) -> Iterator[World]:
    """A lake in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix="lakerunner-amplification-") as name:
        folder = Path(name)
        lake = lake_in(folder)
        settings = replace(lake.settings, merge_target_bytes=target_bytes)
        index.create_organisation("acme")
        index.put_storage_profile(StorageProfile("raw", f"file://{folder}/raw"))
        lake = replace(lake, index=index, settings=settings)  # type: ignore[arg-type]
        yield World(lake, signal, Policy.of(settings))


def _slices(records: int) -> Iterator[bytes]:
    """The events of an hour, slice by slice; within one by resource, as collectors send them."""
    events = sorted(
        (event for part in web_events(SLICES * records) for event in part), key=lambda event: event.time_ns
    )
    for number in range(SLICES):
        mine = events[number * records : (number + 1) * records]
        yield as_otlp(sorted(mine, key=lambda event: (event.resource, event.time_ns)))


def _check(world: World, rows: int) -> None:
    live = world.lake.index.live_in(world.signal, "acme", START_NS - DAY_NS, START_NS + 3 * DAY_NS)
    found = sum(segment.rows for segment in live)
    if found != rows:
        raise RuntimeError(f"{rows} rows were sent, {found} are live")
    if left := [s.segment_id for s in live if not s.settled]:
        raise RuntimeError(f"not settled at the end: {left}")
    world.counted.live_segments = len(live)


def _record(identity: str, what: str, counted: Counted) -> Record:
    ratio = counted.ratio
    return Record(
        identity, what, ratio, "bytes per byte", must=MUST, aim=AIM, ok=ratio <= MUST,
        counters={
            "cooked_bytes": counted.cooked,
            "cooked_segments": counted.cooked_segments,
            "merges": counted.merges,
            "live_segments": counted.live_segments,
            "written_per_cooked_byte": {
                kind: round(size / counted.cooked, 3) for kind, size in sorted(counted.merged.items())
            },
        },
    )  # fmt: skip
