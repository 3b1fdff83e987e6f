"""LogQL's functions for the engine where a query gives lines: plan it, cut its range.

Units are disjoint in time and answer in the order of the lines, so that a query stops as soon as it has
enough of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache

import pyarrow as pa
from anyio.to_thread import run_sync

from lakerunner_query.coordinator.engine import (
    NOTHING_TO_DO,
    Cut,
    Engine,
    Limits,
    PreparedQuery,
    hour_affinity,
)
from lakerunner_query.coordinator.locate import Lookup, rows_query
from lakerunner_query.coordinator.merge import RowMerge, RowsAnswer
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse, parse_cached
from lakerunner_query.plan.logql import LogLinesRequest, Nothing, TakeRows, build
from lakerunner_query.plan.optimise import Optimised, optimise
from lakerunner_query.plan.slices import RowSliceSizes, cut_slices
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.protocol.units import LogUnit, segment_ref
from resources.index.types import Segment

SLOW = "narrow the time range, or add a stream matcher or a line filter that selects less"
FOR_WORDS = RowSliceSizes(rows=16_000_000, bytes=2 << 30, first=1.0)
"""Sizes for queries that look for words, where most segments are not opened: few, large units."""

LogLinesQuery = PreparedQuery[LogLinesRequest, Optimised, RowsAnswer, RowMerge]


_kinds: dict[str, bool] = {}
"""Texts that were parsed lately; True for those that give lines."""
MOST_KINDS, MOST_QUICK = 256, 2000
"""Texts that are remembered, and the length of those that are planned on the event loop."""


def is_log_query(text: str) -> bool:
    """Tell queries for lines from those for samples; raise for what is no LogQL."""
    found = isinstance(parse_cached(text), LogQuery)
    if len(_kinds) >= MOST_KINDS:
        _kinds.clear()
    _kinds[text] = found
    return found


async def gives_lines(text: str) -> bool:
    """Tell queries for lines from those for samples, in another thread where the text is new."""
    known = _kinds.get(text)
    return await run_sync(is_log_query, text) if known is None else known


def is_planned_quickly(text: str) -> bool:
    """Tell whether planning takes less time than handing it to another thread: the tree is at hand."""
    return len(text) <= MOST_QUICK and text in _kinds


def plan_log_lines(text: str, request: LogLinesRequest, limits: Limits) -> Optimised:
    if request.limit > limits.max_rows:
        raise LimitExceededError(
            "max entries limit per query exceeded, limit > max_entries_limit_per_query "
            f"({request.limit} > {limits.max_rows}): ask for fewer rows and page by time"
        )
    return optimise(build(_parse(text), request))


def look_up_streams(planned: Optimised, _: LogLinesRequest) -> Lookup:
    plan = planned.plan
    return Lookup(() if isinstance(plan, Nothing) else (rows_query(plan.source.source),))


def cut_log_lines(query: LogLinesQuery, workers: int, _: Limits) -> Cut:
    """Cut the range; units are made one at a time, since most queries stop early."""
    plan = query.plan.plan
    if isinstance(plan, Nothing) or not query.distinct_segments:
        return NOTHING_TO_DO
    units = log_units(plan, query.distinct_segments, text=query.text, now_ns=query.now_ns)
    return Cut(units, max(1, workers) if plan.source.source.words else 1)


def log_units(
    plan: TakeRows,
    segments: Sequence[Segment],
    sizes: RowSliceSizes | None = None,
    *,
    text: str,
    now_ns: int = 0,
) -> Iterator[LogUnit]:
    """Yield units in answering order."""
    streams = plan.source.source
    chosen = sizes or (FOR_WORDS if streams.words else RowSliceSizes())
    for part in cut_slices(segments, streams.start_ns, streams.end_ns, reverse=plan.reverse, sizes=chosen):
        yield LogUnit(
            affinity=hour_affinity(streams.org, streams.dataset, part.segments),
            segments=tuple(map(segment_ref, part.segments)),
            text=text,
            start_ns=part.start_ns,
            end_ns=part.end_ns,
            limit=plan.limit,
            reverse=plan.reverse,
            distinct=plan.distinct,
            now_ns=now_ns,
        )


def merge_log_lines(query: LogLinesQuery, _: Limits) -> RowMerge:
    return RowMerge(query.request.limit)


@lru_cache(256)
def _parse(text: str) -> LogQuery:
    """Dashboards send the same text again and again."""
    return parse(text)


async def read_rows(engine: Engine, query: LogLinesQuery) -> tuple[pa.Table, RowMerge]:
    """Return all rows of a query in one table."""
    collected, tables = RowMerge(query.request.limit, missing=query.missing), [ROWS.empty_table()]
    async with aclosing(engine.run(query, collected)) as pieces:
        tables += [rows async for rows in pieces]
    return pa.concat_tables(tables), collected
