"""Statements on Spark are looked at, read and cancelled under their id.

    GET    /api/v1/query/{id}            state and progress
    GET    /api/v1/query/{id}/result     the rows, in every form of `/api/v1/query`
    DELETE /api/v1/query/{id}            cancels it

Results stay for an hour. The id of another organisation does not exist.
"""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, Router, delete, get

from lakerunner_query.api.lakerunner import events
from lakerunner_query.api.lakerunner.lakeql import (
    check_statement,
    explain,
    job_facts,
    query,
    respond,
    validate,
)
from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.services import Services
from lakerunner_query.coordinator.lakeql_jobs import Jobs
from lakerunner_query.errors import NotFoundError
from lakerunner_query.serving import handlers, respond_plain


@get("/query/{query_id:str}", status_code=200)
async def look(query_id: str, request: Request[Any, Any, Any], services: Services) -> dict[str, Any]:
    """Return the state of a statement on Spark, with its progress."""
    return job_facts(await _jobs(services).look(caller(request.state).org, query_id))


@get("/query/{query_id:str}/result", status_code=200, media_type=events.MEDIA_TYPE)
async def result(query_id: str, request: Request[Any, Any, Any], services: Services) -> Response[Any]:
    """Return the rows of a statement that Spark has answered; 409 while they are not there."""
    with services.watch("lakeql") as watch:
        answer = await _jobs(services).open(caller(request.state).org, query_id)
        return await respond(request, answer, watch, allow_partial=True)


@delete("/query/{query_id:str}", status_code=200)
async def cancel(query_id: str, request: Request[Any, Any, Any], services: Services) -> dict[str, Any]:
    """Cancel a statement; one that has ended stays as it is."""
    jobs, org = _jobs(services), caller(request.state).org
    await jobs.cancel(org, query_id)
    return job_facts(await jobs.look(org, query_id))


def _jobs(services: Services) -> Jobs:
    if services.lakeql.jobs is None:
        raise NotFoundError(
            "this query API has no Spark (LAKERUNNER_SPARK_REMOTE): there are no queries to look at"
        )
    return services.lakeql.jobs


lakeql_router = Router(
    "/api/v1",
    route_handlers=[query, explain, validate, look, result, cancel],
    guards=[require_reader],
    before_request=check_statement,
    exception_handlers=handlers(respond_plain),  # Prometheus has a path of this name, too
    tags=["lakeql"],
)
