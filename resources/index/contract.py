"""The index is a set of protocols, implemented in PostgreSQL and in memory.

They are split by client: the query side and the ingress see only their slice, so that their tests need
nothing else and their code cannot reach further. Every method is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from resources.index.account_types import ApiKey, MetricFamily, StorageProfile
from resources.index.job_types import JobLimits, QueryJob
from resources.index.open_tables import TableIndex
from resources.index.query_log import QueryLogIndex
from resources.index.rule_contract import RuleIndex
from resources.index.rule_types import CoverageQuery, RuleHour
from resources.index.ruling_contract import AlertIndex
from resources.index.sweeping_types import (
    Aging,
    LakeFile,
    Leftovers,
    OldObject,
    OldTier,
    OldWindow,
    OrphanCount,
    Remove,
    Retention,
    TierStatus,
)
from resources.index.types import (
    Backlog,
    BatchKind,
    BatchPlan,
    Claim,
    CountQuery,
    DeadLetter,
    DueBatch,
    DuePartition,
    HourGrowth,
    Intake,
    IntakeResult,
    LiveSegment,
    ObjectNotice,
    OutboxMessage,
    Partition,
    PendingObject,
    Publication,
    RawObject,
    Segment,
    SegmentQuery,
    Snapshot,
    Survey,
    TierQuery,
    TierView,
    TopicOffset,
)
from resources.lake.layout import PrefixMapping, Signal
from resources.lake.options import OrgOptions

Grouping = Callable[[Sequence[PendingObject]], Sequence[BatchPlan]]
Deliver = Callable[[Sequence[OutboxMessage]], None]


class KeyIndex(Protocol):
    """Access to API keys."""

    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        """Return the live (not revoked, not expired) key with this sha256, of an enabled organisation."""


class TierIndex(Protocol):
    """Partitions and segments together."""

    def tier_view(
        self,
        org: str,
        signal: Signal,
        frequencies_ms: Sequence[int],
        start_ns: int,
        end_ns: int,
        dataset: str = "",
    ) -> TierView:
        """Return partitions that overlap `(start_ns, end_ns]` and live segments whose window does, in one
        snapshot.

        A rollup may be used only while `resources.lake.currency` says so of the partitions seen with it.
        Without `dataset`, quarantined rows and side data are not in it.
        """

    def rule_hours(self, org: str, signal: Signal, start_ns: int, end_ns: int) -> list[RuleHour]:
        """List the rules that hours from `start_ns` to before `end_ns` were derived by, by hour and id."""

    def hour_growth(self, org: str, signal: Signal, hour_ns: int) -> HourGrowth | None:
        """Return what came to an hour since metrics were derived from it; None: it never had a record."""


class MetadataIndex(Protocol):
    """Descriptions of metric families, kept per organisation."""

    def metric_metadata(
        self, org: str, since_ns: int, families: Collection[str] | None = None
    ) -> list[MetricFamily]:
        """List what was sent since a moment, sorted; `families` narrows it to these."""


class JobRequestIndex(Protocol):
    """Query jobs as the query API asks for them and cancels them."""

    def add_query_job(self, job: QueryJob, limits: JobLimits, most: int) -> bool:
        """Add a due job; False where the organisation has `most` under way."""

    def query_job(self, org: str, job_id: str) -> QueryJob | None:
        """Return a job of this organisation that has not expired."""

    def cancel_query_job(self, org: str, job_id: str, limits: JobLimits) -> bool:
        """Cancel a job that is under way; False where there is none."""


class JobDriverIndex(Protocol):
    """Query jobs as their drivers change them: whatever a lost lease would allow is refused with False."""

    def claim_query_job(self, limits: JobLimits) -> QueryJob | None:
        """Claim a job that is due or whose driver ended, of the organisation with the fewest at work.

        One whose attempts are used up fails instead.
        """

    def beat_query_job(self, job: QueryJob, progress: Mapping[str, float], limits: JobLimits) -> bool:
        """Extend the lease; False: it was cancelled, or is somebody else's."""

    def finish_query_job(
        self, job: QueryJob, result: Mapping[str, object], progress: Mapping[str, float], limits: JobLimits
    ) -> bool: ...

    def fail_query_job(self, job: QueryJob, error: str, code: str, limits: JobLimits) -> bool: ...

    def put_off_query_job(self, job: QueryJob, error: str, delay_s: float, limits: JobLimits) -> bool:
        """Make due again after a delay, or fail after the last attempt: Spark was away."""


