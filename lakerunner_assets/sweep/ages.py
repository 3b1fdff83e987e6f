"""Segments, raw objects and rows past their age expire here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lakerunner_assets.sweep.plan import forgettable_ages, old_tiers, old_windows, raw_ages
from lakerunner_assets.sweep.report import Kind, Sweep
from resources.index.sweeping_types import OldObject
from resources.lake.timecut import DAY_NS, cut
from resources.objects.store import open_store
from resources.settings import SettingsError


def expire_windows(job: Sweep) -> None:
    """Retire segments past their retention, with whole partitions or not at all."""
    for tier in old_tiers(job.retentions, job.now_ns):
        aging = job.index.aging(tier, job.policy.windows)
        job.report.unfinished |= aging.seen_to_ns < tier.ended_by_ns
        for (window,) in job.chunks("expired", old_windows(aging, tier), 1):
            if job.dry or job.index.expire(tier, window):
                job.report.add(Kind.EXPIRED, tier.org, [(s.key, s.bytes) for s in window.segments])
                job.report.partitions += len(window.partitions)


def expire_raw(job: Sweep) -> None:
    """Delete old raw objects, bucket by bucket with its credentials; their rows stay."""
    silent: set[str] = set()
    for age in raw_ages(job.retentions, job.now_ns):
        before = -1
        while len(silent) > before:  # again without the buckets that failed, which may hide all others
            before = len(silent)
            found = job.index.old_objects(
                age.org, age.signal, age.ended_by_ns, job.policy.files, sorted(silent)
            )
            job.note_limit(found)
            for bucket, objects in _by_bucket(found).items():
                if not _empty(job, bucket, objects):
                    silent.add(bucket)


def _empty(job: Sweep, bucket: str, objects: Sequence[OldObject]) -> bool:
    """Delete the objects; tell if the bucket complied."""
    problems = len(job.report.problems)
    with job.report_faults(f"bucket {bucket}"):
        profile = job.index.storage_profiles().get(bucket)
        if profile is None:
            raise SettingsError("it has no storage profile any more")
        store = open_store(profile.url, job.settings, profile.credentials_ref)
        for chunk in job.chunks("raw objects deleted", objects, job.policy.chunk):
            ids = [obj.object_id for obj in chunk]
            gone = chunk if job.dry else job.index.expire_objects(ids, store.delete)
            for obj in gone:
                job.report.add(Kind.RAW, obj.org, [(f"{obj.bucket}/{obj.key}", obj.bytes)])
    return len(job.report.problems) == problems


def forget_rows(job: Sweep) -> None:
    """Forget rows that nothing refers to.

    Those of raw objects go after their bytes, and when no queue can repeat them.
    """
    policy = job.policy
    if not job.dry and not job.org:
        for _ in job.chunks("batches forgotten", range(policy.files), policy.chunk):
            count = job.index.forget_batches(policy.batch_s, policy.chunk)
            job.report.add_rows(Kind.BATCH, "", count)
            if count < policy.chunk:
                break
        job.report.add_rows(Kind.RUN, "", job.index.forget_silent_runs(policy.run_s))
        oldest_ns = cut(job.now_ns, DAY_NS) - policy.asked_days * DAY_NS
        job.report.add_rows(Kind.ASKED, "", job.index.forget_asked(oldest_ns))
    for age in forgettable_ages(job.retentions, job.now_ns):
        found = job.index.forgettable_objects(
            age.org, age.signal, age.ended_by_ns, policy.remember_s, policy.files
        )
        job.note_limit(found)
        for chunk in job.chunks("rows forgotten", found, policy.chunk):
            count = len(chunk) if job.dry else job.index.forget_objects(chunk)
            job.report.add_rows(Kind.ROW, age.org, count)
    left = job.index.leftovers(policy.batch_s, policy.run_s, policy.message_s)
    if job.dry and not job.org:
        job.report.add_rows(Kind.BATCH, "", left.batches)
        job.report.add_rows(Kind.RUN, "", left.runs)
    job.report.gauges["lakerunner_sweep_retired_waiting"] = float(left.retired)
    job.report.gauges["lakerunner_sweep_outbox_old_messages"] = float(left.old_messages)
    if left.old_messages:
        job.report.notes.append(
            f"{left.old_messages} messages wait in the outbox for more than a day: is Kafka there?"
        )


def _by_bucket(objects: Sequence[OldObject]) -> dict[str, list[OldObject]]:
    found: dict[str, list[OldObject]] = defaultdict(list)
    for obj in objects:
        found[obj.bucket].append(obj)
    return found
