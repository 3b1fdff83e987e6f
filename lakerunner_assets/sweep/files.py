"""Files of retired segments, and files that no segment names, are deleted here."""

from __future__ import annotations

from collections.abc import Sequence

from lakerunner_assets.sweep.plan import is_ours, suspicious, to_list
from lakerunner_assets.sweep.report import Kind, Sweep
from resources.exposition import series
from resources.index.sweeping_types import LakeFile
from resources.lake.layout import LAKE_PREFIX, query_job_prefix
from resources.objects.client import ObjectInfo, ObjectStore

LISTED_AT = "lakerunner_sweep_listed_timestamp_seconds"
SHOWN = 5


def delete_files(job: Sweep) -> None:
    """Delete files of segments that were retired before any current query began."""
    found = job.index.retired_segments(job.policy.grace_s, job.org, job.policy.files)
    job.note_limit(found)
    with job.report_faults("files of retired segments"):
        store = job.lake()
        for chunk in job.chunks("files deleted", found, job.policy.chunk):
            keys = [file.key for file in chunk]
            gone = chunk if job.dry else job.index.delete_retired(keys, job.policy.grace_s, store.delete)
            _add_files(job, Kind.FILE, gone)


def delete_orphans(job: Sweep) -> None:
    """Delete old unclaimed files, unless the index looks like the wrong one."""
    age_s, limit = job.policy.orphan_s, job.policy.files
    found = job.index.ripe_orphans(age_s, job.org, limit)
    if found and not job.policy.all_orphans:
        doubtful = suspicious(job.index.orphan_counts())
        job.report.problems += [doubtful[org] for org in sorted({file.org for file in found} & set(doubtful))]
        found = job.index.ripe_orphans(age_s, job.org, limit, sorted(doubtful)) if doubtful else found
    job.note_limit(found)
    with job.report_faults("orphans"):
        store = job.lake()
        for chunk in job.chunks("orphans deleted", found, job.policy.chunk):
            keys = [file.key for file in chunk]
            gone = chunk if job.dry else job.index.delete_orphans(keys, age_s, store.delete)
            _add_files(job, Kind.ORPHAN, gone)


def delete_results(job: Sweep) -> None:
    """Delete files of statements on Spark that are past their time, then their rows."""
    found = job.index.expired_query_jobs(job.org, job.policy.files)
    job.note_limit(found)
    with job.report_faults("results of queries"):
        store = job.lake()
        for chunk in job.chunks("results of queries deleted", found, 1):
            for org, job_id in chunk:
                for infos in list(store.list(query_job_prefix(org, job_id))):
                    job.report.add(Kind.RESULT, org, [(info.key, info.size) for info in infos])
                    if not job.dry:
                        store.delete([info.key for info in infos])
                if not job.dry:
                    job.index.forget_query_job(job_id)


def list_lake(job: Sweep) -> None:
    """Compare files under `db/` with the index, some organisations in each sweep.

    It comes last, as it takes longest.
    """
    orgs = job.index.all_organisations()
    kept = job.index.counters()
    listed_at = {org: kept.get(series(LISTED_AT, org=org), 0.0) for org in orgs}
    turn = [job.org] if job.org else to_list(orgs, listed_at, job.now_ns / 1e9)
    with job.report_faults("listing of the lake"):
        store = job.lake()
        folders = {folder.split("/")[-1] for folder in store.list_folders(LAKE_PREFIX)}
        if strangers := sorted(folders - set(orgs)):
            shown = ", ".join(f"{LAKE_PREFIX}{name}/" for name in strangers[:SHOWN])
            job.report.notes.append(f"{len(strangers)} folders of no organisation are left alone: {shown}")
        for (org,) in job.chunks("organisations listed", [o for o in turn if o in folders], 1):
            _list_org(job, store, org)


def _list_org(job: Sweep, store: ObjectStore, org: str) -> None:
    foreign: list[str] = []
    strange = 0
    for infos in store.list(f"{LAKE_PREFIX}{org}/"):
        ours = {info.key: info for info in infos if is_ours(info.key, org)}
        others = [info.key for info in infos if info.key not in ours]
        strange += len(others)
        foreign += others[: SHOWN - len(foreign)]
        _compare(job, org, ours)
    if foreign:
        job.report.notes.append(
            f"{strange} files under {LAKE_PREFIX}{org}/ are not named like segments and are left alone: "
            + ", ".join(foreign)
        )
    job.report.gauges[series("lakerunner_sweep_foreign_files", org=org)] = float(strange)
    job.report.gauges[series(LISTED_AT, org=org)] = job.now_ns / 1e9


def _compare(job: Sweep, org: str, ours: dict[str, ObjectInfo]) -> None:
    known = job.index.known_segment_keys(sorted(ours))
    unknown = {key: info.size for key, info in sorted(ours.items()) if key not in known}
    if job.dry:
        job.report.add(Kind.FOUND, org, unknown.items())
    else:
        job.report.add_rows(Kind.FOUND, org, job.index.note_listed(org, unknown, sorted(known)))


def _add_files(job: Sweep, kind: Kind, files: Sequence[LakeFile]) -> None:
    for file in files:
        job.report.add(kind, file.org, [(file.key, file.bytes)])
