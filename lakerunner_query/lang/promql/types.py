"""What kind of value an expression gives."""

from __future__ import annotations

from lakerunner_query.lang.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matrix,
    Number,
    Paren,
    Selector,
    Subquery,
    Text,
    Type,
    Unary,
)
from lakerunner_query.lang.promql.functions import SIGNATURES


def type_of(expr: Expr) -> Type:
    """The type of a tree that `parse` gave, where operators stand between scalars and vectors only.

    With a vector on either side the result of an operator is a vector, else a scalar.
    """
    undecided = [expr]
    found = Type.SCALAR
    while undecided:
        match undecided.pop():
            case Binary(left=left, right=right):
                undecided += (left, right)
            case Paren(expr=inner) | Unary(expr=inner):
                undecided.append(inner)
            case leaf:
                found = leaf_type(leaf)
                if found != Type.SCALAR:
                    return found
    return found


def leaf_type(expr: Expr) -> Type:
    """The type of an expression that does not depend on what is below it."""
    match expr:
        case Number():
            return Type.SCALAR
        case Text():
            return Type.STRING
        case Selector() | Aggregate():
            return Type.VECTOR
        case Matrix() | Subquery():
            return Type.MATRIX
        case Call():
            return SIGNATURES[expr.function].returns
        case Paren() | Unary() | Binary():
            raise TypeError(f"the type of {type(expr).__name__} depends on its operands")
