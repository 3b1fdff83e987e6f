"""A sampler follows its table: commit → state → decisions → one transaction → the next commit.

    claim ──► restore state from the checkpoint ──► follow ──► (claim lost) ──► claim

What is decided depends on commits, policies and the memory of limits alone, so that a process that takes over
decides as the one before would have. The state is rebuilt from the commits since the first one that has spans
of an undecided trace.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from fsspec.spec import AbstractFileSystem

from lakerunner_sampling.aggregate import StateLimits, TraceState
from lakerunner_sampling.dedup import Deduplicator
from lakerunner_sampling.follower import Follower, Position, TableCommit, TableError, commits_of
from lakerunner_sampling.late import (
    IDS,
    Decided,
    WholeTraces,
    batches,
    decided,
    id_array,
    joined,
    late_spans,
    packed,
)
from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.model import DecisionMoment, Decisions, LimiterMemory
from lakerunner_sampling.shapes import SpanShape
from resources.exposition import series
from resources.index.postgres import IndexUnavailableError
from resources.index.sampling_contract import SamplerIndex
from resources.index.sampling_types import Rows, SamplerRecord, SamplingStep, no_rows

BEATS_PER_LEASE = 4
REPLAYED_ROWS = 50_000
FIRST_REST_S, LONGEST_REST_S = 0.25, 15.0
MS_NS = 10**6
SECOND_PART = 1 << 20
"""First number of batches of traces that are decided again after a commit's others."""
_log = logging.getLogger(__name__)


class ClaimLostError(Exception):
    """Another process has claimed the sampler."""


@dataclass(frozen=True, slots=True)
class SamplerOptions:
    """Settings of one sampler."""

    org: str
    name: str
    policies: PolicySet
    version: str
    """Hash of the policies."""
    shape: SpanShape
    limits: StateLimits
    destinations: tuple[str, ...]
    lease_s: float = 10.0
    poll_s: float = 1.0
    files: AbstractFileSystem | None = None


@dataclass(slots=True)
class Progress:
    """Work of a sampler so far, for `/metrics` and probes."""

    counts: Counter[str] = field(default_factory=Counter)
    sequence: int = 0
    watermark_ns: int = 0
    step_s: float = 0.0
    """Seconds from the sight of the last commit until its decisions were stored."""
    looked_at: float = field(default_factory=time.monotonic)
    """Time of the last look at the table."""
    is_ready: bool = False
    error: str = ""

    def count(self, name: str, number: float = 1, **labels: object) -> None:
        self.counts[series(f"lakerunner_sampler_{name}", **labels)] += number  # type: ignore[assignment]


