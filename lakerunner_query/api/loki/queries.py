"""The query endpoints of Loki, and the router of all its endpoints."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from litestar import Request, Response, Router, route

from lakerunner_query.api.loki.detected import (
    detected_field_values,
    detected_fields,
    detected_labels,
    patterns,
)
from lakerunner_query.api.loki.names import (
    index_stats,
    index_volume,
    index_volume_range,
    label_values,
    labels,
    series,
)
from lakerunner_query.api.loki.params import QueryParams, instant_params, query_text, range_params
from lakerunner_query.api.loki.render import (
    CATEGORIZE,
    FLAGS,
    JSON,
    METHODS,
    reply,
    respond_like_loki,
    samples_json,
    streams_json,
)
from lakerunner_query.api.loki.status import STATUS_HANDLERS
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.requests import RequestFields, allows_rewriting, read_fields
from lakerunner_query.api.shared.services import QueryWatch, Services
from lakerunner_query.coordinator.languages import LOG_LINES, LOG_SAMPLES
from lakerunner_query.coordinator.logql_lines import gives_lines
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.merge import INLINE_POINTS, RowMerge
from lakerunner_query.errors import InvalidRequestError, LimitExceededError
from lakerunner_query.plan.logql import LogLinesRequest
from lakerunner_query.serving import handlers, unless_gone


@dataclass(slots=True)
class Thinning:
    """Drops rows that are less than an interval from the last one before; tables come in the query's order.

        interval 10 s, oldest first      12:00:00  12:00:04  12:00:11  12:00:20  12:00:21
        shown                            12:00:00            12:00:11            12:00:21

    As in Loki, the limit is on the rows before they are thinned out, and all streams are thinned together.
    """

    interval_ns: int
    reverse: bool
    _last_ns: int | None = None

    def thin(self, table: pa.Table) -> pa.Table:
        if not self.interval_ns:
            return table
        times = table["tsns"].to_numpy()
        times = -times if self.reverse else times
        rows: list[int] = []
        while True:
            last = self._last_ns
            at = 0 if last is None else int(np.searchsorted(times, last + self.interval_ns))
            if at >= len(times):
                return table.take(pa.array(rows, pa.int64()))
            rows.append(at)
            self._last_ns = int(times[at])


MAX_ANSWER_BYTES = 256 * 1024 * 1024
INLINE_ROWS, INLINE_BYTES = 200, 64 * 1024
"""Size of an answer up to which it is rendered faster than handed to another thread."""
NOT_INSTANT = (
    "log queries are not supported as an instant query type, please change your query to a range query type"
)


@route("/query", http_method=METHODS, status_code=200, media_type=JSON)
async def query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Evaluate a query for samples at one time."""
    fields = await read_fields(request)
    at = instant_params(fields, services.settings, time.time_ns())
    with services.watch("loki") as watch:
        if await gives_lines(query_text(fields)):
            raise InvalidRequestError(NOT_INSTANT)
        return await unless_gone(request, _samples(services, fields, at, caller(request.state).org, watch))


@route("/query_range", http_method=METHODS, status_code=200, media_type=JSON)
async def query_range(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return lines in `[start, end)`, or samples at the steps of the range, both ends included."""
    fields = await read_fields(request)
    during = range_params(fields, services.settings, time.time_ns())
    org = caller(request.state).org
    categorize = CATEGORIZE in request.headers.get(FLAGS, "").replace(" ", "").split(",")
    with services.watch("loki") as watch:
        if await gives_lines(query_text(fields)):
            work = _streams(services, fields, during, org, categorize, watch)
        else:
            work = _samples(services, fields, during, org, watch)
        return await unless_gone(request, work)


loki_router = Router(
    "/loki/api/v1",
    route_handlers=[
        query, query_range, labels, label_values, series, index_stats, index_volume, index_volume_range,
        detected_labels, detected_fields, detected_field_values, patterns, *STATUS_HANDLERS,
    ],
    guards=[require_reader],
    exception_handlers=handlers(respond_like_loki),
    tags=["loki"],
)  # fmt: skip


async def _streams(
    services: Services,
    fields: RequestFields,
    during: QueryParams,
    org: str,
    categorize: bool,
    watch: QueryWatch,
) -> Response[bytes]:
    began = time.perf_counter()
    within = LogLinesRequest(org, during.start_ns, during.end_ns, during.limit, during.reverse, distinct=True)
    tables: list[pa.Table] = []
    thinning = Thinning(during.interval_ns, during.reverse)
    prepared = await services.engine.prepare(LOG_LINES, query_text(fields), within)
    collected, size = RowMerge(during.limit, missing=prepared.missing), 0
    async with aclosing(services.engine.run(prepared, collected)) as pieces:
        async for rows in pieces:
            tables.append(thinning.thin(rows))
            size += rows.nbytes
            _check_size(size)
    watch.finish(collected)
    seconds = time.perf_counter() - began
    arguments = tables, collected, seconds, categorize
    if collected.rows <= INLINE_ROWS and size <= INLINE_BYTES:
        body = streams_json(*arguments)
    else:
        body = await asyncio.to_thread(streams_json, *arguments)
    return reply(fields, body, collected.missing, during.warnings)


async def _samples(
    services: Services, fields: RequestFields, at: QueryParams, org: str, watch: QueryWatch
) -> Response[bytes]:
    began = time.perf_counter()
    within = LogSamplesRequest(org, at.start_ns, at.end_ns, at.step_ns, rewrite=allows_rewriting(fields))
    prepared = await services.engine.prepare(LOG_SAMPLES, query_text(fields), within)
    joined = await services.engine.collect(prepared)
    watch.end(partial=bool(joined.missing), points=joined.samples)
    instant_ns = None if at.step_ns else at.end_ns
    arguments = joined, prepared.plan.kind, instant_ns, time.perf_counter() - began
    if joined.samples < INLINE_POINTS:
        data = samples_json(*arguments)
    else:
        data = await asyncio.to_thread(samples_json, *arguments)
    return reply(fields, data, joined.missing, at.warnings)


def _check_size(size: int) -> None:
    """Refuse an answer, one piece of JSON, that might take all memory of the process."""
    if size > MAX_ANSWER_BYTES:
        raise LimitExceededError(
            f"the answer is more than {MAX_ANSWER_BYTES >> 20} MiB: "
            "lower the limit, or narrow the time range or the filters"
        )
