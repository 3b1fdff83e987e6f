"""Loki's HTTP API, as far as log queries go; answers and errors have Loki's shapes."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pyarrow as pa
from litestar import HttpMethod, Request, Response, Router, get, route

from lakerunner_query.api.auth import caller, require_reader
from lakerunner_query.api.disconnect import unless_gone
from lakerunner_query.api.loki_json import CATEGORIZE, streams_json
from lakerunner_query.api.loki_params import LokiRequest, first_of_each, form_fields, log_request
from lakerunner_query.api.services import Services
from lakerunner_query.api.watching import QueryWatch
from lakerunner_query.engine import Finished
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.execute.merge import Collected

JSON = "application/json; charset=UTF-8"
FORM = "application/x-www-form-urlencoded"
MAX_ANSWER_BYTES = 256 * 1024 * 1024
FLAGS = "x-loki-response-encoding-flags"


@route("/query_range", http_method=[HttpMethod.GET, HttpMethod.POST], status_code=200, media_type=JSON)
async def query_range(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """A log query over a time range; start inclusive, end exclusive."""
    given = first_of_each([*await _form(request), *request.query_params.multi_items()])
    asked = log_request(given, caller(request.state).org, services.settings, time.time_ns())
    categorize = CATEGORIZE in request.headers.get(FLAGS, "").replace(" ", "").split(",")
    with services.watch("loki") as watch:
        return await unless_gone(request, _answer(services, asked, categorize, watch))


@get("/status/buildinfo", sync_to_thread=False)
def buildinfo() -> dict[str, str]:
    """What Grafana asks first; the version of Loki whose API this is."""
    return {
        "version": "3.5.0",
        "revision": "lakerunner",
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    }


loki_router = Router(
    "/loki/api/v1", route_handlers=[query_range, buildinfo], guards=[require_reader], tags=["loki"]
)


async def _form(request: Request[Any, Any, Any]) -> list[tuple[str, str]]:
    """Read even for GET: the disconnect watcher needs the body out of the way."""
    body = await request.body()
    return form_fields(body) if request.content_type[0] == FORM else []


async def _answer(
    services: Services, asked: LokiRequest, categorize: bool, watch: QueryWatch
) -> Response[bytes]:
    began = time.perf_counter()
    prepared = await services.engine.prepare(asked.query, asked.asked)
    tables: list[pa.Table] = []
    collected, size = Collected(0), 0
    async with aclosing(services.engine.run(prepared)) as answers:
        async for answer in answers:
            if isinstance(answer, Finished):
                watch.finished(answer)
                collected = answer.collected
            else:
                tables.append(answer.table)
                size += answer.table.nbytes
                _check_size(size)
    warnings = [*asked.warnings, *_partial(collected)]
    seconds = time.perf_counter() - began
    body = await asyncio.to_thread(streams_json, tables, collected, seconds, warnings, categorize)
    headers = {"X-Lakerunner-Partial": "true"} if collected.missing else {}
    return Response(body, media_type=JSON, headers=headers)


def _check_size(size: int) -> None:
    """The answer is one piece of JSON: a few units of long lines would be more than the process has."""
    if size > MAX_ANSWER_BYTES:
        raise LimitExceededError(
            f"the answer is more than {MAX_ANSWER_BYTES >> 20} MiB: "
            "lower the limit, or narrow the time range or the filters"
        )


def _partial(collected: Collected) -> list[str]:
    if not collected.missing:
        return []
    first = next(iter(collected.missing.values()))
    return [f"partial: {len(collected.missing)} segments unreadable, e.g. {first.segment_id}: {first.reason}"]
