"""Queries as text: formatted, or taken apart."""

from __future__ import annotations

from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import Request, Response, route

from lakerunner_query.api.forms import given
from lakerunner_query.api.prometheus_json import Said
from lakerunner_query.api.prometheus_params import BadParameterError
from lakerunner_query.api.prometheus_replies import JSON, METHODS, reply
from lakerunner_query.api.prometheus_tree import tree
from lakerunner_query.api.services import Services
from lakerunner_query.errors import ParseError
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import pretty


@route("/format_query", http_method=METHODS, status_code=200, media_type=JSON)
async def format_query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """The query as a person would lay it out."""
    asked = await given(request)
    text = await run_sync(lambda: pretty(_parsed(asked.text("query"), services.features)))
    return reply(asked, msgspec.json.encode(text), Said())


@route("/parse_query", http_method=METHODS, status_code=200, media_type=JSON)
async def parse_query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """The query's syntax tree."""
    asked = await given(request)
    found = await run_sync(lambda: msgspec.json.encode(tree(_parsed(asked.text("query"), services.features))))
    return reply(asked, found, Said())


def _parsed(text: str, features: Features) -> Expr:
    try:
        return parse(text, features)
    except ParseError as error:
        raise BadParameterError("query", error.message, error.position) from error
