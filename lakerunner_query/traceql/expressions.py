"""Expressions within braces become columns, and conditions become flags of rows.

{ span.size * 2 > 10 && kind = server }     flags of `&&` of two comparisons, the first of a computed column
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import (
    Arithmetic,
    Attribute,
    CompareOp,
    Comparison,
    FieldExpr,
    Intrinsic,
    Literal,
    Logical,
    LogicalOp,
    Negation,
    Not,
    Type,
)
from lakerunner_query.traceql.lang.conditions import is_root_test
from lakerunner_query.traceql.values import (
    MIRRORED,
    Column,
    calculate,
    compare_columns,
    compare_with,
    constant,
    dense,
    match_regex,
    negate,
)
from resources.arrays import Flags


def evaluate_condition(frame: Frame, expr: FieldExpr) -> Flags:
    """Flag rows for which a condition holds; a value that is no boolean does not hold."""
    match expr:
        case Literal():
            return np.full(frame.size, expr.value is True)
        case Comparison():
            return _compare(frame, expr)
        case Logical():
            flags = [evaluate_condition(frame, one) for one in expr.operands]
            reduce = np.logical_and if expr.op is LogicalOp.AND else np.logical_or
            found: Flags = reduce.reduce(flags)
            return found
        case Not(operand=Attribute() | Intrinsic() as field):
            column = frame.column(field)
            return _booleans(column) & ~column.true()
        case Not():
            return ~evaluate_condition(frame, expr.operand)
        case _:
            return evaluate_expression(frame, expr).true()


def evaluate_expression(frame: Frame, expr: FieldExpr) -> Column:
    """Return the values of an expression."""
    match expr:
        case Attribute() | Intrinsic():
            return frame.column(expr)
        case Literal():
            return constant(expr, frame.size)
        case Arithmetic():
            left, right = evaluate_expression(frame, expr.left), evaluate_expression(frame, expr.right)
            return calculate(left, expr.op.value, right)
        case Negation():
            return negate(evaluate_expression(frame, expr.operand))
        case Comparison() | Logical() | Not():
            return dense(Type.BOOLEAN, evaluate_condition(frame, expr))


def _booleans(column: Column) -> Flags:
    found = np.zeros(column.size, np.bool_)
    for part in column.parts:
        if part.kind is Type.BOOLEAN:
            found[part.rows] = True
    return found


def _compare(frame: Frame, expr: Comparison) -> Flags:
    op, left, right = expr.op, expr.left, expr.right
    if isinstance(left, Literal) and not isinstance(right, Literal) and not op.is_regex:
        op, left, right = CompareOp(MIRRORED[op.value]), right, left
    if not isinstance(right, Literal):
        if op.is_regex:
            raise EvaluationError("a regular expression must be a text")
        return compare_columns(evaluate_expression(frame, left), op.value, evaluate_expression(frame, right))
    if is_root_test(left, op, right):
        return frame.is_root
    column = evaluate_expression(frame, left)
    if right.type is Type.NIL:
        present = column.present()
        return present if op is CompareOp.NOT_EQUAL else ~present
    if op.is_regex:
        return match_regex(column, str(right.value), is_negated=op is CompareOp.NOT_REGEX)
    return compare_with(column, op.value, as_stored(left, right))


def as_stored(field: FieldExpr, literal: Literal) -> Literal:
    """Return a literal as the values of a field are written: ids of traces have no leading zeros."""
    if field not in TRACE_IDS or not isinstance(literal.value, str):
        return literal
    return Literal(Type.STRING, literal.value.lower().lstrip("0"))


TRACE_IDS = (Intrinsic("trace:id"), Intrinsic("link:traceID"))
"""Fields whose texts have no leading zeros."""
