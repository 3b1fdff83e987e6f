"""The ingest sensor of a signal turns notifications into batches and run requests.

A tick is one transaction (offsets, raw objects, dead letters) and then batches; run requests derive from the
batch rows alone, so a crash anywhere leaves them for the next tick. Kafka being away fails the tick visibly
and stops nothing: the reconciler requests what is due.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from lakerunner_assets.cooked.plan import BatchBounds, group_pending
from lakerunner_assets.keys import Tier, asset_key
from lakerunner_assets.partitions import in_window, partition_key
from resources.bindings import Lakerunner
from resources.index.contract import PipelineIndex
from resources.index.types import (
    BatchPlan,
    DeadLetter,
    Intake,
    IntakeResult,
    ObjectNotice,
    PendingObject,
    TopicOffset,
)
from resources.kafka.reader import Message
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, Signal
from resources.notifications.events import MalformedMessageError
from resources.notifications.references import (
    Registry,
    UnknownBucketError,
    UnknownOrganisationError,
    decode_message,
    resolve,
)
from resources.settings import Settings
from sensors.quotas import WINDOW_S, Quotas, messages_to_read, quotas
from sensors.raw_listing import DROPPED_HOURS, listing_requests
from sensors.requests import cook_requests

MAX_REASON = 4000


def sort_messages(
    cluster: str, messages: Sequence[Message], offsets: Sequence[TopicOffset], registry: Registry
) -> Intake:
    """Sort messages into notices, dead letters and offsets of one transaction.

    Pure: the registry says what exists, the result says what to write. A record that is refused keeps its
    message, not its neighbours. Only keys that are deliberately not telemetry (folders, our own segments)
    leave no trace.
    """
    notices: list[ObjectNotice] = []
    dead: list[DeadLetter] = []
    for message in messages:
        found, refused = _sort_message(message, registry)
        notices += found
        if refused:
            dead.append(_dead(message, "; ".join(refused)[:MAX_REASON]))
    return Intake(cluster, tuple(notices), tuple(dead), tuple(offsets))


def arrivals(notices: Iterable[ObjectNotice]) -> dict[tuple[str, Signal, int], list[ObjectNotice]]:
    """Group newly registered objects by (organisation, signal, arrival hour), for Dagster's log."""
    found: dict[tuple[str, Signal, int], list[ObjectNotice]] = {}
    for notice in notices:
        found.setdefault((notice.org, notice.signal, notice.arrival_hour_ns), []).append(notice)
    return found


def _sort_message(message: Message, registry: Registry) -> tuple[list[ObjectNotice], list[str]]:
    """Return the notices of a message, and why some of it cannot be placed."""
    try:
        records = decode_message(message.value, message.timestamp_ms * 1_000_000)
    except MalformedMessageError as error:
        return [], [str(error)]
    found: list[ObjectNotice] = []
    refused: list[str] = []
    for record in records:
        try:
            found.append(resolve(record, registry))
        except IgnoredKeyError:
            continue
        except (InvalidKeyError, UnknownBucketError, UnknownOrganisationError) as error:
            refused.append(str(error))
    return found, refused


def _dead(message: Message, reason: str) -> DeadLetter:
    return DeadLetter("kafka", reason, message.value, message.topic, message.partition, message.offset)


def ingest_sensor(
    signal: Signal, jobs: Sequence[UnresolvedAssetJobDefinition], interval_s: int
) -> dg.SensorDefinition:
    """Build the sensor; `jobs` are the cooking and the listing job of the signal."""

    @dg.sensor(
        name=f"ingest_{signal.value}",
        jobs=jobs,
        minimum_interval_seconds=interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Registers {signal.value} objects announced on Kafka, requests cooking of what is due.",
    )
    def ingest(
        context: dg.SensorEvaluationContext, lakerunner: Lakerunner
    ) -> dg.SensorResult | dg.SkipReason:
        index, settings = lakerunner.index, lakerunner.settings
        add_partitions(index, context.instance)
        result, messages_lost = _take_in(context, index, settings, signal)
        plan_batches(index, settings, signal)
        requests = cook_requests(index, context.instance, settings, signal)
        if messages_lost:
            orgs = context.instance.get_dynamic_partitions("org")
            requests += listing_requests(orgs, signal, time.time_ns(), DROPPED_HOURS, "Kafka lost messages")
        events = _events(result, settings)
        if not (requests or events):
            return dg.SkipReason("nothing new, nothing due")
        return dg.SensorResult(run_requests=requests, asset_events=events)

    return ingest