class QueryIndex(KeyIndex, MetadataIndex, JobRequestIndex, RuleIndex, AlertIndex, QueryLogIndex, Protocol):
    """Index as queries see it."""

    def snapshot(
        self,
        questions: Sequence[SegmentQuery],
        tiers: TierQuery | None = None,
        counted: CountQuery | None = None,
        coverage: Sequence[CoverageQuery] = (),
    ) -> Snapshot:
        """Answer all questions of one query as of one moment; `counted` is for those that are explained.

        Segments of two moments hold the same rows twice, or not at all, when a compaction commits in between.
        """

    def ingest_losses(self, org: str, start_ns: int, end_ns: int) -> list[Mapping[str, object]]:
        """Count by signal what objects brought that arrived in the hours of an interval, and what was lost.

        Rows, `rejected` records, `quarantined` rows, `parked_objects`, and the `reason` of the newest loss.
        """

    def survey(
        self,
        questions: Sequence[SegmentQuery],
        tiers: Sequence[TierQuery],
        known: Collection[str],
        most: int,
    ) -> Survey:
        """List the live segments of whole intervals as of one moment, in full those that are not `known`.

        Terms of the questions count for nothing. At most `most` segments are listed of a question.
        """


class StatusIndex(Protocol):
    """State of the pipeline in numbers, for `lakerunner status` and `/metrics`."""

    def pipeline_status(self) -> list[Mapping[str, object]]:
        """Count by organisation and signal: objects by state, pending bytes, oldest, segments, rows."""

    def tier_status(self) -> TierStatus:
        """Count per organisation, signal and dataset: live, unsettled, due, retired; orphans."""

    def counters(self) -> dict[str, float]:
        """Return the sums of `add_counters`; a name may carry labels as in Prometheus text."""

    def backlog(self) -> Backlog:
        """Count dead letters and messages in the outbox."""


class IngressIndex(KeyIndex, StatusIndex, Protocol):
    """Index as the ingress sees and changes it."""

    def storage_profiles(self) -> dict[str, StorageProfile]: ...

    def prefix_mappings(self) -> list[PrefixMapping]: ...

    def organisations(self) -> list[str]:
        """List the names of enabled organisations, sorted."""

    def org_options(self) -> dict[str, OrgOptions]:
        """Return the options of organisations that set any."""

    def append_outbox(self, messages: Sequence[OutboxMessage]) -> None: ...

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> None: ...

    def add_counters(self, amounts: Mapping[str, float]) -> None: ...

    def put_metric_metadata(self, org: str, families: Sequence[MetricFamily]) -> None:
        """Add descriptions, up to `MAX_FAMILIES`; one that is there counts as sent again."""


class RetentionIndex(Protocol):
    """Retention of tiers."""

    def retentions(self) -> list[Retention]:
        """List the retentions; a tier without one is kept for ever."""


class AdminIndex(RetentionIndex, Protocol):
    """Index as administrators change it."""

    def create_organisation(self, org: str) -> bool:
        """Create or enable an organisation; True when it is new."""

    def create_api_key(
        self, org: str, role: str, name: str, key_hash: bytes, expires_at_ns: int | None
    ) -> None: ...

    def revoke_api_key(self, org: str, name: str) -> int: ...

    def put_storage_profile(self, profile: StorageProfile) -> None: ...

    def put_prefix_mapping(self, mapping: PrefixMapping) -> None: ...

    def put_org_setting(self, org: str, name: str, value: object) -> None:
        """Set one option; None removes it. Raise `OptionError` for a name or value that does not exist."""

    def org_settings(self, org: str) -> dict[str, object]:
        """Return the settings as they were set."""

    def retry_parked(self, org: str, object_ids: Sequence[int] | None) -> int:
        """Register parked objects again (None: all of the organisation's)."""

    def put_retention(self, org: str, signal: Signal, tier: str, keep_days: int) -> None: ...

    def remove_retention(self, org: str, signal: Signal, tier: str) -> bool:
        """Remove a retention; True if there was one."""


