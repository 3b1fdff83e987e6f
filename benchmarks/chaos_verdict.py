"""What a stack holds after a storm, compared with what was sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.chaos_debt import abandoned_batches, published_batches
from benchmarks.chaos_ids import Ids, compare_ids
from benchmarks.chaos_lake import RollupFindings, metric_rows, rollups
from benchmarks.chaos_progress import PROOFS, Between, progress_between, recoveries
from benchmarks.chaos_stack import chaos_settings
from benchmarks.chaos_storm import Storm
from benchmarks.chaos_sweeps import Orphans, sweep_orphans
from benchmarks.report import Record
from benchmarks.traffic import lake_content, run_counts


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that must be right in the end, compared with what was sent."""

    log_rows_lost: int
    log_rows_doubled: int
    samples_lost: int
    samples_doubled: int
    same_ids: int
    """Rows of either signal whose id another one has."""
    rollups: dict[str, RollupFindings]
    orphans: Orphans
    sweeps_failed: list[str]
    batches: dict[str, int]
    abandoned: dict[str, int]
    runs: dict[str, int]
    ids: Ids
    between: Between
    recoveries: int
    """Recoveries of PostgreSQL from a crash."""


def judge(found: Storm) -> Verdict:
    settings = chaos_settings(found.data_dir)
    traffic = found.traffic
    logs, expected = lake_content(settings, traffic.orgs, traffic.service), traffic.expected()
    samples, same_ids = metric_rows(settings, traffic.orgs, traffic.service)
    sent = traffic.samples.rows()
    orphans = sweep_orphans(found.data_dir, traffic.orgs)
    return Verdict(
        (expected - logs.messages).total(),
        (logs.messages - expected).total(),
        (sent - samples).total(),
        (samples - sent).total(),
        logs.rows - logs.distinct_row_ids + same_ids,
        rollups(settings, traffic.orgs, traffic.samples, time.time_ns()),
        orphans,
        [*found.sweeper.problems, *orphans.faults],
        published_batches(settings),
        abandoned_batches(settings),
        run_counts(settings),
        compare_ids(settings, traffic, found.sender.old_day_ns),
        progress_between(settings, found.progress.kills),
        recoveries(found.data_dir),
    )


def records(found: Storm, verdict: Verdict) -> list[Record]:
    """The figures; `ok` of all of them is what the storm is about."""
    killed = {str(number): what for number, what in enumerate(found.killed, 1)}
    return [
        Record("killed", "parts killed with -9", len(found.killed), "kills", counters=killed),
        Record("sent", "objects sent of each signal", len(found.traffic.sent), "objects"),
        Record("late", "of them late", found.sender.late, "objects"),
        *_happened(found, verdict),
        *_progress(found, verdict),
        *_ids(verdict.ids),
        *_content(verdict),
        *_answers(found),
        Record("runs", "Dagster runs", sum(verdict.runs.values()), "runs", counters=verdict.runs),
        Record("settled", "from the last object to nothing left to do", found.settled_s, "s"),
    ]


def _happened(found: Storm, verdict: Verdict) -> list[Record]:
    """A storm in which nothing of this happened proved nothing."""
    asked, done, sweeper = found.asker.findings, verdict.batches, found.sweeper
    compared = {k: f"{f.partitions} partitions, {f.buckets} buckets" for k, f in verdict.rollups.items()}
    questions = {"asked": asked.asked, "rows": asked.rows, "slowest, s": round(asked.slowest_s, 2)}
    answered = {**questions, "given up, API killed": asked.explained, **asked.failures}
    return [
        _some("answers", "whole answers", asked.whole, answered),
        _some("compacted", "merges of hours", done.get("compact", 0), verdict.abandoned),
        _some("sealed", "merges of days", done.get("seal", 0)),
        _some("carvings", "carvings", done.get("carve", 0), {"rows for a sealed day": found.sender.reopened}),
        _some("rolled", "rollup partitions built", done.get("rollup", 0), compared),
        _some("swept", "files of retired segments deleted", sweeper.deleted, sweeper.outcomes),
    ]


