"""One sweep runs `STEPS` in order, each over bounded lists in small transactions.

Progress is what was deleted: a sweep that ends early, or dies, leaves nothing half done that the next one
would not finish. A store that does not answer stops its step and is reported; the other steps go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lakerunner_assets.sweep.ages import expire_raw, expire_windows, forget_rows
from lakerunner_assets.sweep.files import delete_files, delete_orphans, delete_results, list_lake
from lakerunner_assets.sweep.plan import Policy, in_force, too_young
from lakerunner_assets.sweep.report import Report, Sweep, Tell
from resources.index.contract import SweepIndex
from resources.index.sweeping_types import Retention
from resources.settings import Settings

STEPS: tuple[Callable[[Sweep], None], ...] = (
    expire_windows,
    delete_files,
    expire_raw,
    delete_orphans,
    delete_results,
    forget_rows,
    list_lake,
)


def sweep(
    index: SweepIndex,
    settings: Settings,
    policy: Policy,
    *,
    org: str = "",
    dry_run: bool = False,
    max_s: float = float("inf"),
    now_ns: int | None = None,
    tell: Tell = lambda _what, _done, _total: None,
) -> Report:
    """Sweep once, one sweeper at a time; a dry run reads only and needs no lock."""
    began = time.monotonic()
    report = Report(dry_run)
    every = [r for r in index.retentions() if org in {"", r.org}]
    now = time.time_ns() if now_ns is None else now_ns
    job = Sweep(index, settings, policy, in_force(every, policy), org, now, began + max_s, report, tell)
    report.notes += [_young(r, policy) for r in too_young(every, policy)]
    if dry_run:
        _steps(job)
        return report
    with index.sweep_lock() as alone:
        if not alone:
            report.busy = True
            return report
        try:
            _steps(job)
        finally:
            _record(job, time.monotonic() - began)
    return report


def _steps(job: Sweep) -> None:
    for step in STEPS:
        step(job)


def _record(job: Sweep, seconds: float) -> None:
    """Record counters and gauges, also of a sweep that failed half-way."""
    counts = job.index.orphan_counts()
    job.index.add_counters(job.report.counters())
    job.index.set_gauges(
        {
            **job.report.gauges,
            "lakerunner_sweep_orphans": float(sum(c.orphans for c in counts.values())),
            "lakerunner_sweep_orphan_bytes": float(sum(c.bytes for c in counts.values())),
            "lakerunner_sweep_problems": float(len(job.report.problems)),
            "lakerunner_sweep_seconds": seconds,
            "lakerunner_sweep_timestamp_seconds": job.now_ns / 1e9,
        }
    )


def _young(retention: Retention, policy: Policy) -> str:
    minutes = max(1, round((policy.notice_s - retention.stood_s) / 60))
    what = f"{retention.org}: {retention.signal.value} {retention.tier}, {retention.keep_days} days"
    return f"{what}: changed lately, deletes nothing for another {minutes} min"
