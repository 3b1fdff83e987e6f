"""Frozen values travel between the index and everything else; none knows SQL, Dagster or Spark.

Times are nanoseconds since epoch (`*_ns`), hours are named by the start of their left-open interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from resources.index.rule_types import RecordedFrom, RuleGaps, RuleHour
from resources.lake.layout import Signal


class BatchKind(StrEnum):
    COOK = "cook"
    REBUILD = "rebuild"
    COMPACT = "compact"
    SEAL = "seal"
    CARVE = "carve"  # hours are cut out of a sealed day, so that they can be swapped alone
    ROLLUP = "rollup"
    MATERIALIZE = "materialize"  # metrics of one hour are derived from another signal
    RECORD = "record"  # recording rules are evaluated over one hour


class BatchState(StrEnum):
    DUE = "due"
    CLAIMED = "claimed"
    DONE = "done"
    PARKED = "parked"


class ObjectState(StrEnum):
    REGISTERED = "registered"  # known, in no batch yet (or waiting for its next try)
    BATCHED = "batched"  # frozen into a batch that is due or claimed
    DONE = "done"
    PARKED = "parked"  # gave up; visible with its error, retried on request


@dataclass(frozen=True, slots=True)
class ObjectNotice:
    """Valid notification: this raw object exists."""

    bucket: str
    key: str
    org: str
    collector: str
    signal: Signal
    arrival_hour_ns: int
    size: int
    etag: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Message that cannot become work, stored with the reason and its origin."""

    source: str
    reason: str
    payload: bytes
    topic: str = ""
    partition: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True)