class SweepIndex(IngressIndex, RetentionIndex, Protocol):
    """Index as the sweeper sees and changes it.

    Whatever deletes judges its rows again, skips what somebody else has locked, and returns what it deleted.
    """

    def sweep_lock(self) -> AbstractContextManager[bool]:
        """Lock out other sweepers for as long as the block runs; False when there is one."""

    def all_organisations(self) -> list[str]:
        """List all organisations, sorted; disabled ones too, since their data ages like any other."""

    def aging(self, tier: OldTier, limit: int) -> Aging:
        """List at most `limit` segments and partitions that start before `ended_by_ns`."""

    def expire(self, tier: OldTier, window: OldWindow) -> bool:
        """Retire these segments and expire these partitions, if the window still holds exactly them, free."""

    def retired_segments(self, grace_s: float, org: str, limit: int) -> list[LakeFile]:
        """List segments retired for longer than the grace and in no batch that is under way, oldest first."""

    def delete_retired(self, keys: Sequence[str], grace_s: float, remove: Remove) -> list[LakeFile]: ...

    def old_objects(
        self, org: str, signal: Signal, ended_by_ns: int, limit: int, without: Sequence[str] = ()
    ) -> list[OldObject]:
        """List done objects of arrival hours that ended by then, with bytes, in no bucket of `without`."""

    def expire_objects(self, object_ids: Sequence[int], remove: Remove) -> list[OldObject]:
        """Expire objects of one bucket: their bytes go, their rows stay."""

    def forgettable_objects(
        self, org: str, signal: Signal, ended_by_ns: int, expired_s: float, limit: int
    ) -> list[int]:
        """List objects expired `expired_s` ago, of which no segment holds rows any more."""

    def forget_objects(self, object_ids: Sequence[int]) -> int: ...

    def known_segment_keys(self, keys: Sequence[str]) -> set[str]:
        """Return the keys of live and of retired segments."""

    def note_listed(self, org: str, unknown: Mapping[str, int], known: Sequence[str]) -> int:
        """Record files (key → bytes) without a segment as orphans; return how many are new."""

    def ripe_orphans(self, age_s: float, org: str, limit: int, without: Sequence[str] = ()) -> list[LakeFile]:
        """List orphans found longer ago than that, unless an older batch under way might publish them."""

    def delete_orphans(self, keys: Sequence[str], age_s: float, remove: Remove) -> list[LakeFile]: ...

    def orphan_counts(self) -> dict[str, OrphanCount]: ...

    def forget_batches(self, batch_s: float, limit: int) -> int:
        """Delete batches that have been done for so long, and of whose segments nothing is left."""

    def forget_silent_runs(self, run_s: float) -> int: ...

    def forget_asked(self, before_ns: int) -> int: ...

    def expired_query_jobs(self, org: str, limit: int) -> list[tuple[str, str]]:
        """List organisation and id of jobs past their time that nobody works on; no name: of all."""

    def forget_query_job(self, job_id: str) -> bool:
        """Delete a job that is still past its time."""

    def set_gauges(self, values: Mapping[str, float]) -> None: ...

    def leftovers(self, batch_s: float, run_s: float, message_s: float) -> Leftovers: ...


