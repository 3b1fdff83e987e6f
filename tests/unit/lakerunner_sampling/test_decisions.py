"""Decisions from merged partial aggregates equal those of an oracle that sees each whole trace."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.model import DecisionMoment, LimiterMemory
from lakerunner_sampling.shapes import CanonicalShape
from tests.support.sampling.oracle import Oracle, by_trace, passed_before, random_policies
from tests.support.sampling.spans import BASE_NS, Span, random_spans, write

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