class Sampler:
    """Decides the traces of one table."""

    def __init__(
        self,
        options: SamplerOptions,
        index: SamplerIndex,
        follower: Follower,
        dedup: Deduplicator,
        owner: str,
        on_batches: Callable[[], None] = lambda: None,
    ) -> None:
        self.options = options
        self.progress = Progress()
        self.record: SamplerRecord | None = None
        self._index = index
        self._follower = follower
        self._dedup = dedup
        self._owner = owner
        self._on_batches = on_batches
        self._stop = threading.Event()
        parts = options.policies, options.shape, options.limits, options.files
        self._state = TraceState(*parts)
        self._whole = WholeTraces(follower, *parts)
        self._memory = LimiterMemory()
        self._watermark_ns = 0

    @property
    def dedup_counts(self) -> Counter[str]:
        """Number of ids that Redis and PostgreSQL answered for."""
        return self._dedup.counts

    def stop(self) -> None:
        """End after the commit under way."""
        self._stop.set()

    def run(self) -> None:
        """Claim, restore and follow until stopped."""
        rest_s = FIRST_REST_S
        while not self._stop.is_set():
            try:
                with self._claimed() as is_ours:
                    if is_ours:
                        self._restore()
                        rest_s = FIRST_REST_S
                        self._follow()
            except ClaimLostError:
                _log.warning("another process took the sampler %s over", self.options.name)
            except IndexUnavailableError as error:
                self._note(f"the index does not answer: {error}")
            except TableError as error:
                self._note(str(error))
            except Exception as error:  # noqa: BLE001 - a catalog or a store that is away comes back
                _log.exception("the sampler begins anew from its checkpoint")
                self._note(f"{type(error).__name__}: {error}")
            self._stop.wait(rest_s)
            rest_s = min(LONGEST_REST_S, 2 * rest_s)

    def close(self) -> None:
        self._state.close()
        self._whole.close()
        self._dedup.close()

    def _note(self, error: str) -> None:
        self.progress.error = error
        self.progress.count("failures_total")
        _log.warning("%s: %s", self.options.name, error)

    @contextmanager
    def _claimed(self) -> Iterator[bool]:
        """Hold the lease for as long as the block runs."""
        options = self.options
        record = self._index.claim_sampler(options.org, options.name, self._owner, options.lease_s)
        if record is None:
            self.progress.looked_at = time.monotonic()
            self.progress.error = "another process holds this sampler"
            yield False
            return
        self.record = record
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(ended,), name="sampler-beat", daemon=True)
        beating.start()
        try:
            yield True
        finally:
            ended.set()
            beating.join()
            self.progress.is_ready, self.record = False, None
            try:
                self._index.release_sampler(record)
            except IndexUnavailableError as error:
                _log.warning("the sampler is free when its lease ends: %s", error)

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(self.options.lease_s / BEATS_PER_LEASE):
            record = self.record
            try:
                if record is not None and not self._index.beat_sampler(record, self.options.lease_s):
                    self.record = None
                    return
            except IndexUnavailableError as error:
                _log.warning("a heartbeat is lost: %s", error)

    def _claim(self) -> SamplerRecord:
        if self.record is None:
            raise ClaimLostError
        return self.record

    def _restore(self) -> None:
        """Rebuild the state of the checkpoint, exactly."""
        record = self._claim()
        self._follower.refresh()
        self._memory = LimiterMemory.from_json(record.memory.decode()) if record.memory else LimiterMemory()
        self._watermark_ns = record.watermark_ns
        if not record.sequence:
            window_ms = self.options.limits.max_duration_ns // MS_NS
            self.record = replace(record, sequence=self._follower.start(window_ms).sequence)
            self._state.rebuild([])
        elif record.low_sequence:
            self._replay(record)
        else:
            self._state.rebuild([])
        self.progress.sequence, self.progress.watermark_ns = self._claim().sequence, self._watermark_ns
        self.progress.is_ready = True

    def _replay(self, record: SamplerRecord) -> None:
        """Add commits again, then forget what was decided; spans that came later are added once more."""
        low, commits = record.low_sequence, []
        for commit in self._follower.commits_after(Position(low - 1)):
            if commit.sequence > record.sequence:
                break
            commits.append(commit)
        schema = self._follower.schema
        self._state.rebuild(one for commit in commits for one in commits_of(commit.files, schema))
        later: list[tuple[pa.Array, Rows]] = []
        for rows in self._index.decided_since(record, low, REPLAYED_ROWS):
            ids = id_array(rows)
            found = self._state.of(ids)
            places = pc.index_in(pc.cast(found["trace_id"], IDS), ids).to_numpy()
            is_later = found["last_seq"].to_numpy() > rows["sequence"][places]
            if is_later.any():
                chosen = rows[places[is_later]]
                later.append((id_array(chosen), chosen))
            self._state.evict(ids)
        for ids, rows in later:
            for commit in commits:
                mine = ids.filter(pa.array(rows["sequence"] < commit.sequence))
                for one in commits_of(commit.files, schema) if len(mine) else ():
                    self._state.add(one, mine)

    def _follow(self) -> None:
        rest_s = FIRST_REST_S
        while not self._stop.is_set():
            try:
                self._follower.refresh()
            except TableError:
                raise
            except Exception as error:  # noqa: BLE001 - each catalog has errors of its own
                self._claim()
                self._note(f"the catalog does not answer: {type(error).__name__}: {error}")
                self._stop.wait(rest_s)
                rest_s = min(LONGEST_REST_S, 2 * rest_s)
                continue
            rest_s = FIRST_REST_S
            self.progress.looked_at, self.progress.error = time.monotonic(), ""
            for commit in self._follower.commits_after(Position(self._claim().sequence)):
                self.step(commit)
                if self._stop.is_set():
                    return
            self._stop.wait(self.options.poll_s)

    def step(self, commit: TableCommit) -> None:
        """Decide what a commit completes, and store it."""
        began = time.monotonic()
        self._add(commit)
        ready, early = self._state.ready(self._watermark_ns), self._state.early()
        asked = packed(ready["trace_id"]) + packed(early["trace_id"])
        known = self._index.known_decisions(self._claim(), asked) if asked else no_rows()
        dropped = self._decide(commit, ready, early, known)
        self.progress.step_s = time.monotonic() - began
        self.progress.count("steps_total")
        self.progress.count("step_seconds_total", self.progress.step_s)
        if len(dropped):
            self._decide_again(commit, dropped)
        self.progress.looked_at = time.monotonic()

    def _add(self, commit: TableCommit) -> None:
        latest = 0
        for one in commits_of(commit.files, self._follower.schema):
            latest = max(latest, self._state.add(one) or 0)
        bounded = min(latest, commit.committed_ms * MS_NS)  # a clock that is ahead completes no traces
        self._watermark_ns = max(self._watermark_ns, bounded)
        self.progress.count("spans_total", sum(file.rows for file in commit.files))

    def _decide(self, commit: TableCommit, ready: pa.Table, early: pa.Table, known: Rows) -> Rows:
        """Decide new traces, export late spans; return earlier decisions about dropped traces that grew."""
        policies, sequence, complete = self.options.policies, commit.sequence, _ids(ready)
        old = id_array(known)
        grown = known[pc.is_in(old, complete).to_numpy(zero_copy_only=False)]
        kept: Rows = grown[grown["is_kept"]]
        dropped: Rows = grown[~grown["is_kept"]]
        parts = []
        fresh = _without(ready, old)
        if fresh.num_rows:
            found = policies.decide(fresh, DecisionMoment(self._watermark_ns), self._memory)
            self._memory = found.memory
            parts.append(decided(found, fresh, sequence))
        if len(kept):
            parts.append(late_spans(kept, ready, sequence))
            self.progress.count("late_traces_total", len(kept), kind="kept")
        early = _without(early, pa.concat_arrays([old, complete]))
        if early.num_rows:
            found = Decisions(policies.decide_early(early), self._memory)
            chosen = early.filter(pc.is_in(_ids(early), _ids(found.table)))
            parts.append(decided(found, chosen, sequence))
        self._state.evict(_ids(_without(ready, id_array(dropped))))
        if early.num_rows:
            self._state.evict(_ids(chosen))
        self._write(commit, joined(parts), 0)
        return dropped

    def _decide_again(self, commit: TableCommit, dropped: Rows) -> None:
        """Decide dropped traces that grew from all of their spans, when the others are stored."""
        first, ids = int(dropped["first_sequence"].min()), id_array(dropped)
        whole = self._whole.aggregate(ids, first, commit.sequence)
        self._state.evict(ids)
        self.progress.count("late_traces_total", len(dropped), kind="dropped")
        if not whole.num_rows:
            return
        found = self.options.policies.decide(whole, DecisionMoment(self._watermark_ns), self._memory)
        self._memory = found.memory
        again = decided(found, whole, commit.sequence, known=dropped)
        self.progress.count("upgraded_traces_total", int(again.rows["is_kept"].sum()))
        self._write(commit, again, SECOND_PART)

    def _write(self, commit: TableCommit, found: Decided, first_part: int) -> None:
        record, options = self._claim(), self.options
        ours = self._dedup.claim(record, pc.cast(found.exports["trace_id"], pa.binary()).to_pylist())
        low = self._state.first_seq()
        reached = replace(
            record, snapshot_id=commit.snapshot_id, sequence=commit.sequence, low_sequence=low or 0,
            watermark_ns=self._watermark_ns, memory=self._memory.to_json().encode(), policies=options.version,
        )  # fmt: skip
        made = batches(found, ours, options.destinations, first_part)
        if not self._index.write_step(SamplingStep(reached, found.rows, found.reasons, made)):
            raise ClaimLostError
        if self.record is None:
            raise ClaimLostError
        self.record = reached
        self.progress.sequence, self.progress.watermark_ns = commit.sequence, self._watermark_ns
        first = found.rows[found.rows["revision"] == 1]
        kept = int(first["is_kept"].sum())
        self.progress.count("decisions_total", kept, decision="kept")
        self.progress.count("decisions_total", len(first) - kept, decision="dropped")
        self.progress.count("duplicates_total", int((~ours).sum()))
        if made:
            self._on_batches()


def _ids(traces: pa.Table) -> pa.Array:
    return pc.cast(traces["trace_id"], IDS).combine_chunks()


def _without(traces: pa.Table, ids: pa.Array) -> pa.Table:
    if not traces.num_rows or not len(ids):
        return traces
    return traces.filter(pc.invert(pc.is_in(pc.cast(traces["trace_id"], IDS), ids)))
