"""Values that travel between policies, the state of traces and the sampler.

    columns of spans → AggregateColumn per trace → Decisions: keep, policy, reason, probability, threshold

A limiter's memory goes into a decision and comes out of it, to be stored with the checkpoint: the same traces
with the same memory always give the same decisions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from lakerunner_sampling.policies.dynamic import DynamicSettings
from lakerunner_sampling.shapes import Attribute

_OT = "(?:^|,)[ \\t]*ot=([^,]*)"
RV_SQL = (
    f"try_cast('0x' || nullif(regexp_extract(regexp_extract(trace_state, '{_OT}', 1), "
    "'(?:^|;)rv:([0-9a-f]{14})(?:;|$)', 1), '') AS BIGINT)"
)
TH_SQL = (
    f"try_cast('0x' || rpad(nullif(regexp_extract(regexp_extract(trace_state, '{_OT}', 1), "
    "'(?:^|;)th:([0-9a-f]{1,14})(?:;|$)', 1), ''), 14, '0') AS BIGINT)"
)


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
    AggregateColumn("last_ns", "max(greatest(start_ns, end_ns))", "max", "BIGINT"),
    AggregateColumn("roots", "count(*) FILTER (parent_span_id IS NULL)", "sum", "BIGINT"),
)
"""Columns of every trace, beside `trace_id`, `bytes`, `first_seq` and `last_seq`."""

BYTES = AggregateColumn("bytes", "sum(size)::BIGINT", "sum", "BIGINT")
"""Estimated bytes of a trace; null unless a policy limits bytes."""
RV = AggregateColumn("ot_rv", f"max({RV_SQL})", "max", "BIGINT")
TH = AggregateColumn("ot_th", f"min({TH_SQL})", "min", "BIGINT")
"""Randomness and least threshold that spans carry in `tracestate`."""

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
    """Memory of limiters and dynamic samplers, by the path of their policy."""

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


@dataclass(frozen=True, slots=True)
class Always:
    """Keeps every trace."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Keeps traces of which any span, or with `negate` no span, meets a condition."""

    condition: str
    """Condition over the span relation, in SQL."""
    attributes: tuple[Attribute, ...] = ()
    columns: frozenset[str] = frozenset()
    negate: bool = False


@dataclass(frozen=True, slots=True)
class Latency:
    """Keeps traces by the time from their first start to their last end."""

    above_ms: int
    up_to_ms: int
    """Upper bound; 0 is none."""


@dataclass(frozen=True, slots=True)
class SpanCount:
    """Keeps traces by their number of spans, bounds included; an upper bound of 0 is none."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Probabilistic:
    """Keeps a share of the traces by the hash of their id."""

    salt: str
    percentage: float


@dataclass(frozen=True, slots=True)
class Budget:
    """Keeps as many spans or bytes each second as a token bucket lets through."""

    unit: Literal["spans", "bytes"]
    per_second: int
    burst: int


@dataclass(frozen=True, slots=True)
class Deterministic:
    """Keeps one trace in `rate`, by randomness."""

    rate: int


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Keeps traces at a rate learned for their key."""

    fields: tuple[KeyField, ...]
    with_span_count: bool
    settings: DynamicSettings


@dataclass(frozen=True, slots=True)
class KeyField:
    """Part of a dynamic sampler's key: a field of the root, or the least and the greatest of all spans."""

    sql: str
    of_root: bool
    attributes: tuple[Attribute, ...] = ()
    columns: frozenset[str] = frozenset()

    def aggregates(self) -> tuple[str, ...]:
        if self.of_root:
            return (f"max({self.sql}) FILTER (parent_span_id IS NULL)",)
        return (f"min({self.sql})", f"max({self.sql})")


@dataclass(frozen=True, slots=True)
class And:
    """Keeps what every part keeps."""

    parts: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Keeps what its part does not keep."""

    part: Policy


@dataclass(frozen=True, slots=True)
class Drop:
    """Drops what every part keeps, whatever other policies say."""

    parts: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class Composite:
    """Keeps by the first part that matches, each within its share of spans per second."""

    max_spans_per_second: int
    parts: tuple[Policy, ...]
    allocations: tuple[int, ...]


Rule = (
    Always | Flag | Latency | SpanCount | Probabilistic | Budget | Deterministic | Dynamic
    | And | Not | Drop | Composite
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule with the name and type under which its file has it."""

    name: str
    type: str
    path: str
    """Names from the top, such as `errors/by-service`: unique in a set."""
    rule: Rule
    inverted: bool = False
    """True where `invert_match` is set."""

    def parts(self) -> tuple[Policy, ...]:
        match self.rule:
            case And(parts) | Drop(parts):
                return parts
            case Composite():
                return self.rule.parts
            case Not(part):
                return (part,)
        return ()

    def every(self) -> Iterator[Policy]:
        """Yield this policy and all below it."""
        yield self
        for part in self.parts():
            yield from part.every()
