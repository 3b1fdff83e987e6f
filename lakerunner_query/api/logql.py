"""`/api/v1/logql`: whether a text is LogQL, without running it."""

from __future__ import annotations

import msgspec
from anyio.to_thread import run_sync
from litestar import Router, post

from lakerunner_query.api.auth import require_reader
from lakerunner_query.api.failures import Failure, envelope
from lakerunner_query.api.logs import readable
from lakerunner_query.errors import ParseError
from lakerunner_query.logql.lang.ast import Literal, LogQuery
from lakerunner_query.logql.lang.parser import parsed
from lakerunner_query.logql.lang.pretty import pretty
from lakerunner_query.logql.lang.printer import selector_text
from lakerunner_query.plan.logql_samples import log_ranges


class LogQLQuestion(msgspec.Struct, forbid_unknown_fields=True):
    q: str


class LogQLVerdict(msgspec.Struct, omit_defaults=True):
    """Either `error`, or what the text is."""

    valid: bool
    type: str = ""
    """`streams`, `vector` or `scalar`."""
    formatted: str = ""
    selectors: list[str] = []
    error: Failure | None = None


@post("/validate", status_code=200)
async def validate(data: LogQLQuestion) -> LogQLVerdict:
    """What is wrong with a query and where, or its type and selectors."""
    return await run_sync(_verdict, data.q)


logql_router = Router(
    "/api/v1/logql",
    route_handlers=[validate],
    guards=[require_reader],
    before_request=readable,
    tags=["logs"],
)


def _verdict(text: str) -> LogQLVerdict:
    try:
        expr = parsed(text)
    except ParseError as error:
        return LogQLVerdict(False, error=envelope(error))
    if isinstance(expr, LogQuery):
        return LogQLVerdict(True, "streams", pretty(expr), [selector_text(expr.matchers)])
    found = dict.fromkeys(selector_text(one.query.matchers) for one in log_ranges(expr))
    kind = "scalar" if isinstance(expr, Literal) else "vector"
    return LogQLVerdict(True, kind, pretty(expr), list(found))
