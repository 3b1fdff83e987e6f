"""Selections of spans have a normal form: conditions that all have to hold for a span.

    { status = error && "web" = resource.service.name } | { kind = server }

    status = error,  resource.service.name = "web",  kind = server

Only pipelines of spanset filters have one: all others look at more than one span.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakerunner_query.traceql.lang.ast import (
    TRUE,
    CompareOp,
    Comparison,
    FieldExpr,
    Literal,
    Logical,
    LogicalOp,
    Pipeline,
    SpansetFilter,
)

_TURNED = {
    CompareOp.LESS: CompareOp.GREATER,
    CompareOp.LESS_EQUAL: CompareOp.GREATER_EQUAL,
    CompareOp.GREATER: CompareOp.LESS,
    CompareOp.GREATER_EQUAL: CompareOp.LESS_EQUAL,
    CompareOp.EQUAL: CompareOp.EQUAL,
    CompareOp.NOT_EQUAL: CompareOp.NOT_EQUAL,
}
"""Operators of comparisons whose sides change places."""


def span_conditions(pipeline: Pipeline) -> frozenset[FieldExpr] | None:
    """Return the conditions on a span; None where other spans of its trace count, too."""
    found: set[FieldExpr] = set()
    for stage in pipeline.stages:
        if not isinstance(stage, SpansetFilter):
            return None
        found.update(_normal(one) for one in _conjuncts(stage.condition) if one != TRUE)
    return frozenset(found)


def _conjuncts(condition: FieldExpr) -> Iterator[FieldExpr]:
    if isinstance(condition, Logical) and condition.op is LogicalOp.AND:
        for one in condition.operands:
            yield from _conjuncts(one)
    else:
        yield condition


def _normal(condition: FieldExpr) -> FieldExpr:
    """Put the literal of a comparison on its right side."""
    if isinstance(condition, Comparison) and isinstance(condition.left, Literal):
        turned = _TURNED.get(condition.op)
        if turned is not None and not isinstance(condition.right, Literal):
            return replace(condition, op=turned, left=condition.right, right=condition.left)
    return condition