class TopicOffset:
    topic: str
    partition: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class Intake:
    """Reading of one sensor tick, written in a single transaction."""

    cluster: str
    notices: tuple[ObjectNotice, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    offsets: tuple[TopicOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """Counts of registering: new objects, repeats of known ones, keys whose object changed."""

    registered: tuple[ObjectNotice, ...]
    duplicates: int
    overwritten: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class PendingObject:
    """Registered object waiting for a batch."""

    object_id: int
    org: str
    collector: str
    signal: Signal
    arrival_hour_ns: int
    size: int
    tries: int
    registered_at_ns: int


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Batch to be created: the ordered, frozen inputs."""

    kind: BatchKind
    org: str
    collector: str
    signal: Signal
    hour_ns: int
    object_ids: tuple[int, ...] = ()
    segment_ids: tuple[str, ...] = ()
    """Segments to work on: they must be live, and in no other batch that is under way."""
    frequency_ms: int = 0


@dataclass(frozen=True, slots=True)
class RawObject:
    object_id: int
    bucket: str
    key: str
    size: int
    etag: str
    tries: int
    arrival_hour_ns: int
    collector: str = ""
    hour_rows: int = 0
    """Rows in the hour of the request (`objects_with_rows_in` only)."""


@dataclass(frozen=True, slots=True)
class DueBatch:
    """Due batch, with enough to decide on requesting a run."""

    batch_id: int
    org: str
    hour_ns: int
    attempt: int
    requests: int
    bytes: int
    objects: int
    waited_s: float = field(default=0.0, compare=False)
    """Time since it could first have been claimed."""
    requested_s: float = field(default=float("inf"), compare=False)
    """Time since a run was last requested for it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Batch that this process, and nobody else, may publish while the token holds."""

    batch_id: int
    token: str
    attempt: int
    crashes: int
    """Attempts that ended without saying which input was at fault."""
    kind: BatchKind
    org: str
    collector: str
    signal: Signal
    hour_ns: int
    inputs: tuple[RawObject, ...]
    frequency_ms: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """Immutable Parquet object, as the index row describes it."""

    segment_id: str
    key: str
    org: str
    collector: str
    signal: Signal
    dataset: str
    frequency_ms: int
    hour_ns: int
    width_ns: int
    min_ns: int
    max_ns: int
    rows: int
    bytes: int
    level: int
    origin: str
    format_version: int
    sort_version: int
    terms: tuple[int, ...] = field(compare=False)
    """Index terms, written and looked for there, empty when read back."""
    label_names: tuple[str, ...]
    metric_names: tuple[str, ...]
    """Metric names, empty unless `SegmentQuery.names` asks for them."""
    series_offset: int
    series_length: int
    bloom_offset: int
    bloom_length: int
    object_ids: tuple[int, ...] = field(default=(), compare=False)
    """Raw objects with rows in here (written to `segment_source`, empty when read back)."""
    settled: bool = False
    """True when nothing was left to merge it with, as far as was known when it was written."""


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """Live segment, with what decides about merging it."""

    segment_id: str
    key: str
    org: str
    collector: str
    signal: Signal
    dataset: str
    frequency_ms: int
    hour_ns: int
    width_ns: int
    rows: int
    bytes: int
    level: int
    settled: bool
    published_at_ns: int


@dataclass(frozen=True, slots=True)
class ObjectDone:
    """Raw object whose every row is in this publication."""

    object_id: int
    etag: str
    rows: int
    rejected: int
    quarantined: int
    hours: tuple[tuple[int, int], ...]
    """(event hour start, rows), live rows only."""
    remark: str = ""
    """Position and reason of the first of its rejected records."""


@dataclass(frozen=True, slots=True)
class ObjectFailed:
    object_id: int
    error: str


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    topic: str
    key: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class BuiltPartition:
    """Partition that is built from others, as one build left it."""

    start_ns: int
    expected_version: int
    """Version when the build was planned; 0 for one that never was built."""
    built_from: Mapping[int, int]
    """Version of each source partition by its start, as read when the build was planned."""
    objects: tuple[int, ...] = ()
    """Derived metrics only: raw objects whose records were counted, if `by` is not empty."""
    by: str = ""
    """Derived metrics only: what counted them; empty: nothing can be added to what was built."""


@dataclass(frozen=True, slots=True)
class HourGrowth:
    """Records of an hour, and those that its derived metrics stand for."""

    version: int
    """Version of the derived hour; 0: it never was derived."""
    built_version: int
    """`sent_version` of the hour that it was derived from."""
    built_objects: tuple[int, ...]
    built_by: str
    sent_version: int
    rewritten_version: int
    """`sent_version` after the newest publication that replaced records."""
    objects: tuple[tuple[int, int], ...]
    """Raw objects with records in the hour, and how many."""
    added: tuple[Segment, ...]
    """Segments, live or retired, that were cooked of objects beyond `built_objects`."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Changes of one batch, applied in one transaction or not at all."""

    claim: Claim
    segments: tuple[Segment, ...]
    done: tuple[ObjectDone, ...] = ()
    failed: tuple[ObjectFailed, ...] = ()
    retire: tuple[str, ...] = ()
    hours: tuple[int, ...] = ()
    """Event hours whose content changes: each gets its partition version bumped."""
    outbox: tuple[OutboxMessage, ...] = ()
    expect_sources: tuple[int, ...] | None = None
    """Rebuild only: the exact objects with rows in the hour, as seen when planning."""
    given_up: tuple[int, ...] = ()
    """Rebuild only: objects whose rows of this hour may be lost; they are no sources any more."""
    max_tries: int = 3
    """Tries at which a failed object that was alone in its batch is parked."""
    frequency_ms: int = 0
    built: tuple[BuiltPartition, ...] = ()
    """Rollups only: partitions of this frequency, bumped like `hours` if they have the expected versions."""
    materialized: tuple[Signal, BuiltPartition] | None = None
    """Derived metrics only: the hour they are derived from, whose sources are it and its neighbours."""
    recorded: RecordedFrom | None = None
    rule_hours: tuple[RuleHour, ...] = ()
    """Derived metrics only: the rules that this hour was derived by; they replace those of before."""
    rules_revision: int = 0
    """Revision of the rules as read when planning derived or recorded metrics; due if there is a newer."""


@dataclass(frozen=True, slots=True)
class Partition:
    org: str
    signal: Signal
    frequency_ms: int
    start_ns: int
    version: int
    built_from: Mapping[int, int] = field(hash=False)
    updated_at_ns: int
    due: bool = False
    """True if its sources changed since it was built."""
    expired: bool = False
    """True if its segments were deleted because of their age; its version still stands for what they held."""
    sent_version: int = 0
    """Version of what was sent alone, without what is derived from it or from others."""


@dataclass(frozen=True, slots=True)
class DuePartition:
    org: str
    signal: Signal
    frequency_ms: int
    start_ns: int
    due_s: float
    """Time it has been due, in seconds."""


@dataclass(frozen=True, slots=True)
class TierView:
    """Partitions and live segments of an interval, as they were at one moment."""

    partitions: tuple[Partition, ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class TierQuery:
    """Partitions and segments of these frequencies that `(start_ns, end_ns]` touches."""

    org: str
    signal: Signal
    frequencies_ms: tuple[int, ...]
    start_ns: int
    end_ns: int
    dataset: str = ""
    """Name of quarantine or side data; empty: everything else."""


@dataclass(frozen=True, slots=True)
class SegmentQuery:
    """Segments a query may need: pruned by everything the index knows."""

    org: str
    dataset: str
    frequency_ms: int
    start_ns: int
    end_ns: int
    """Bounds, both inclusive."""
    terms: tuple[tuple[int, ...], ...] = ()
    """Conjunction of alternatives: at least one term of every tuple must be present."""
    collectors: tuple[str, ...] = ()
    names: bool = False
    """True if the names of labels and metrics are asked for."""


@dataclass(frozen=True, slots=True)
class CountQuery:
    """Question how many live segments a dataset has, whatever their time."""

    org: str
    dataset: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Answers to all questions of one query, as of one moment."""

    segments: tuple[tuple[Segment, ...], ...]
    """Live segments by question, ordered by (min_ns, segment_id)."""
    tiers: TierView = TierView((), ())
    outdated: str = ""
    """Reason why these are not the answers of now: they were remembered; empty: they are."""
    live: int | None = None
    """Live segments of the dataset; None where nobody counted them."""
    gaps: tuple[RuleGaps, ...] = ()
    """Hours that rules do not cover, one entry for each rule that was asked about, in that order."""


@dataclass(frozen=True, slots=True)
class WholeSegment:
    """Segment with all that a query is pruned by."""

    segment: Segment
    """Segment with the names of labels and metrics; its terms stand beside it."""
    terms: bytes
    """Terms as native 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Live segments of whole intervals, as of one moment."""

    live: tuple[tuple[str, ...] | None, ...]
    """Segment ids by question, ordered by (min_ns, segment_id); None where there are too many."""
    fresh: tuple[WholeSegment, ...]
    """Segments that the caller did not know."""
    tiers: tuple[TierView, ...] = ()


class PublishConflictError(RuntimeError):
    """Index that is no longer what the plan assumed; nothing was changed, plan the batch again."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Messages stored with a reason, and messages not yet handed to Kafka."""

    dead_letters: int
    outbox_messages: int
    outbox_oldest_s: float
