"""`/api/v1/promql`: whether a text is PromQL, without running it."""

from __future__ import annotations

import msgspec
from anyio.to_thread import run_sync
from litestar import Router, post

from lakerunner_query.api.auth import require_reader
from lakerunner_query.api.failures import Failure, envelope
from lakerunner_query.api.logs import readable
from lakerunner_query.api.services import Services
from lakerunner_query.errors import ParseError
from lakerunner_query.promql.lang.ast import Selector, walk
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import pretty, to_text


class Question(msgspec.Struct, forbid_unknown_fields=True):
    q: str


class Verdict(msgspec.Struct, omit_defaults=True):
    """Either `error`, or what the text is."""

    valid: bool
    type: str = ""
    """`scalar`, `string`, `instant vector` or `range vector`."""
    formatted: str = ""
    selectors: list[str] = []
    error: Failure | None = None


@post("/validate", status_code=200)
async def validate(data: Question, services: Services) -> Verdict:
    """What is wrong with a query and where, or its type and selectors."""
    return await run_sync(_verdict, data.q, services.features)


promql_router = Router(
    "/api/v1/promql",
    route_handlers=[validate],
    guards=[require_reader],
    before_request=readable,
    tags=["metrics"],
)


def _verdict(text: str, features: Features) -> Verdict:
    try:
        expr = parse(text, features)
    except ParseError as error:
        return Verdict(False, error=envelope(error))
    found = dict.fromkeys(to_text(one) for one in walk(expr) if isinstance(one, Selector))
    return Verdict(True, type_of(expr).value, pretty(expr), list(found))
