"""The endpoints of Prometheus that format a query, or show its syntax tree.

up offset 1m  ->  {"type":"vectorSelector","name":"up","offset":60000,"matchers":[...],...}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from anyio.to_thread import run_sync
from litestar import Request, Response, route

from lakerunner_query.api.prometheus.params import BadParameterError
from lakerunner_query.api.prometheus.render import JSON, METHODS, Messages, reply
from lakerunner_query.api.shared.requests import read_fields
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import ParseError
from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Duration,
    Edge,
    Expr,
    Matching,
    Matrix,
    Number,
    Paren,
    Reach,
    Selector,
    Shift,
    Subquery,
    Text,
    Type,
    Unary,
)
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.functions import FUNCTIONS
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import pretty
from lakerunner_query.syntax import Matcher

Node = dict[str, object]
_TYPES = {Type.SCALAR: "scalar", Type.VECTOR: "vector", Type.MATRIX: "matrix", Type.STRING: "string"}


def tree(expr: Expr) -> Node:
    """Render a tree; durations are milliseconds, duration expressions 0, as in Prometheus."""
    match expr:
        case Number():
            return {"type": "numberLiteral", "val": format_float(expr.value, "f")}
        case Text():
            return {"type": "stringLiteral", "val": expr.value}
        case Selector():
            return {"type": "vectorSelector", **_selector(expr)}
        case Matrix():
            return {"type": "matrixSelector", "range": _ms(expr.range), **_selector(expr.selector)}
        case _:
            return _with_operands(expr)


def _with_operands(expr: Subquery | Paren | Unary | Binary | Call | Aggregate) -> Node:
    match expr:
        case Subquery():
            return _subquery(expr)
        case Paren():
            return {"type": "parenExpr", "expr": tree(expr.expr)}
        case Unary():
            return {"type": "unaryExpr", "op": expr.op, "expr": tree(expr.expr)}
        case Binary():
            return _binary(expr)
        case Call():
            return _call(expr)
        case Aggregate():
            return _aggregation(expr)


def _subquery(expr: Subquery) -> Node:
    times = {"range": _ms(expr.range), "step": _ms(expr.step or 0)}
    return {"type": "subquery", "expr": tree(expr.expr), **times, **_shift(expr.shift)}


def _aggregation(expr: Aggregate) -> Node:
    return {
        "type": "aggregation",
        "op": expr.op,
        "expr": tree(expr.expr),
        "param": None if expr.parameter is None else tree(expr.parameter),
        "grouping": list(expr.grouping),
        "without": expr.without,
    }


def _binary(expr: Binary) -> Node:
    return {
        "type": "binaryExpr",
        "op": expr.op,
        "lhs": tree(expr.left),
        "rhs": tree(expr.right),
        "matching": None if expr.matching is None else _matching(expr.matching),
        "bool": expr.return_bool,
    }


def _matching(matching: Matching) -> Node:
    found: Node = {
        "card": matching.cardinality.value,
        "labels": list(matching.labels),
        "on": matching.on,
        "include": list(matching.include),
    }
    fills = {"lhs": matching.fill_left, "rhs": matching.fill_right}
    return found | {"fillValues": {side: fill for side, fill in fills.items() if fill is not None}}


def _call(expr: Call) -> Node:
    signature = FUNCTIONS[expr.function].signature
    function = {
        "name": expr.function,
        "argTypes": [_TYPES[kind] for kind in signature.arguments],
        "variadic": signature.variadic,
        "returnType": _TYPES[signature.returns],
    }
    return {"type": "call", "func": function, "args": [tree(argument) for argument in expr.arguments]}


def _selector(selector: Selector) -> Node:
    return {
        "name": selector.name,
        "matchers": _matchers(selector.matchers),
        "anchored": selector.reach is Reach.ANCHORED,
        "smoothed": selector.reach is Reach.SMOOTHED,
        **_shift(selector.shift),
    }


def _matchers(matchers: Sequence[Matcher]) -> list[Node]:
    return [{"name": m.name, "value": m.value, "type": m.op.value} for m in matchers]


def _shift(shift: Shift) -> Node:
    return {
        "offset": _ms(shift.offset),
        "timestamp": shift.at if isinstance(shift.at, int) else None,
        "startOrEnd": shift.at.value if isinstance(shift.at, Edge) else None,
    }


def _ms(duration: Duration) -> int:
    return duration if isinstance(duration, int) else 0


@route("/format_query", http_method=METHODS, status_code=200, media_type=JSON)
async def format_query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Lay out the query for a person."""
    fields = await read_fields(request)
    text = await run_sync(lambda: pretty(_parsed(fields.text("query"), services.features)))
    return reply(fields, msgspec.json.encode(text), Messages())


@route("/parse_query", http_method=METHODS, status_code=200, media_type=JSON)
async def parse_query(request: Request[Any, Any, Any], services: Services) -> Response[bytes]:
    """Return the query's syntax tree."""
    fields = await read_fields(request)
    found = await run_sync(
        lambda: msgspec.json.encode(tree(_parsed(fields.text("query"), services.features)))
    )
    return reply(fields, found, Messages())


def _parsed(text: str, features: Features) -> Expr:
    try:
        return parse(text, features)
    except ParseError as error:
        raise BadParameterError("query", error.message, error.position) from error