def _progress(found: Storm, verdict: Verdict) -> list[Record]:
    """Between the first kill and the last one, not after the storm."""
    windows, progress = len(found.killed) - 1, found.progress
    crashes = sum("postgres " in what or "PostgreSQL" in what for what in found.killed)
    return [
        *(
            _some(proof, f"batches {proof} between kills", verdict.between.batches[proof],
                  {"windows": f"{verdict.between.windows[proof]} of {windows}"})
            for proof in PROOFS
        ),
        _none("stalled", "decks of kills without all of these", len(progress.stalled), progress.stalled),
        Record("waited", "waited for them after decks", progress.waited_s, "s"),
        Record("recovered", "recoveries of PostgreSQL from a crash", verdict.recoveries, "", must=crashes,
               ok=verdict.recoveries >= crashes),
    ]  # fmt: skip


def _ids(ids: Ids) -> list[Record]:
    sources = {"sent": ids.expected, "query API": ids.answered, "files": ids.stored}
    samples = {"sent": ids.samples_expected, "PromQL": ids.samples_counted}
    return [
        _some("rows", "log rows sent, by row id", ids.expected, sources),
        _none("ids-api", "row ids wrong in answers", len(ids.wrong_answers), ids.wrong_answers),
        _none("ids-files", "row ids wrong in live segments", len(ids.wrong_files), ids.wrong_files),
        _none("counted", "samples more or less than PromQL counts",
              abs(ids.samples_expected - ids.samples_counted), samples),
    ]  # fmt: skip


def _content(verdict: Verdict) -> list[Record]:
    before, after = verdict.orphans.before, verdict.orphans.after
    wrong = [text for each in verdict.rollups.values() for text in each.wrong]
    unlisted = sorted(verdict.orphans.unlisted)
    return [
        _none("lost", "log rows lost", verdict.log_rows_lost),
        _none("doubled", "log rows counted twice", verdict.log_rows_doubled),
        _none("samples-lost", "samples lost", verdict.samples_lost),
        _none("samples-doubled", "samples counted twice", verdict.samples_doubled),
        _none("ids", "rows whose id is not unique", verdict.same_ids),
        _none("rollups", "rollups not current or not what was sent", len(wrong), wrong),
        _none("missing", "live segments without their file", len(before.missing), before.missing),
        _none(
            "unlisted", "unknown files not listed by a sweep", len(unlisted), unlisted, len(before.orphans)
        ),
        _none("sweeps", "sweeps that failed", len(verdict.sweeps_failed), verdict.sweeps_failed),
        _none(
            "unswept", "unknown files left by a sweep of orphans", len(after.unknown), sorted(after.unknown)
        ),
    ]


def _answers(found: Storm) -> list[Record]:
    asked, left = found.asker.findings, found.left
    stuck = left.pending + left.parked + left.batches + left.rollups + left.merges + left.held
    return [
        _none("short", "answers short of rows published before", len(asked.short), asked.short),
        _none("twice", "answers with a row twice", len(asked.doubled), asked.doubled),
        _none("errors", "questions failed, the API being alive", len(asked.unexplained), asked.unexplained),
        _none("stuck", "left to do at the end", stuck, [str(left), *left.detail]),
    ]


def _none(name: str, what: str, value: int, detail: object = None, orphans: int | None = None) -> Record:
    counters = {"detail": detail} if value and detail else {}
    counters |= {} if orphans is None else {"orphans listed": orphans}
    return Record(name, what, value, "", must=0, ok=value == 0, counters=counters)


def _some(name: str, what: str, value: int, counters: Mapping[str, object] | None = None) -> Record:
    return Record(name, what, value, "", must=1, ok=value >= 1, counters=dict(counters or {}))
