"""The plan of a metric query as text: what each selector reads, what the index pruned, how it is cut.

steps: 61, every 60000 ms from 1767225600000 to 1767229200000
Read {__name__="up"} in (1767225300000, 1767229200000], terms 1: 3 segments, 120000 rows, 1048576 bytes
segments: 40 live, 37 pruned by time and terms, 3 may match
rollups: none can serve
slices: 1
  steps 1767225600000 to 1767229200000 (61): 3 segments
shards of series: 2, of rate(up[5m])            (of a query that is one slice, where that is much to read)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakerunner_query.execute.locate import Locator
from lakerunner_query.metric_engine import METRICS, MetricEngine, PreparedMetrics
from lakerunner_query.plan.promql import Reads, per_series
from lakerunner_query.promql.lang.ast import Expr, Selector
from lakerunner_query.promql.lang.printer import to_text
from lakerunner_query.protocol.units import MetricUnit, ShardUnit
from resources.index.types import Segment


async def explain(engine: MetricEngine, locator: Locator, query: PreparedMetrics) -> str:
    live = await locator.live_segments(query.org, METRICS)
    units = list(engine.units(query))
    return "\n".join(
        [*_plan(query, live), *_slices(units), *_shards(engine.shards(query, units), query.expr)]
    )


def _plan(query: PreparedMetrics, live: int) -> Iterator[str]:
    steps = query.steps
    yield f"query: {to_text(query.expr)}"
    if query.asked.step_ms:
        yield f"steps: {steps.count}, every {steps.step_ms} ms from {steps.start_ms} to {steps.end_ms}"
    else:
        yield f"step: one, at {steps.end_ms}"
    for read, segments in zip(query.reads, query.segments, strict=True):
        yield _read(read, segments)
    found = len({segment.segment_id for each in query.segments for segment in each})
    yield f"segments: {live} live, {live - found} pruned by time and terms, {found} may match"


def _read(read: Reads, segments: Sequence[Segment]) -> str:
    rows, size = sum(segment.rows for segment in segments), sum(segment.bytes for segment in segments)
    selector = to_text(Selector("", read.matchers))
    stretch = f"({read.from_ms}, {read.to_ms}]"
    return (
        f"  Read {selector} in {stretch}, terms {len(read.terms)}: "
        f"{len(segments)} segments, {rows} rows, {size} bytes"
    )


def _slices(units: Sequence[MetricUnit]) -> Iterator[str]:
    yield f"slices: {len(units)}"
    for unit in units:
        last = unit.first_ms + (unit.steps - 1) * unit.step_ms
        rollups = "".join(
            f", rollup {one.frequency_ms} ms: {len(one.segments)} segments in {len(one.starts)} partitions"
            for one in unit.rollups
        )
        yield f"  steps {unit.first_ms} to {last} ({unit.steps}): {len(unit.segments)} segments{rollups}"


def _shards(shards: Sequence[ShardUnit], expr: Expr) -> Iterator[str]:
    if shards:
        parts = ", ".join(to_text(part) for part in per_series(expr) or ())
        yield f"shards of series: {len(shards)}, of {parts}"
