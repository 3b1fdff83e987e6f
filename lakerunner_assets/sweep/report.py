"""A sweep counts its work by kind and organisation, for people and for `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from lakerunner_assets.sweep.plan import Policy
from resources.exposition import series
from resources.index.contract import SweepIndex
from resources.index.sweeping_types import Retention
from resources.objects.client import ObjectStore
from resources.objects.errors import StoreError
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError

FIRST = 3
"""Names shown of each kind."""


class Kind(StrEnum):
    """Kinds of work, in the order of a sweep."""

    EXPIRED = "segments past their retention, retired"
    FILE = "files of retired segments, deleted"
    RAW = "raw objects past their retention, deleted"
    ORPHAN = "orphans, deleted"
    ROW = "rows of deleted raw objects, forgotten"
    RESULT = "results of queries on Spark past their hour, deleted"
    BATCH = "finished batches, forgotten"
    RUN = "heartbeats of runs long gone, forgotten"
    ASKED = "queries of the query log, forgotten"
    FOUND = "files that the index does not know, noted as orphans"


LABELS = {Kind.FILE: "segment", Kind.RAW: "raw", Kind.ORPHAN: "orphan", Kind.RESULT: "query_result"}
FORGOTTEN = {Kind.ROW: "raw_object", Kind.BATCH: "batch", Kind.RUN: "run", Kind.ASKED: "asked_query"}
"""Values of the label `what`."""


@dataclass(slots=True)
class Tally:
    count: int = 0
    bytes: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Totals of a sweep; `problems` kept it from its work, `notes` need a person."""

    dry_run: bool = False
    busy: bool = False
    """True if another sweep was running: this one did nothing."""
    tallies: dict[tuple[Kind, str], Tally] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    partitions: int = 0
    """Partitions that expired together with the segments."""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unfinished: bool = False
    """True if it reached its limits; the next sweep goes on."""

    def add(self, kind: Kind, org: str, things: Iterable[tuple[str, int]]) -> None:
        """Count things, given as (name, bytes)."""
        for name, size in things:
            tally = self.tallies.setdefault((kind, org), Tally())
            tally.count += 1
            tally.bytes += size
            if len(tally.first) < FIRST:
                tally.first.append(name)

    def add_rows(self, kind: Kind, org: str, count: int) -> None:
        if count:
            self.tallies.setdefault((kind, org), Tally()).count += count

    def count(self, kind: Kind) -> int:
        return sum(tally.count for (found, _), tally in self.tallies.items() if found is kind)

    def counters(self) -> dict[str, float]:
        """Return the values for `add_counters`."""
        found: dict[str, float] = {"lakerunner_sweeps_total": 1.0}
        for kind, what in LABELS.items():
            mine = [tally for (k, _), tally in self.tallies.items() if k is kind]
            objects = series("lakerunner_sweep_deleted_objects_total", what=what)
            found[objects] = float(sum(tally.count for tally in mine))
            size = series("lakerunner_sweep_deleted_bytes_total", what=what)
            found[size] = float(sum(tally.bytes for tally in mine))
        for kind, what in FORGOTTEN.items():
            found[series("lakerunner_sweep_forgotten_rows_total", what=what)] = float(self.count(kind))
        found["lakerunner_sweep_expired_segments_total"] = float(self.count(Kind.EXPIRED))
        found["lakerunner_sweep_expired_partitions_total"] = float(self.partitions)
        return found

    def summary(self) -> str:
        """Write one line, for a sensor's tick."""
        if self.busy:
            return "another sweep is running: this one did nothing"
        parts = [f"{self.count(kind)} {kind.value}" for kind in Kind if self.count(kind)]
        text = "; ".join(parts) or "nothing to sweep"
        return "; ".join([text, *self.problems, *self.notes])

    def lines(self) -> list[str]:
        """Write lines for a person."""
        if self.busy:
            return ["another sweep is running: this one did nothing"]
        lines = [line for kind in Kind for line in self._kind(kind)] or ["nothing to sweep"]
        lines += [f"! {problem}" for problem in self.problems]
        lines += [f"note: {note}" for note in self.notes]
        if self.unfinished:
            lines.append("there is more; the next sweep goes on")
        return ["this is what a sweep would do; nothing was changed", *lines] if self.dry_run else lines

    def _kind(self, kind: Kind) -> list[str]:
        mine = {org: tally for (k, org), tally in sorted(self.tallies.items()) if k is kind}
        lines: list[str] = []
        for org, tally in mine.items():
            size = f", {tally.bytes:,} bytes" if tally.bytes else ""
            lines.append(f"{org + ': ' if org else ''}{tally.count:,} {kind.value}{size}")
            lines += [f"    {name}" for name in tally.first]
            if tally.first and tally.count > len(tally.first):
                lines.append(f"    … and {tally.count - len(tally.first):,} more")
        return lines


Tell = Callable[[str, int, int], None]
"""Callback for progress: (what, done so far, of how many)."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Sweep:
    """Values and limits that the steps of one sweep share."""

    index: SweepIndex
    settings: Settings
    policy: Policy
    retentions: Sequence[Retention]
    """Retentions in force."""
    org: str
    """Organisation, or empty for all."""
    now_ns: int
    ends: float
    """Deadline by the monotonic clock; checked between transactions."""
    report: Report
    tell: Tell

    @property
    def dry(self) -> bool:
        return self.report.dry_run

    def lake(self) -> ObjectStore:
        return open_store(self.settings.require("lake_url"), self.settings)

    def chunks(self, what: str, items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
        """Yield chunks until the time is up."""
        for start in range(0, len(items), size):
            if time.monotonic() >= self.ends:
                self.report.unfinished = True
                return
            yield items[start : start + size]
            self.tell(what, min(start + size, len(items)), len(items))

    @contextmanager
    def report_faults(self, what: str) -> Iterator[None]:
        """Report faults of a store or its configuration; they end the block, not the sweep."""
        try:
            yield
        except (StoreError, SettingsError) as error:
            self.report.problems.append(f"{what}: {error}")

    def note_limit(self, found: Sequence[object]) -> None:
        """Note that there is more, if a list is as long as it may be."""
        self.report.unfinished |= len(found) >= self.policy.files