class PipelineIndex(IngressIndex, TierIndex, RetentionIndex, RuleIndex, TableIndex, Protocol):
    """Index as sensors, runs and singletons see and change it. See design notes in `docs/concepts.md`."""

    def read_offsets(self, cluster: str, topic: str) -> list[TopicOffset]: ...

    def take_in(self, intake: Intake) -> IntakeResult:
        """Register objects, keep dead letters and move the offsets, together."""

    def plan_batches(self, signal: Signal, group: Grouping, held_back: Sequence[str] = ()) -> int:
        """Show `group` the pending objects (locked) and create the batches it returns.

        Objects of organisations in `held_back` are not shown, so that they hide nobody else's.
        """

    def batched_bytes(self, window_s: float) -> dict[str, int]:
        """Sum the bytes put into cooking batches in the last `window_s`, by organisation."""

    def pending_bytes(self, signal: Signal) -> int:
        """Sum the bytes of objects that are registered or in a batch and not done.

        Without what waits because of its organisation's own limit: that may grow for days.
        """

    def set_gauges(self, values: Mapping[str, float]) -> None:
        """Replace the values of gauges, which stand beside the counters."""

    def release_expired(self, lease_s: float) -> int:
        """Make claims without a heartbeat for `lease_s` due again, one attempt later."""

    def due_batches(self, signal: Signal, kind: BatchKind) -> list[DueBatch]: ...

    def note_requested(self, batch_ids: Sequence[int]) -> None:
        """Record that a run was requested for these: their next run key must differ."""

    def claim_due(self, signal: Signal, kind: BatchKind, max_bytes: int) -> list[Claim]:
        """Claim due batches, oldest first, at least one, until `max_bytes` of input."""

    def create_claimed(self, plan: BatchPlan) -> Claim:
        """Create a claimed batch (rebuilds, work on segments); its inputs keep their state.

        `PublishConflictError` when an input is gone, or a segment is in another batch that is under way.
        """

    def beat(self, tokens: Sequence[str]) -> int:
        """Extend the lease of claims; return the number still held."""

    def give_back(self, claim: Claim, error: str, delay_s: float) -> None:
        """Make due again after `delay_s`: the attempt failed for reasons outside its inputs."""

    def abandon(self, claim: Claim, error: str) -> None:
        """Finish a claimed rebuild that will not be retried, with nothing published."""

    def split(self, claim: Claim, error: str, max_tries: int) -> None:
        """Halve a batch whose attempt crashed without naming the input, or park its single object."""

    def publish(self, publication: Publication) -> dict[int, int]:
        """Apply everything or raise `PublishConflictError`; returns the new version of each partition.

        What is built from a bumped partition becomes due in the same transaction.
        """

    def recorded_sources(
        self, org: str, signals: Sequence[Signal], from_ns: int, to_ns: int
    ) -> dict[int, int]:
        """Return by hour a number that grows with every change of what recorded metrics are made from.

        That is what was sent of these signals, and all derived metrics.
        """

    def objects_with_rows_in(self, org: str, signal: Signal, hour_ns: int) -> list[RawObject]:
        """List done objects that hold rows of this event hour."""

    def pending_objects(
        self, org: str, signal: Signal, from_hour_ns: int, to_hour_ns: int
    ) -> list[PendingObject]:
        """List registered objects whose arrival hour lies in the range (both inclusive)."""

    def batched_objects(self, org: str, signal: Signal, from_hour_ns: int, to_hour_ns: int) -> int:
        """Count the objects of these arrival hours (both inclusive) in batches that are not done."""

    def batch_now(self, plans: Sequence[BatchPlan]) -> list[Claim]:
        """Create batches for these registered objects and claim them at once."""

    def live_segments(self, org: str, signal: Signal, frequency_ms: int, hour_ns: int) -> list[Segment]:
        """List live segments of exactly this window; `tier_view` lists those of wider ones."""

    def due_partitions(self, signal: Signal, frequency_ms: int, min_due_s: float = 0.0) -> list[DuePartition]:
        """List partitions whose sources changed at least `min_due_s` ago, the longest due first."""

    def put_off(
        self, org: str, signal: Signal, frequency_ms: int, starts: Sequence[int], *, ever: bool
    ) -> None:
        """Postpone due partitions that cannot be built: due since now, or (`ever`) not due until a source
        changes.
        """

    def unsettled(self, signal: Signal, org: str = "") -> list[LiveSegment]:
        """List all live segments of every window (hour, day) with one that is not settled, for the planner.

        Without those that are inputs of a batch that is under way.
        """

    def live_in(self, signal: Signal, org: str, start_ns: int, end_ns: int) -> list[LiveSegment]:
        """List live segments of windows that overlap `(start_ns, end_ns]`, settled or not."""

    def settle(self, segment_ids: Sequence[str]) -> int:
        """Mark segments that have nothing to be merged with; return how many were still live."""

    def partitions(self, org: str, signal: Signal, frequency_ms: int) -> list[Partition]: ...

    def known_keys(self, bucket: str, keys: Sequence[str]) -> set[str]: ...

    def register_listed(self, notices: Sequence[ObjectNotice]) -> IntakeResult:
        """Register objects found by listing, which no notification announced."""

    def drain_outbox(self, deliver: Deliver, limit: int) -> int:
        """Lock some messages, hand them to `deliver`, delete them; nothing is deleted if it raises."""

    def beat_run(self, run_id: str) -> None: ...

    def rest_run(self, run_id: str, seconds: float) -> None:
        """Extend the heartbeat in advance, for a run whose next step is yet to begin."""

    def forget_run(self, run_id: str) -> None: ...

    def run_heartbeats(self) -> dict[str, float]:
        """Return the seconds since the last heartbeat of every run that ever beat and has not ended."""
