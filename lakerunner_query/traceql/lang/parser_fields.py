"""The parser of field expressions, which stand between braces and in aggregates.

    .a + 1 = 2 && !(span.b != nil)   is   (((.a + 1) = 2) && (!(span.b != nil)))

`&&` and `||` share one level; `!` binds tighter than `+` and looser than `*`, so `!a * b` is `!(a * b)`.
"""

from __future__ import annotations

from dataclasses import replace

from lakerunner_query.errors import Position
from lakerunner_query.gotext.numbers import INT_MIN
from lakerunner_query.syntax import Task
from lakerunner_query.traceql.lang.ast import (
    Arithmetic,
    CompareOp,
    Comparison,
    FieldExpr,
    Literal,
    Logical,
    LogicalOp,
    MathOp,
    Negation,
    Not,
)
from lakerunner_query.traceql.lang.cursor import (
    ADDING,
    LEVELS,
    NOT,
    Cursor,
    level_behind,
    take_field,
    unexpected,
    unknown,
)
from lakerunner_query.traceql.lang.lexer import CONSTANTS, NUMBERS, STRING, Token

_EQUALITIES = (CompareOp.EQUAL.value, CompareOp.NOT_EQUAL.value)
_LITERALS = frozenset({STRING, *NUMBERS, *CONSTANTS}) - {"nil"}


def field_expression(cursor: Cursor, least: int = 0) -> Task[FieldExpr]:
    """Parse operands and the operators between them whose level is at least `least`."""
    left: FieldExpr = yield _operand(cursor)
    while LEVELS.get(cursor.next.kind, -1) >= least:
        op = cursor.take()
        right: FieldExpr = yield _right(cursor, op)
        left = _join(op, left, right)
    return left


def _right(cursor: Cursor, op: Token) -> Task[FieldExpr]:
    """Parse a right operand; `nil` stands alone, whatever follows."""
    if op.kind in _EQUALITIES and (token := cursor.take_if("nil")):
        return token.literal
    right: FieldExpr = yield field_expression(cursor, level_behind(op.kind))
    return right


def _operand(cursor: Cursor) -> Task[FieldExpr]:
    found = take_field(cursor)
    if found is not None:
        return found
    token = cursor.next
    if token.kind in _LITERALS:
        return cursor.take().literal
    inner: FieldExpr
    match token.kind:
        case "(":
            cursor.take()
            inner = yield field_expression(cursor)
            cursor.expect(")")
        case "-":
            cursor.take()
            operand: FieldExpr = yield field_expression(cursor, ADDING + 1)
            inner = negate(operand, token.position)
        case "!":
            cursor.take()
            operand = yield field_expression(cursor, NOT + 1)
            inner = Not(operand, token.position)
        case "nil":
            left = cursor.take().literal
            op = cursor.expect(*_EQUALITIES)
            operand = yield _right(cursor, op)
            inner = Comparison(CompareOp(op.kind), left, operand, op.position)
        case _:
            raise unknown(token) if token.kind != "}" else unexpected(token)
    return inner


def negate(operand: FieldExpr, position: Position) -> FieldExpr:
    """Take the minus into a number, except where the number has no counterpart."""
    if isinstance(operand, Literal) and operand.type.is_numeric and operand.value != INT_MIN:
        value = operand.value
        if isinstance(value, int | float):
            return replace(operand, value=-value, position=position)
    return Negation(operand, position)


def _join(op: Token, left: FieldExpr, right: FieldExpr) -> FieldExpr:
    kind, position = op.kind, op.position
    if kind in set(LogicalOp):
        return conjoin(LogicalOp(kind), left, right, position)
    if kind in set(CompareOp):
        return Comparison(CompareOp(kind), left, right, position)
    return Arithmetic(MathOp(kind), left, right, position)


def conjoin(op: LogicalOp, left: FieldExpr, right: FieldExpr, position: Position) -> Logical:
    """Append to a chain of the same operator, or begin one."""
    if isinstance(left, Logical) and left.op == op:
        return replace(left, operands=(*left.operands, right))
    return Logical(op, (left, right), position)
