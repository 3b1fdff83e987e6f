"""What requests to `/api/v1/logs` say: queries for lines or for samples, and questions about streams."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from litestar import Request

from lakerunner_query.api.metric_params import Aligned, MetricsQuery, Moment, aligned
from lakerunner_query.coordinator.logql_samples import LogMetricRange
from lakerunner_query.coordinator.names import StreamQuestion
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.logql.lang.parser import parse_selector
from lakerunner_query.moments import moment_ns
from lakerunner_query.plan.logql import LogRange
from resources.settings import Settings

NS_PER_MS = 1_000_000


class LogsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """LogQL over a time range; `s` and `e` are times (default: the last hour).

    A query for lines has its `limit` in lines, `reverse` (newest first) and `fields`; one for samples has its
    `limit` in series, `step` and `summary`.
    """

    q: str
    s: Moment = None
    e: Moment = None
    limit: int | None = None
    reverse: bool = True
    fields: list[str] = msgspec.field(default_factory=list)
    step: str | int | float | None = None
    summary: bool = False


class LogsNames(msgspec.Struct, forbid_unknown_fields=True):
    """Which streams, tags or values there are; `q` is a selector of streams."""

    s: Moment = None
    e: Moment = None
    q: str = ""
    tag: str = ""
    limit: int = 0


def lines(data: LogsQuery, org: str, settings: Settings) -> LogRange:
    """Of a query for lines."""
    if data.step is not None or data.summary:
        raise InvalidRequestError("step and summary are of queries for samples; this one gives log lines")
    start, end = _range(data.s, data.e, settings)
    limit = settings.query_default_limit if data.limit is None else data.limit
    if limit < 0:
        raise InvalidRequestError("limit must not be negative")
    return LogRange(org, start, end, limit, data.reverse)


def samples(data: LogsQuery, org: str, settings: Settings) -> tuple[Aligned, LogMetricRange]:
    """Of a query for samples: times in whole steps, as for metrics."""
    if data.fields:
        raise InvalidRequestError("fields are of queries for lines; this one gives samples")
    times = aligned(MetricsQuery(data.q, data.s, data.e, data.step, data.limit or 0), org, settings)
    asked = times.asked
    within = LogMetricRange(
        org, asked.start_ms * NS_PER_MS, asked.end_ms * NS_PER_MS, asked.step_ms * NS_PER_MS
    )
    return times, within


async def names(request: Request[Any, Any, Any]) -> LogsNames:
    """A JSON body, or the same names in the address."""
    body = await request.body()
    try:
        if body:
            return msgspec.json.decode(body, type=LogsNames)
        return msgspec.convert(dict(request.query_params), LogsNames, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(str(error)) from error
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from error


def question(data: LogsNames, org: str, settings: Settings) -> StreamQuestion:
    if data.limit < 0:
        raise InvalidRequestError("limit must not be negative")
    start, end = _range(data.s, data.e, settings)
    chosen = (parse_selector(data.q),) if data.q.strip() else ()
    return StreamQuestion(org, start, end, chosen, data.limit)


def _range(s: Moment, e: Moment, settings: Settings) -> tuple[int, int]:
    now = time.time_ns()
    end = now if e is None else moment_ns(e, now)
    start = moment_ns(f"e-{settings.query_default_window_s}s" if s is None else s, now, end)
    if start > end:
        raise InvalidRequestError("s is after e")
    return start, end