def plan_batches(index: PipelineIndex, settings: Settings, signal: Signal) -> int:
    """Turn ripe groups of pending objects into batches."""
    bounds = BatchBounds.of(settings)
    held_back: set[str] = set()
    planned = 0
    while True:
        allowed = quotas(index.org_options(), index.batched_bytes(WINDOW_S))
        held_back |= set(allowed.exhausted())
        sorted_out = BatchGrouping(allowed, bounds, time.time_ns())
        planned += index.plan_batches(signal, sorted_out.group, sorted(held_back))
        if sorted_out.cut_off <= held_back:
            return planned
        held_back |= sorted_out.cut_off  # what they have waiting must not hide the objects of others


@dataclass(slots=True)
class BatchGrouping:
    """One pass over pending objects: those that may go, and organisations that wait a minute."""

    allowed: Quotas
    bounds: BatchBounds
    now_ns: int
    cut_off: set[str] = field(default_factory=set)

    def group(self, pending: Sequence[PendingObject]) -> list[BatchPlan]:
        chosen = self.allowed.within(pending)
        gone = {obj.object_id for obj in chosen}
        self.cut_off = {obj.org for obj in pending if obj.object_id not in gone}
        return group_pending(chosen, self.bounds, self.now_ns)


def add_partitions(index: PipelineIndex, instance: dg.DagsterInstance) -> None:
    """Add partitions of new organisations before any event or run names them."""
    missing = sorted(set(index.organisations()) - set(instance.get_dynamic_partitions("org")))
    if missing:
        instance.add_dynamic_partitions("org", missing)


def _take_in(
    context: dg.SensorEvaluationContext, index: PipelineIndex, settings: Settings, signal: Signal
) -> tuple[IntakeResult, bool]:
    """Register what was announced; tell if Kafka dropped messages that nobody had read."""
    from resources.kafka.producer import ingest_topic
    from resources.kafka.reader import EventKind, commit_for_lag, read_batch
    from resources.notifications.references import Registry

    topic = ingest_topic(signal.value)
    offsets = index.read_offsets(settings.kafka_cluster, topic)
    pending = index.pending_bytes(signal)
    wanted = messages_to_read(pending, settings.pending_max_bytes, settings.sensor_max_messages)
    if not wanted:
        context.log.warning(f"{pending} bytes are pending: {topic} is not read until some are done")
    batch = read_batch(settings.require("kafka_bootstrap"), topic, offsets, wanted)
    for event in batch.events:
        context.log.warning(f"{topic}[{event.partition}] {event.kind.value}: {event.detail}")
    registry = Registry(
        index.storage_profiles(), tuple(index.prefix_mappings()), frozenset(index.organisations())
    )
    intake = sort_messages(settings.kafka_cluster, batch.messages, batch.next_offsets, registry)
    result = index.take_in(intake)
    index.set_gauges({f'lakerunner_ingest_lag_messages{{signal="{signal.value}"}}': float(batch.lag)})
    for letter in intake.dead_letters:
        context.log.warning(f"kept as dead letter: {letter.reason}")
    if batch.messages:
        commit_for_lag(settings.kafka_bootstrap, batch.next_offsets)
    return result, any(event.kind in {EventKind.GAP, EventKind.BROKER_RESET} for event in batch.events)


def _events(result: IntakeResult, settings: Settings) -> list[dg.AssetMaterialization]:
    now = time.time_ns()
    return [
        _materialization(org, signal, hour, notices)
        for (org, signal, hour), notices in arrivals(result.registered).items()
        if in_window(hour, settings.horizon, now)
    ]


def _materialization(
    org: str, signal: Signal, hour: int, notices: list[ObjectNotice]
) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(
        asset_key(Tier.RAW, signal),
        partition=partition_key(org, hour),
        metadata={"objects": len(notices), "bytes": sum(notice.size for notice in notices)},
    )
