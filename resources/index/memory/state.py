"""The state in memory stands for tables; a copy of everything is its roll-back."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from resources.index.account_types import ApiKey, MetricFamily, StorageProfile
from resources.index.query_log import AskedQuery
from resources.index.rule_types import RuleHour, RuleKind, StoredRule
from resources.index.ruling_types import (
    AlertChange,
    AlertCorrection,
    ChangedInput,
    GroupRecord,
    RecordedOutcome,
    StoredNotice,
)
from resources.index.sampling_types import DeadTraces, SamplerRecord, StoredBatch, StoredDecision
from resources.index.types import (
    BatchPlan,
    BatchState,
    DeadLetter,
    ObjectDone,
    ObjectNotice,
    ObjectState,
    OutboxMessage,
    PendingObject,
    RawObject,
    Segment,
)
from resources.lake.layout import PrefixMapping, Signal

if TYPE_CHECKING:
    from resources.index.memory.query_jobs import StoredJob


@dataclass(slots=True)
class Object:
    object_id: int
    notice: ObjectNotice
    etag: str
    registered_at: float
    next_try_at: float
    state: ObjectState = ObjectState.REGISTERED
    tries: int = 0
    error: str = ""
    overwritten_etag: str = ""
    done: ObjectDone | None = None
    done_at: float | None = None
    expired_at: float | None = None


@dataclass(slots=True)
class Batch:
    batch_id: int
    plan: BatchPlan
    next_attempt_at: float
    created_at: float
    state: BatchState = BatchState.DUE
    attempt: int = 0
    requests: int = 0
    requested_at: float = float("-inf")
    crashes: int = 0
    token: str = ""
    beat_at: float = 0.0
    error: str = ""


@dataclass(slots=True)
class Version:
    version: int = 0
    sent: int = 0
    rewritten: int = 0
    """`sent` after the newest publication that replaced records."""
    built_from: dict[int, int] = field(default_factory=dict)
    due_at: float | None = None
    expired: bool = False
    built_objects: tuple[int, ...] = ()
    built_by: str = ""


@dataclass(slots=True)
class StoredSegment:
    """Segment and its fate."""

    segment: Segment
    published_at: float
    retired_at: float | None = None

    @property
    def live(self) -> bool:
        return self.retired_at is None


@dataclass(slots=True)
class StoredTable:
    """Dataset that other engines read."""

    table_id: int
    version: int = 0
    committed: int = -1
    changed_at: float | None = None
    committed_at: float | None = None
    changes: list[tuple[int, str, bool]] = field(default_factory=list)
    """Changes as version, segment, and whether it was retired."""


@dataclass(slots=True)
class WaitingNotice:
    """A notification and its times."""

    notice: StoredNotice
    receiver: str
    identity: str
    created_at: float
    busy_until: float
    error: str = ""


@dataclass(slots=True)
class WaitingSamples:
    org: str
    samples: bytes
    created_at: float
    seal: str = ""
    sealed_ns: int = 0
    busy_until: float = 0.0


@dataclass(slots=True)
class RulingState:
    """State of the tables of the ruler."""

    processes: dict[str, float] = field(default_factory=dict)
    """Ends of leases, by owner."""
    groups: dict[int, GroupRecord] = field(default_factory=dict)
    changed_at: dict[int, float] = field(default_factory=dict)
    changes: list[tuple[str, AlertChange]] = field(default_factory=list)
    notices: dict[int, WaitingNotice] = field(default_factory=dict)
    last_notice: int = 0
    samples: list[WaitingSamples] = field(default_factory=list)
    inputs: list[tuple[str, ChangedInput]] = field(default_factory=list)
    last_input: int = 0
    corrections: list[tuple[str, AlertCorrection]] = field(default_factory=list)
    recorded: dict[tuple[str, str, str], RecordedOutcome] = field(default_factory=dict)
    """Results by organisation, group and metric."""


@dataclass(slots=True)
class WaitingBatch:
    """A batch of traces to export, and its times."""

    batch: StoredBatch
    part: int
    created_at: float
    busy_until: float
    error: str = ""


@dataclass(slots=True)
class SamplingState:
    """State of the tables of samplers."""

    samplers: dict[tuple[str, str], SamplerRecord] = field(default_factory=dict)
    leases: dict[int, float] = field(default_factory=dict)
    decisions: dict[tuple[int, bytes], StoredDecision] = field(default_factory=dict)
    batches: dict[int, WaitingBatch] = field(default_factory=dict)
    letters: dict[int, tuple[float, int, DeadTraces]] = field(default_factory=dict)
    """Time, sampler and letter."""
    last_number: int = 0
    """Number that was given last to a sampler, batch or letter."""


@dataclass(slots=True)
class State:
    organisations: dict[str, bool] = field(default_factory=dict)
    settings: dict[str, dict[str, object]] = field(default_factory=dict)
    keys: dict[bytes, tuple[ApiKey, float | None, bool]] = field(default_factory=dict)
    profiles: dict[str, StorageProfile] = field(default_factory=dict)
    mappings: dict[tuple[str, str], PrefixMapping] = field(default_factory=dict)
    objects: dict[int, Object] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)
    segments: dict[str, StoredSegment] = field(default_factory=dict)
    versions: dict[tuple[str, Signal, int, int], Version] = field(default_factory=dict)
    """Versions by organisation, signal, frequency and start."""
    rule_hours: dict[tuple[str, Signal, int], tuple[RuleHour, ...]] = field(default_factory=dict)
    """Rules by organisation, signal and hour."""
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    outbox: list[tuple[float, OutboxMessage]] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)
    runs: dict[str, float] = field(default_factory=dict)
    retention: dict[tuple[str, Signal, str], tuple[int, float]] = field(default_factory=dict)
    """Days and since when, by organisation, signal and tier."""
    orphans: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    """Organisation, bytes and since when, by key."""
    metadata: dict[str, dict[MetricFamily, float]] = field(default_factory=dict)
    """Times at which each description of an organisation was sent last."""
    query_jobs: dict[str, StoredJob] = field(default_factory=dict)
    rules: dict[tuple[str, RuleKind, str, str], list[StoredRule]] = field(default_factory=dict)
    """Versions by organisation, kind, namespace and name."""
    rule_revisions: dict[str, int] = field(default_factory=dict)
    asked: dict[tuple[str, int, str], AskedQuery] = field(default_factory=dict)
    """Queries by organisation, day and identity."""
    ruling: RulingState = field(default_factory=RulingState)
    open_tables: dict[tuple[str, str], StoredTable] = field(default_factory=dict)
    """Tables by organisation and dataset."""
    last_table: int = 0
    sampling: SamplingState = field(default_factory=SamplingState)
    last_object: int = 0
    last_batch: int = 0
    """Number of the last batch: numbers are not given twice, like those of the tables."""


class MemoryPart:
    """Owner of the state; every part of the index is a subclass."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._state = State()
        self._one_at_a_time = threading.RLock()
        """Held by transactions and by reads of several tables."""

    @contextmanager
    def _transaction(self) -> Iterator[State]:
        with self._one_at_a_time:
            before = copy.deepcopy(self._state)
            try:
                yield self._state
            except BaseException:
                self._state = before
                raise


def pending_of(o: Object) -> PendingObject:
    n = o.notice
    return PendingObject(
        o.object_id,
        n.org,
        n.collector,
        n.signal,
        n.arrival_hour_ns,
        n.size,
        o.tries,
        int(o.registered_at * 1e9),
    )


def raw_of(o: Object) -> RawObject:
    n = o.notice
    return RawObject(o.object_id, n.bucket, n.key, n.size, o.etag, o.tries, n.arrival_hour_ns, n.collector)
