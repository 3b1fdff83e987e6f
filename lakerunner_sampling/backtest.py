"""Policies are tried on spans of the past, and compared with those in force.

    files of a window → aggregates of traces → decisions in the order of time → shares, spans a day, confusion

Traces whose first span lies in the window count. Batches follow the watermark as the sampler's do, so that
limits and learned rates find the traffic of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fsspec.spec import AbstractFileSystem

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.model import DECISIONS, DecisionMoment, LimiterMemory, PolicyError
from lakerunner_sampling.shapes import SpanShape
from resources.arrays import Int64s

SECOND, DAY_NS = 10**9, 86_400 * 10**9
STEP_NS = 60 * SECOND
"""Watermark between two batches: the usual interval of commits."""
FILES_AT_ONCE = 32
MOST_TRACES = 5_000_000
BUCKETS = 60


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans to decide: files of one shape, and the window of first spans."""

    files: Sequence[str]
    shape: SpanShape
    from_ns: int | None = None
    to_ns: int | None = None
    schema: pa.Schema | None = None
    source: AbstractFileSystem | None = None


@dataclass(frozen=True, slots=True)
class PolicyShare:
    """Share of one policy in the decisions."""

    policy: str
    kept: bool
    traces: int
    spans: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one policy set over the window."""

    traces: int
    spans: int
    kept_traces: int
    kept_spans: int
    kept_bytes_per_day: int | None
    """None unless a policy limits bytes, which are estimated then."""
    kept_spans_per_day: int
    estimated_traces: float
    """Traces that the kept ones stand for by their probabilities."""
    estimate_error: float
    """Standard error of that estimate."""
    policies: tuple[PolicyShare, ...]
    kept_share: tuple[tuple[int, float], ...] = field(repr=False)
    """Share of traces kept by the start of each bucket of time, in ns."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Traces on which two policy sets agree, and on which they do not."""

    both: int
    only_new: int
    only_current: int
    neither: int
    reasons: tuple[tuple[str, str, int], ...]
    """Number of traces by the policy of the current set and of the new one, where the decision differs."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a back-test."""

    from_ns: int
    to_ns: int
    new: Verdict
    current: Verdict | None = None
    confusion: Confusion | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def backtest(
    spans: Spans,
    new: PolicySet,
    current: PolicySet | None,
    limits: StateLimits,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Decide the window with the new policies, and with the current ones if given."""
    decided = decide_all(spans, new, limits, progress)
    window = _window(spans, decided)
    verdict = _verdict(new, decided, window)
    if current is None:
        return Report(*window, verdict)
    before = decide_all(spans, current, limits, progress)
    return Report(*window, verdict, _verdict(current, before, window), _confusion(decided, before))


def decide_all(
    spans: Spans,
    policies: PolicySet,
    limits: StateLimits,
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Return every trace of the window with its decision, sorted by trace id."""
    with TraceState(policies, spans.shape, limits, spans.source) as state:
        for number, files in enumerate(_portions(spans.files)):
            state.add(Commit(number, files, spans.schema))
            if progress is not None:
                progress(min((number + 1) * FILES_AT_ONCE, len(spans.files)), len(spans.files))
        if (count := state.trace_count()) > MOST_TRACES:
            raise PolicyError(
                f"the window has {count:,} traces, more than {MOST_TRACES:,}: choose a shorter one"
            )
        traces = _within(state.everything(), spans)
    memory = LimiterMemory()
    tables = [pa.table({**_columns(traces.slice(0, 0)), **_columns(DECISIONS.empty_table())})]
    for batch, moment in batches(traces, limits):
        found = policies.decide(batch, moment, memory)
        memory = found.memory
        tables.append(pa.table({**_columns(batch), **_columns(found.table)}))
    return pa.concat_tables(tables, promote_options="default").sort_by("trace_id")


def _portions(files: Sequence[str]) -> Iterator[Sequence[str]]:
    return (files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE))


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return columns by name; those of dictionaries as plain text, which concatenates."""
    return {
        name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _within(traces: pa.Table, spans: Spans) -> pa.Table:
    first = traces.column("first_ns").to_numpy()
    rows = np.ones(len(first), np.bool_)
    if spans.from_ns is not None:
        rows &= first >= spans.from_ns
    if spans.to_ns is not None:
        rows &= first < spans.to_ns
    return traces.filter(pa.array(rows))


def batches(traces: pa.Table, limits: StateLimits) -> Iterator[tuple[pa.Table, DecisionMoment]]:
    """Yield the batches a sampler would have decided, by the completion of traces."""
    complete = completed_at(traces, limits)
    order = np.argsort(complete, kind="stable")
    sorted_traces, steps = traces.take(pa.array(order)), -(-complete[order] // STEP_NS)
    edges = np.flatnonzero(np.diff(steps)) + 1
    for start, end in zip([0, *edges], [*edges, len(steps)], strict=True):
        if end > start:
            yield sorted_traces.slice(start, end - start), DecisionMoment(int(steps[start]) * STEP_NS)


def completed_at(traces: pa.Table, limits: StateLimits) -> Int64s:
    """Return the watermark at which each trace was complete."""
    silent = traces.column("last_ns").to_numpy() + limits.inactivity_ns
    too_old = traces.column("first_ns").to_numpy() + limits.max_duration_ns
    complete: Int64s = np.minimum(silent, too_old)
    return complete


def _window(spans: Spans, decided: pa.Table) -> tuple[int, int]:
    """Return the window, from the traces where none was asked for."""
    first = decided.column("first_ns")
    least, most = (pc.min(first).as_py() or 0, pc.max(first).as_py() or 0)
    return (
        least if spans.from_ns is None else spans.from_ns,
        max(most + 1, least + 1) if spans.to_ns is None else spans.to_ns,
    )


def _verdict(policies: PolicySet, decided: pa.Table, window: tuple[int, int]) -> Verdict:
    keep = decided.column("keep").to_numpy()
    count = decided.column("span_count").to_numpy()
    probability = decided.column("probability").to_numpy()[keep]
    kept_spans = int(count[keep].sum())
    days = (window[1] - window[0]) / DAY_NS
    size = decided.column("bytes").to_numpy()[keep].sum() if "bytes" in decided.column_names else None
    return Verdict(
        traces=len(keep),
        spans=int(count.sum()),
        kept_traces=int(keep.sum()),
        kept_spans=kept_spans,
        kept_bytes_per_day=None if size is None else round(float(size) / days),
        kept_spans_per_day=round(kept_spans / days),
        estimated_traces=float((1 / probability).sum()),
        estimate_error=math.sqrt(float(((1 - probability) / probability**2).sum())),
        policies=tuple(_shares(policies, decided)),
        kept_share=tuple(_over_time(decided, window)),
    )


def _shares(policies: PolicySet, decided: pa.Table) -> Iterator[PolicyShare]:
    """Yield each policy in order, also those that decided nothing, and last what none kept."""
    grouped = decided.group_by(["policy", "keep"]).aggregate([("trace_id", "count"), ("span_count", "sum")])
    found = {(row["policy"], row["keep"]): row for row in grouped.to_pylist()}
    names = [each.name for each in policies.policies]
    for name in names:
        keeps = {keep for policy, keep in found if policy == name} or {True}
        for keep in sorted(keeps, reverse=True):
            yield _share(name, keep, found.get((name, keep)))
    if ("", False) in found:
        yield _share("", False, found["", False])


def _share(name: str, keep: bool, row: dict[str, int] | None) -> PolicyShare:
    return PolicyShare(name, keep, row["trace_id_count"] if row else 0, row["span_count_sum"] if row else 0)


def _over_time(decided: pa.Table, window: tuple[int, int]) -> Iterator[tuple[int, float]]:
    width = max((window[1] - window[0]) // BUCKETS, 1)
    place = np.clip((decided.column("first_ns").to_numpy() - window[0]) // width, 0, BUCKETS - 1)
    every = np.bincount(place, minlength=BUCKETS)
    kept = np.bincount(place, weights=decided.column("keep").to_numpy(), minlength=BUCKETS)
    for number in np.flatnonzero(every):
        yield window[0] + int(number) * width, float(kept[number] / every[number])


def _confusion(new: pa.Table, current: pa.Table) -> Confusion:
    ours, theirs = new.column("keep").to_numpy(), current.column("keep").to_numpy()
    differ = pa.array(ours != theirs)
    pairs = pa.table({
        "current": current.column("reason").filter(differ), "new": new.column("reason").filter(differ)
    }).group_by(["current", "new"]).aggregate([([], "count_all")])  # fmt: skip
    reasons = sorted(((row["current"], row["new"], row["count_all"]) for row in pairs.to_pylist()),
                     key=lambda row: (-row[2], row[:2]))  # fmt: skip
    return Confusion(
        int((ours & theirs).sum()), int((ours & ~theirs).sum()), int((~ours & theirs).sum()),
        int((~ours & ~theirs).sum()), tuple(reasons),
    )  # fmt: skip


def one_trace(spans: Spans, policies: PolicySet, limits: StateLimits, trace_id: bytes) -> pa.Table:
    """Return the aggregates of one trace: a row, or none if no file has spans of it."""
    with TraceState(policies, spans.shape, limits, spans.source) as state:
        only = pa.array([trace_id], pa.binary())
        for number, files in enumerate(_portions(spans.files)):
            state.add(Commit(number, files, spans.schema), only)
        return state.everything()
