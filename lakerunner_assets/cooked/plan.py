"""Pure decisions group objects into batches and units.

Pending objects become batches when a group of one organisation, collector and arrival hour is big enough or
old enough; claimed batches become units of about `task_bytes`, the largest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakerunner_assets.cooked.units import Target, Unit, UnitObject
from lakerunner_assets.partitions import horizon_ns
from resources.index.account_types import StorageProfile
from resources.index.types import BatchKind, BatchPlan, Claim, PendingObject, RawObject
from resources.lake.layout import Signal
from resources.lake.options import OrgOptions
from resources.settings import Settings

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BatchBounds:
    max_bytes: int
    max_objects: int
    max_age_ns: int

    @classmethod
    def of(cls, settings: Settings) -> BatchBounds:
        age = int(settings.batch_max_age_s * SECOND_NS)
        return cls(settings.batch_max_bytes, settings.batch_max_objects, age)


def group_pending(pending: Sequence[PendingObject], bounds: BatchBounds, now_ns: int) -> list[BatchPlan]:
    """Plan batches for every ripe group; the rest keeps waiting for company.

    An object that failed before goes alone: only then may a further failure park it.
    """
    groups: dict[tuple[object, ...], list[PendingObject]] = defaultdict(list)
    plans: list[BatchPlan] = []
    for obj in pending:
        if obj.tries:
            plans.append(_plan([obj]))
        else:
            groups[obj.org, obj.collector, obj.signal, obj.arrival_hour_ns].append(obj)
    for group in groups.values():
        chunks = _chunks(group, bounds)
        ripe = chunks if _old(chunks[-1], bounds, now_ns) else chunks[:-1]
        plans.extend(_plan(chunk) for chunk in ripe)
    return plans


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Profiles, options and settings that units need beside their objects."""

    profiles: Mapping[str, StorageProfile]
    options: Mapping[str, OrgOptions]
    """Options by organisation; one without settings is not in it."""
    settings: Settings
    oldest: Mapping[tuple[str, Signal], int] = field(default_factory=dict)
    """Time at or before which rows are too old, where segments have a retention."""


def plan_units(claim: Claim, around: Surroundings) -> list[Unit]:
    """Plan the units of one claimed batch."""
    target = Target(claim.batch_id, claim.attempt)
    bins = pack(claim.inputs, around.settings.cook_task_bytes)
    return [_unit(claim, part, objects, target, {}, around) for part, objects in enumerate(bins)]


def plan_rebuild_units(
    claims: Sequence[Claim], objects: Sequence[RawObject], around: Surroundings
) -> list[Unit]:
    """Plan units that decode each object once, for the batches of several hours."""
    targets = {claim.hour_ns: Target(claim.batch_id, claim.attempt) for claim in claims}
    units: list[Unit] = []
    for collector, mine in _by_collector(objects).items():
        for chosen in pack(mine, around.settings.cook_task_bytes):
            unit = _unit(claims[0], len(units), chosen, None, targets, around, collector)
            units.append(unit)
    return units


def pack(objects: Sequence[RawObject], task_bytes: int) -> list[list[RawObject]]:
    """Pack objects first-fit in order of id, at most `task_bytes` a bin; a larger object has its own."""
    bins: list[list[RawObject]] = []
    room = 0
    for obj in sorted(objects, key=lambda o: o.object_id):
        if not bins or obj.size > room:
            bins.append([])
            room = task_bytes
        bins[-1].append(obj)
        room -= obj.size
    return bins


def _chunks(group: Sequence[PendingObject], bounds: BatchBounds) -> list[list[PendingObject]]:
    """Split a group into chunks, full ones first; the last may still be growing."""
    chunks: list[list[PendingObject]] = [[]]
    size = 0
    for obj in group:
        full = len(chunks[-1]) >= bounds.max_objects or size + obj.size > bounds.max_bytes
        if chunks[-1] and full:
            chunks.append([])
            size = 0
        chunks[-1].append(obj)
        size += obj.size
    return chunks


def _old(chunk: Sequence[PendingObject], bounds: BatchBounds, now_ns: int) -> bool:
    return now_ns - min(obj.registered_at_ns for obj in chunk) >= bounds.max_age_ns


def _plan(objects: Sequence[PendingObject]) -> BatchPlan:
    first = objects[0]
    ids = tuple(obj.object_id for obj in objects)
    return BatchPlan(BatchKind.COOK, first.org, first.collector, first.signal, first.arrival_hour_ns, ids)


def plan_all_now(pending: Sequence[PendingObject], settings: Settings) -> list[BatchPlan]:
    """Batch every pending object at once, however young, since a person requested it."""
    return group_pending(
        pending, BatchBounds(settings.batch_max_bytes, settings.batch_max_objects, -(2**62)), 0
    )


def _by_collector(objects: Sequence[RawObject]) -> dict[str, list[RawObject]]:
    found: dict[str, list[RawObject]] = defaultdict(list)
    for obj in objects:
        found[obj.collector].append(obj)
    return found


def _unit(
    claim: Claim,
    part: int,
    objects: Sequence[RawObject],
    target: Target | None,
    targets: dict[int, Target],
    around: Surroundings,
    collector: str = "",
) -> Unit:
    settings = around.settings
    horizon = horizon_ns(settings.horizon)
    return Unit(
        signal=claim.signal,
        org=claim.org,
        collector=collector or claim.collector,
        part=part,
        objects=tuple(_unit_object(obj, check=bool(targets)) for obj in objects),
        target=target,
        targets=targets,
        buckets=_places({obj.bucket for obj in objects}, around.profiles),
        lake_url=settings.require("lake_url"),
        horizon_ns=max(horizon, around.oldest.get((claim.org, claim.signal), horizon)),
        future_tolerance_ns=settings.future_tolerance_s * SECOND_NS,
        object_max_bytes=settings.object_max_bytes,
        slice_bytes=settings.cook_slice_bytes,
        options=around.options.get(claim.org, OrgOptions()).decode,
    )


def _places(names: set[str], profiles: Mapping[str, StorageProfile]) -> dict[str, tuple[str, str]]:
    """Return the buckets that a unit reads.

    One without a profile is reported by the task, for its objects alone.
    """
    return {n: (profiles[n].url, profiles[n].credentials_ref) for n in sorted(names) if n in profiles}


def _unit_object(obj: RawObject, *, check: bool) -> UnitObject:
    return UnitObject(obj.object_id, obj.bucket, obj.key, obj.arrival_hour_ns, obj.etag if check else "")
