"""Log lines and exemplars that name a trace are read beside its spans.

    {service_name=~".+"} | trace_id="4bf92f3577b34da6a3ce929d0e0e4736"

Both are looked for from ten minutes before the trace to ten behind it.

A part that fails leaves the others whole: its reason is one of `failures`, and the answer is partial.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.languages import EXEMPLARS, LOG_LINES
from lakerunner_query.coordinator.logql_lines import read_rows
from lakerunner_query.coordinator.names import SeriesRequest
from lakerunner_query.errors import QueryError
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.protocol.answers import SeriesExemplars
from lakerunner_query.protocol.tables import ROWS
from lakerunner_query.protocol.units import Missing

AROUND_NS = 600 * 1_000_000_000
"""Time before and behind a trace in which its lines and exemplars are looked for: clocks differ."""
NS_PER_MS = 1_000_000


@dataclass(slots=True)
class TraceContext:
    """Log lines and exemplars of a trace."""

    start_ns: int
    end_ns: int
    lines: pa.Table = field(default_factory=ROWS.empty_table)
    is_cut: bool = False
    """There may be more lines."""
    exemplars: list[SeriesExemplars] = field(default_factory=list)
    missing: dict[str, Missing] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """Reasons by the part that could not be read."""


async def read_context(
    engine: Engine, org: str, trace_id: str, start_ns: int, end_ns: int, *, lines: int, has_exemplars: bool
) -> TraceContext:
    """Read at most `lines` lines, oldest first, and all exemplars."""
    found = TraceContext(max(0, start_ns - AROUND_NS), end_ns + AROUND_NS)
    parts: dict[str, Coroutine[Any, Any, None]] = {}
    if lines:
        parts["logs"] = _read_lines(engine, org, trace_id, lines, found)
    if has_exemplars:
        parts["exemplars"] = _read_exemplars(engine, org, trace_id, found)
    outcomes = await asyncio.gather(*parts.values(), return_exceptions=True)
    for name, outcome in zip(parts, outcomes, strict=True):
        if isinstance(outcome, QueryError):
            found.failures[name] = outcome.message
        elif outcome is not None:
            raise outcome
    return found


async def _read_lines(engine: Engine, org: str, trace_id: str, most: int, found: TraceContext) -> None:
    limit = min(most + 1, engine.limits.max_rows)
    text = f'{{service_name=~".+"}} | trace_id="{trace_id}"'
    request = LogLinesRequest(org, found.start_ns, found.end_ns, limit, reverse=False)
    rows, collected = await read_rows(engine, await engine.prepare(LOG_LINES, text, request))
    found.lines, found.is_cut = rows.slice(0, most), rows.num_rows >= limit
    found.missing |= collected.missing


async def _read_exemplars(engine: Engine, org: str, trace_id: str, found: TraceContext) -> None:
    request = SeriesRequest(org, found.start_ns // NS_PER_MS, found.end_ns // NS_PER_MS, trace_id=trace_id)
    listing = await engine.ask(EXEMPLARS, request)
    found.exemplars = listing.exemplars
    found.missing |= listing.missing
