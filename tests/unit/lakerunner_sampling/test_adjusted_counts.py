"""Kept traces, weighted by their probability, stand for all traces: for every mix of policies."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
import yaml

from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.hashing import NEVER, threshold_of
from lakerunner_sampling.policies.model import DecisionMoment, Decisions, LimiterMemory

BATCH, BATCHES, STEP_NS = 3000, 8, 10 * 10**9
ERRORS = {"type": "status_code", "status_code": {"status_codes": ["ERROR"]}}
TENTH = {"type": "probabilistic", "probabilistic": {"sampling_percentage": 10}}
SALTED = {"type": "probabilistic", "probabilistic": {"sampling_percentage": 30, "hash_salt": "other"}}
LIMIT = {"type": "rate_limiting", "rate_limiting": {"spans_per_second": 400}}
DYNAMIC = {
    "type": "ema_dynamic",
    "ema_dynamic": {"goal_sample_rate": 8, "field_list": ["root.name"], "adjustment_interval": "10s"},
}
THROUGHPUT = {
    "type": "ema_throughput",
    "ema_throughput": {
        "goal_throughput_per_sec": 30,
        "field_list": ["root.name"],
        "adjustment_interval": "10s",
    },
}
MIXES = {
    "one": [TENTH],
    "certain or not": [ERRORS, TENTH],
    "two hashes": [TENTH, SALTED],
    "hash and limit": [TENTH, LIMIT],
    "limit of what two policies keep": [{"type": "and", "and": {"and_sub_policy": [SALTED, LIMIT]}}, ERRORS],
    "deterministic and dynamic": [{"type": "deterministic", "deterministic": {"sample_rate": 5}}, DYNAMIC],
    "throughput and hash": [THROUGHPUT, SALTED],
    "negated": [{"type": "not", "not": {"not_sub_policy": SALTED}}, TENTH],
    "dropped by lot": [
        {
            "type": "drop",
            "drop": {
                "drop_sub_policy": [SALTED, {"type": "deterministic", "deterministic": {"sample_rate": 2}}]
            },
        },
        ERRORS,
        LIMIT,
    ],
    "composite": [
        {
            "type": "composite",
            "composite": {
                "max_total_spans_per_second": 900,
                "composite_sub_policy": [ERRORS, SALTED, {"type": "always_sample"}],
                "rate_allocation": [{"policy": "c0", "percent": 20}, {"policy": "c1", "percent": 30}],
            },
        }
    ],
}


def named(policies: list[dict], prefix: str = "p") -> list[dict]:
    """Name policies, and those below them."""
    found = []
    for number, policy in enumerate(policies):
        kind = policy["type"]
        inner = dict(policy.get(kind, {}))
        if f"{kind}_sub_policy" in inner:
            below = inner[f"{kind}_sub_policy"]
            key = f"{kind}_sub_policy"
            inner[key] = named(below, "c") if isinstance(below, list) else named([below], "c")[0]
        found.append({**policy, "name": f"{prefix}{number}", **({kind: inner} if inner else {})})
    return found


def policies_of(mix: str) -> PolicySet:
    return read_policies(yaml.safe_dump(named(MIXES[mix])).encode()).policy_set()


def traces(policies: PolicySet, rng: np.random.Generator, tracestate: str) -> pa.Table:
    """Make the aggregates of a batch: a fifth has errors, names are skewed, half was sampled before."""
    rows = BATCH
    ids = rng.bytes(16 * rows)
    spans = rng.integers(1, 20, rows)
    randomness = np.frombuffer(ids, np.uint8).reshape(rows, 16)[:, 8:].copy().view(">u8").ravel()
    randomness = (randomness & np.uint64(NEVER - 1)).astype(np.int64)
    before = (
        np.where(rng.random(rows) < 0.5, threshold_of(0.25), -1) if tracestate == "th" else np.full(rows, -1)
    )
    names = rng.choice(["GET /", "POST /pay", "rare"], rows, p=[0.8, 0.19, 0.01])
    columns = {
        "trace_id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(ids)]),
        "span_count": pa.array(spans),
        "first_ns": pa.array(np.zeros(rows, np.int64)),
        "last_ns": pa.array(np.ones(rows, np.int64)),
        "ot_rv": pa.nulls(rows, pa.int64()),
        "ot_th": pa.array(np.where(before >= 0, before, 0), mask=before < 0),
    }
    for column in policies.columns():
        if column.type == "BOOLEAN":
            columns[column.name] = pa.array(rng.random(rows) < 0.2)
        elif column.type == "VARCHAR":
            columns[column.name] = pa.array(names)
    table = pa.table(columns)
    return table.filter(pa.array(randomness >= np.maximum(before, 0)))  # the others were dropped upstream


CASES = [(mix, tracestate) for mix in MIXES for tracestate in ("none", "th")]
CASES.remove(("dropped by lot", "th"))  # what was sampled before has a lot that is always dropped


@pytest.mark.parametrize(("mix", "tracestate"), CASES)
def test_weights_of_kept_traces_add_up_to_all_traces(mix: str, tracestate: str) -> None:
    policies, memory = policies_of(mix), LimiterMemory()
    rng = np.random.default_rng(random.Random(mix + tracestate).randrange(2**32))
    weights = spans = 0.0
    variance = span_variance = 0.0
    every_span = 0
    for number in range(BATCHES):
        batch = traces(policies, rng, tracestate)
        if tracestate == "none":
            every_span += int(batch.column("span_count").to_numpy().sum())
        found = policies.decide(batch, DecisionMoment(number * STEP_NS), memory)
        memory = found.memory
        keep, probability, size = _kept(found, batch)
        weights += float((1 / probability).sum())
        spans += float((size / probability).sum())
        variance += float(((1 - probability) / probability**2).sum())
        span_variance += float((size**2 * (1 - probability) / probability**2).sum())
        assert keep.any()
    assert abs(weights - BATCH * BATCHES) < 4 * math.sqrt(variance) + 1e-6, (weights, math.sqrt(variance))
    if tracestate == "none":
        assert abs(spans - every_span) < 4 * math.sqrt(span_variance) + 1e-6


def _kept(found: Decisions, batch: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keep = found.table.column("keep").to_numpy()
    return (
        keep,
        found.table.column("probability").to_numpy()[keep],
        batch.column("span_count").to_numpy()[keep],
    )


def test_thresholds_and_probabilities_agree() -> None:
    policies = policies_of("hash and limit")
    batch = traces(policies, np.random.default_rng(1), "none")
    table = policies.decide(batch, DecisionMoment(0), LimiterMemory()).table
    threshold, probability = (table.column(name).to_numpy() for name in ("threshold", "probability"))
    assert np.allclose(1 - threshold / NEVER, probability)


def test_limits_hold_over_time() -> None:
    policies = policies_of("limit of what two policies keep")
    only = PolicySet(policies.policies[:1])
    rng, memory, spans = np.random.default_rng(5), LimiterMemory(), 0
    for number in range(BATCHES):
        batch = traces(policies, rng, "none")
        found = only.decide(batch, DecisionMoment(number * STEP_NS), memory)
        memory = LimiterMemory.from_json(found.memory.to_json())
        spans += int(_kept(found, batch)[2].sum())
    assert 0.9 * 400 * (BATCHES - 1) * 10 < spans <= 2 * 400 + 400 * (BATCHES - 1) * 10


def test_dynamic_rates_reach_their_goal_and_keep_rare_keys() -> None:
    policies = PolicySet(policies_of("deterministic and dynamic").policies[1:])
    rng, memory, kept, rare = np.random.default_rng(6), LimiterMemory(), 0, 0.0
    for number in range(BATCHES):
        batch = traces(policies, rng, "none")
        found = policies.decide(batch, DecisionMoment(number * STEP_NS), memory)
        memory = LimiterMemory.from_json(found.memory.to_json())
        name = np.array(batch.column(policies.columns()[0].name).to_pylist())
        keep, probability = (found.table.column(each).to_numpy() for each in ("keep", "probability"))
        if number >= 3:
            kept += int(keep.sum())
            rare = float(probability[name == "rare"].min())
            assert probability[name == "GET /"].max() < probability[name == "POST /pay"].min()
    assert 6 < BATCH * (BATCHES - 3) / kept < 10
    assert rare > 0.5
