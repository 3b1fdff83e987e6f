"""Values that travel between policies, the state of traces and the sampler.

    columns of spans → AggregateColumn per trace → Decisions: keep, policy, reason, probability, threshold

A limiter's memory goes into a decision and comes out of it, to be stored with the checkpoint: the same traces
with the same memory always give the same decisions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

ALWAYS = 0
NEVER = 1 << 56
"""Threshold below which every randomness of 56 bits lies."""


class PolicyError(ValueError):
    """A policy cannot be used; the message names the policy and the remedy."""


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """A column of the partial aggregates of one commit."""

    name: str
    sql: str
    """Aggregate over the span relation, of which it may name columns and attributes."""
    merge: Literal["max", "min", "sum"]
    type: str


BASE = (
    AggregateColumn("span_count", "count(*)", "sum", "BIGINT"),
    AggregateColumn("first_ns", "min(start_ns)", "min", "BIGINT"),
    AggregateColumn("last_ns", "max(end_ns)", "max", "BIGINT"),
    AggregateColumn("roots", "count(*) FILTER (parent_span_id IS NULL)", "sum", "BIGINT"),
)
"""Columns of every trace, beside `trace_id`, `bytes`, `first_seq` and `last_seq`."""

DECISIONS = pa.schema(
    [
        pa.field("trace_id", pa.binary()),
        pa.field("keep", pa.bool_()),
        pa.field("policy", pa.dictionary(pa.int32(), pa.string())),
        pa.field("reason", pa.dictionary(pa.int32(), pa.string())),
        pa.field("probability", pa.float64()),
        pa.field("threshold", pa.int64()),
    ]
)
"""Columns of decisions: `probability` of being kept, and OTel's threshold that stands for it."""


@dataclass(frozen=True, slots=True)
class DecisionMoment:
    """Time at which a batch is decided, by the table's watermark."""

    watermark_ns: int


@dataclass(frozen=True, slots=True)
class LimiterMemory:
    """What limiters and dynamic samplers remember, by the path of their policy."""

    at_ns: int | None = None
    """Watermark of the last decision."""
    tokens: dict[str, float] = field(default_factory=dict)
    rates: dict[str, Any] = field(default_factory=dict)
    """State of dynamic samplers: moving average, rates and counts by key."""

    def to_json(self) -> str:
        return json.dumps({"at_ns": self.at_ns, "tokens": self.tokens, "rates": self.rates}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> LimiterMemory:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions on a batch, and the memory to store with them."""

    table: pa.Table
    memory: LimiterMemory
