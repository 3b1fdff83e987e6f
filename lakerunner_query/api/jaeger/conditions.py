"""Terms of Jaeger's API become TraceQL, printed from a syntax tree.

service=web & operation=GET / & tags={"http.status_code":"500"} & minDuration=100ms

{ (resource.service.name = `web`) && (name = `GET /`) && (duration >= 100ms) &&
  ((span.http.status_code = `500`) || (span.http.status_code = 500) || (resource.http.status_code = …) || …) }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from lakerunner_query.errors import InvalidRequestError
from lakerunner_query.traceql.lang.ast import (
    Attribute,
    CompareOp,
    Comparison,
    Field,
    FieldExpr,
    Intrinsic,
    Literal,
    Logical,
    LogicalOp,
    MetricsAggregation,
    Pipeline,
    Query,
    Scope,
    SpansetFilter,
    Type,
)
from lakerunner_query.traceql.lang.functions import COUNT
from lakerunner_query.traceql.lang.printer import print_query
from lakerunner_query.traceql.values import SPAN_KINDS

SERVICE = Attribute("service.name", Scope.RESOURCE)
NAME, KIND, STATUS = Intrinsic("name"), Intrinsic("kind"), Intrinsic("status")
DURATION = Intrinsic("duration")
MISSING_SERVICE, EMPTY_SERVICE = "missing-service-name", "empty-service-name"
"""Names of resources without a service, as Jaeger shows them."""
SCOPES = (Scope.SPAN, Scope.RESOURCE, Scope.INSTRUMENTATION, Scope.EVENT)
"""Places where a tag is looked for."""
TEXT_FIELDS: Mapping[str, Field] = {
    "otel.scope.name": Intrinsic("instrumentation:name"),
    "otel.scope.version": Intrinsic("instrumentation:version"),
    "otel.status_description": Intrinsic("statusMessage"),
    "event": Intrinsic("event:name"),
}
"""Tags that Jaeger makes of texts of a span."""
CODES: Mapping[str, str] = {"OK": "ok", "ERROR": "error"}
_INTEGER = re.compile(r"-?\d{1,19}")
_FLOAT = re.compile(r"-?\d{1,300}\.\d{1,300}([eE][+-]?\d{1,3})?")


def search_text(service: str, operation: str, tags: Mapping[str, str], least_ns: int, most_ns: int) -> str:
    """Return the filter that one span of a trace has to meet.

    >>> search_text("web", "GET /", {}, 100_000_000, 0)
    '{ (resource.service.name = `web`) && (name = `GET /`) && (duration >= 100ms) }'
    """
    conditions = [of_service(service)]
    if operation:
        conditions.append(_is(NAME, Literal(Type.STRING, operation)))
    for bound, op in ((least_ns, CompareOp.GREATER_EQUAL), (most_ns, CompareOp.LESS_EQUAL)):
        if bound:
            conditions.append(Comparison(op, DURATION, Literal(Type.DURATION, bound)))
    conditions += [_any(list(_tag(key, value))) for key, value in tags.items()]
    return print_query(Query(Pipeline((SpansetFilter(all_of(conditions)),))))


def of_service(name: str) -> FieldExpr:
    """Return the condition on spans of a service, also of one without a name."""
    return _is(SERVICE, Literal(Type.STRING, "" if name in {MISSING_SERVICE, EMPTY_SERVICE} else name))


def counts_text(condition: FieldExpr | None, by: tuple[Field, ...]) -> str:
    """Return the query that counts spans by fields: which values there are."""
    spans = Pipeline((SpansetFilter(Literal(Type.BOOLEAN, True) if condition is None else condition),))
    return print_query(Query(MetricsAggregation(spans, COUNT, by=by)))


def of_kind(kind: str) -> FieldExpr:
    if kind not in SPAN_KINDS:
        raise InvalidRequestError(
            f"unable to parse param 'spanKind': unsupported span kind: '{kind[:64]}'; "
            f"expected {', '.join(SPAN_KINDS)}"
        )
    return _is(KIND, Literal(Type.KIND, kind))


def _tag(key: str, value: str) -> Iterator[FieldExpr]:
    """Yield conditions of which a span with the tag, as Jaeger shows it, meets one."""
    if key == "error" and value in {"true", "false"}:
        op = CompareOp.EQUAL if value == "true" else CompareOp.NOT_EQUAL
        yield Comparison(op, STATUS, Literal(Type.STATUS, "error"))
    elif key == "otel.status_code" and value in CODES:
        yield _is(STATUS, Literal(Type.STATUS, CODES[value]))
    elif key == "span.kind" and value in SPAN_KINDS[1:]:
        yield _is(KIND, Literal(Type.KIND, value))
    elif key in TEXT_FIELDS:
        yield _is(TEXT_FIELDS[key], Literal(Type.STRING, value))
    for scope in SCOPES:
        for literal in _literals(value):
            yield _is(Attribute(key, scope), literal)


def _literals(value: str) -> Iterator[Literal]:
    """Yield the values that are shown as this text."""
    yield Literal(Type.STRING, value)
    if value in {"true", "false"}:
        yield Literal(Type.BOOLEAN, value == "true")
    elif _INTEGER.fullmatch(value) and str(int(value)) == value and -(2**63) <= int(value) < 2**63:
        yield Literal(Type.INTEGER, int(value))
    elif _FLOAT.fullmatch(value):
        yield Literal(Type.FLOAT, float(value))


def _is(field: Field, literal: Literal) -> FieldExpr:
    return Comparison(CompareOp.EQUAL, field, literal)


def all_of(conditions: Sequence[FieldExpr]) -> FieldExpr:
    return conditions[0] if len(conditions) == 1 else Logical(LogicalOp.AND, tuple(conditions))


def _any(conditions: Sequence[FieldExpr]) -> FieldExpr:
    return conditions[0] if len(conditions) == 1 else Logical(LogicalOp.OR, tuple(conditions))
