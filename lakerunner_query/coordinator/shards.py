"""Cutting a metric query along its series, where it cannot be cut along its evaluation times.

    unit: sum(rate(m[30d])) at one time  ->  2 shards of rate(m[30d]), then a unit that is given both

Whatever goes wrong in a shard, and whatever is in doubt when all are there, is left to a single worker, which
says it as it would have without shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lakerunner_query.plan.promql import per_series
from lakerunner_query.plan.slices import SampleSliceSizes
from lakerunner_query.promql.context import Options
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.protocol.answers import ShardAnswer, agree, decode_shard_answer
from lakerunner_query.protocol.units import MetricUnit, ShardUnit


@dataclass(frozen=True, slots=True)
class Received:
    """A shard's answer, and as it came: so it is handed on."""

    body: bytes
    answer: ShardAnswer


def received(body: bytes) -> Received:
    return Received(body, decode_shard_answer(body))


def shard_units(
    unit: MetricUnit, expr: Expr, rows: int, workers: int, sizes: SampleSliceSizes
) -> tuple[ShardUnit, ...]:
    """The shards of a query that is one unit, one for each worker; none where nothing is gained.

    Rollups are few rows and not read by shards.
    """
    if workers < 2 or rows <= sizes.at_least or unit.rollups or per_series(expr) is None:
        return ()
    return tuple(ShardUnit(unit, number, workers) for number in range(workers))


def with_shards(unit: MetricUnit, shards: Sequence[Received]) -> MetricUnit:
    """The unit that is left, or the whole one where shards do not say what a single worker would."""
    max_cells = Options().max_cells
    max_series = min(unit.max_series or max_cells, max_cells // unit.steps)
    max_samples = min(unit.max_samples or max_cells, max_cells)
    if not agree([shard.answer for shard in shards], max_series, max_samples):
        return unit
    return msgspec.structs.replace(unit, segments=(), given=tuple(shard.body for shard in shards))
