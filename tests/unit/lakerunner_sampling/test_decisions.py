"""Decisions from merged partial aggregates equal those of an oracle that sees each whole trace."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.model import DecisionMoment, LimiterMemory
from lakerunner_sampling.shapes import CanonicalShape
from tests.support.sampling.collector import bits, digest, spans_of
from tests.support.sampling.oracle import Oracle, by_trace, passed_before, random_policies
from tests.support.sampling.spans import BASE_NS, Span, random_spans, trace_id, write

ROOT = Path(__file__).resolve().parents[3]
SETS = 50
INACTIVITY_NS = 30 * 10**9


@pytest.mark.parametrize("seed", range(SETS))
def test_decisions_equal_those_of_whole_traces(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    policies = random_policies(rng)
    document = read_policies(yaml.safe_dump({"policies": policies}).encode())
    spans = random_spans(seed)
    rng.shuffle(spans)
    limits = StateLimits(tmp_path / "scratch", INACTIVITY_NS, readable=(tmp_path,), threads=1)
    oracle, memory = Oracle(policies), LimiterMemory()
    with TraceState(document.policy_set(), CanonicalShape(), limits) as state:
        _add_in_random_commits(rng, state, spans, tmp_path)
        left = by_trace(spans)
        for watermark in (BASE_NS + 200 * 10**9, BASE_NS + 900 * 10**9):
            complete = {
                key: trace
                for key, trace in left.items()
                if max(max(s.end_ns, s.start_ns) for s in trace) < watermark - INACTIVITY_NS
            }
            left = {key: trace for key, trace in left.items() if key not in complete}
            wanted = oracle.decide(complete, watermark)
            decided = state.policies.decide(state.ready(watermark), DecisionMoment(watermark), memory)
            memory = LimiterMemory.from_json(decided.memory.to_json())
            rows = decided.table.to_pylist()
            assert {row["trace_id"]: row["keep"] for row in rows} == wanted
            for row in rows:
                assert not row["keep"] or row["probability"] > 0, row
                assert row["keep"] == row["reason"].startswith("kept by"), row
                before = passed_before(complete[row["trace_id"]])
                assert row["probability"] <= 1 - before / 2**56 + 1e-12
                assert row["threshold"] >= before
            state.evict(decided.table.column("trace_id").combine_chunks())
        assert state.trace_count() == 0


def _add_in_random_commits(rng: random.Random, state: TraceState, spans: list[Span], folder: Path) -> None:
    parts = rng.randrange(1, 6)
    commits = [Commit(seq, [write(spans[seq::parts], folder / f"{seq}.parquet")]) for seq in range(parts)]
    rng.shuffle(commits)
    state.rebuild(commits)
    if rng.random() < 0.5:
        state._merge()


GOLDEN = json.loads((ROOT / "tests/golden/sampling/collector.json").read_text())


@pytest.mark.parametrize(
    "row", GOLDEN, ids=lambda row: f"{row['seed']}-{'state' if row['tracestate'] else 'hash'}"
)
def test_decisions_equal_those_of_the_collectors_code(row: dict[str, Any], tmp_path: Path) -> None:
    """The file is made by `python -m benchmarks.sampling_against_collector --golden …`, with Go."""
    spans = spans_of(row["seed"])
    assert digest(spans) == row["spans"], "the generator of spans has changed: make the file anew"
    policies = read_policies(yaml.safe_dump(row["policies"]).encode()).policy_set(row["tracestate"])
    limits = StateLimits(tmp_path / "scratch", readable=(tmp_path,), threads=1)
    with TraceState(policies, CanonicalShape(), limits) as state:
        state.add(Commit(1, [write(spans, tmp_path / "spans.parquet")]))
        found = policies.decide(state.everything(), DecisionMoment(BASE_NS), LimiterMemory()).table
    ours = {
        key.hex(): keep
        for key, keep in zip(*found.select(["trace_id", "keep"]).to_pydict().values(), strict=True)
    }
    assert bits(ours, spans) == row["kept"]


def test_traces_are_kept_early_as_they_are_in_the_end(tmp_path: Path) -> None:
    policies = read_policies(EARLY.encode()).policy_set()
    spans = random_spans(5)
    limits = StateLimits(tmp_path / "scratch", INACTIVITY_NS, readable=(tmp_path,), threads=1)
    early: set[bytes] = set()
    with TraceState(policies, CanonicalShape(), limits) as state:
        for seq in range(4):
            state.add(Commit(seq, [write(spans[seq::4], tmp_path / f"{seq}.parquet")]))
            found = policies.decide_early(state.early())
            assert all(found.column("keep").to_pylist())
            early |= set(found.column("trace_id").to_pylist())
        final = policies.decide(
            state.everything(), DecisionMoment(BASE_NS), LimiterMemory()
        ).table.to_pylist()
        certain = {row["trace_id"] for row in final if row["policy"] in {"errors", "slow"}}
        assert early == certain, "what chance keeps waits"
        some = pa.array(sorted(early)[:3], pa.binary())
        assert sorted(state.of(some).column("trace_id").to_pylist()) == sorted(early)[:3]


EARLY = """
- {name: errors, type: status_code, status_code: {status_codes: [ERROR]}}
- {name: slow, type: and, and: {and_sub_policy: [
    {name: a, type: latency, latency: {threshold_ms: 2000}},
    {name: b, type: span_count, span_count: {min_spans: 3}}]}}
- {name: chance, type: probabilistic, probabilistic: {sampling_percentage: 40}}
"""


def test_traces_are_complete_by_silence_age_or_size(tmp_path: Path) -> None:
    minute = 60_000
    spans = [
        Span(1, 0, 10),
        *(Span(2, at * minute, at * minute + 1, at + 1) for at in range(10)),
        *(Span(3, 9 * minute, 9 * minute + 1, 1 + at) for at in range(6)),
        Span(4, 9 * minute, 9 * minute + 2),
    ]
    policies = read_policies(EARLY.encode()).policy_set()
    limits = StateLimits(tmp_path / "s", 90 * 10**9, 8 * 60 * 10**9, 6, readable=(tmp_path,), threads=1)
    with TraceState(policies, CanonicalShape(), limits) as state:
        assert (
            state.add(Commit(7, [write(spans, tmp_path / "a.parquet")])) == BASE_NS + (9 * minute + 2) * 10**6
        )
        ready = state.ready(state.watermark_ns or 0)
        assert sorted(ready.column("trace_id").to_pylist()) == sorted(trace_id(each) for each in (1, 2, 3))
        assert set(ready.column("first_seq").to_pylist()) == {7}
        state.evict(ready.column("trace_id").combine_chunks())
        assert state.trace_count() == 1
