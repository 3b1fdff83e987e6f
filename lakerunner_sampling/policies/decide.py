"""A policy set decides a batch of traces at once, from their aggregates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from lakerunner_sampling.policies.model import (
    DECISIONS,
    AggregateColumn,
    DecisionMoment,
    Decisions,
    LimiterMemory,
)
from lakerunner_sampling.shapes import Wanted


class PolicySet:
    """Policies in order."""

    def columns(self) -> tuple[AggregateColumn, ...]:
        """Return the aggregates that the policies need beside `BASE`."""
        return (AggregateColumn("has_error", "coalesce(bool_or(status_code = 2), false)", "max", "BOOLEAN"),)

    def wanted(self) -> Wanted:
        """Return the columns of spans that the aggregates read."""
        return Wanted(
            frozenset({"trace_id", "parent_span_id", "start_ns", "end_ns", "status_code"}),
        )

    def decide(self, traces: pa.Table, moment: DecisionMoment, memory: LimiterMemory) -> Decisions:
        """Decide every trace of a batch."""
        keep = traces.column("has_error").to_numpy()
        threshold = np.zeros(len(keep), np.int64)
        policy = pa.array(np.where(keep, "errors", "")).dictionary_encode()
        table = pa.table(
            [
                traces.column("trace_id"), pa.array(keep), policy, policy,
                pa.array(np.ones(len(keep))), pa.array(threshold),
            ],
            schema=DECISIONS,
        )  # fmt: skip
        return Decisions(table, dataclasses.replace(memory, at_ns=moment.watermark_ns))

    def decide_early(self, traces: pa.Table) -> pa.Table:
        """Return the decisions, all of them to keep, that later spans cannot change."""
        return self.decide(traces, DecisionMoment(0), LimiterMemory()).table.slice(0, 0)
