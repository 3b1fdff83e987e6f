"""Which labels tell streams apart, and which fields lines hold, as Loki's API tells them.

Labels come from stream tables. Fields are those of a sample: the newest lines of the query, `line_limit` of
them, of which the header `X-Lakerunner-Sampled-Lines` says how many there were; a line that is an object is
read as JSON, any other as logfmt.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Any

import msgspec
import pyarrow as pa
from litestar import Request, Response, get, route

from lakerunner_query.api.auth import caller
from lakerunner_query.api.detecting import Field, fields_of
from lakerunner_query.api.disconnect import unless_gone
from lakerunner_query.api.forms import Given, given
from lakerunner_query.api.loki_names import question
from lakerunner_query.api.loki_params import limit, log_query_text, time_range
from lakerunner_query.api.loki_replies import JSON, METHODS, bare
from lakerunner_query.api.services import Services
from lakerunner_query.coordinator.logql_lines import Engine, Finished
from lakerunner_query.coordinator.merge import Collected
from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.plan.logql import LogRange
from lakerunner_query.protocol.units import ROWS

MOST_FIELDS = 1000
SAMPLE = 100
MAX_SAMPLE = 5000
SAMPLED = "X-Lakerunner-Sampled-Lines"


@route("/detected_labels", http_method=METHODS, status_code=200, media_type=JSON)
async def detected_labels(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Stream labels and how many values each has."""
    asked = await given(request)
    wanted = question(asked, caller(request.state).org, *asked.all("query"))
    with services.watch("loki") as watch:
        found = await unless_gone(request, services.streams.values(wanted))
        watch.ended(partial=bool(found.missing))
    listed = [{"label": name, "cardinality": len(values)} for name, values in sorted(found.values.items())]
    return bare(asked, msgspec.json.encode({"detectedLabels": listed}), found.missing)


@route("/detected_fields", http_method=METHODS, status_code=200, media_type=JSON)
async def detected_fields(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Fields of structured metadata and of lines, with their types."""
    asked = await given(request)
    most = limit(asked, MOST_FIELDS)
    fields, collected = await _fields(request, services, asked)
    told = [field.told() for field in fields[:most]]
    return _sampled(asked, {"fields": told, "limit": most}, collected)


@get("/detected_field/{name:str}/values", media_type=JSON)
async def detected_field_values(
    name: str, request: Request[Any, Any, Any], services: Services
) -> Response[bytes]:
    """Values of one of those fields."""
    asked = await given(request)
    most = limit(asked, MOST_FIELDS)
    fields, collected = await _fields(request, services, asked)
    values = next((field.values for field in fields if field.label == name), [])
    return _sampled(asked, {"limit": most, "values": values[:most]}, collected)


async def _fields(
    request: Request[Any, Any, Any], services: Services, asked: Given
) -> tuple[list[Field], Collected]:
    now = time.time_ns()
    start, end = time_range(asked, now, services.settings.query_default_window_s)
    if end < start:
        raise InvalidRequestError("end timestamp must not be before or equal to start time")
    within = LogRange(caller(request.state).org, start, end, _sample(asked))
    with services.watch("loki") as watch:
        rows, finished = await unless_gone(request, _rows(services.engine, log_query_text(asked), within))
        watch.finished(finished)
    return await asyncio.to_thread(fields_of, rows, asked.text("query"), now), finished.collected


async def _rows(engine: Engine, text: str, within: LogRange) -> tuple[pa.Table, Finished]:
    tables, finished = [ROWS.empty_table()], Finished(Collected(0))
    async with aclosing(engine.run(await engine.prepare(text, within))) as answers:
        async for answer in answers:
            if isinstance(answer, Finished):
                finished = answer
            else:
                tables.append(answer.table)
    return pa.concat_tables(tables), finished


def _sample(asked: Given) -> int:
    lines = limit(Given({"limit": asked.text("line_limit")}, ()), SAMPLE)
    if lines > MAX_SAMPLE:
        raise InvalidRequestError(f"line_limit must not be greater than {MAX_SAMPLE}")
    return lines


def _sampled(asked: Given, told: dict[str, object], collected: Collected) -> Response[bytes]:
    response = bare(asked, msgspec.json.encode(told), collected.missing)
    response.headers[SAMPLED] = str(collected.rows)
    return response
