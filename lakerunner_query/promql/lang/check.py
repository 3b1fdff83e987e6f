"""The type check of a tree: operands, arguments and combinations of modifiers.

Errors come in the order in which Prometheus finds them, and only the first is raised. The check returns the
tree without `matching` where an operator has a scalar side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakerunner_query.errors import PromParseError
from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Expr,
    Matching,
    Matrix,
    Number,
    Paren,
    Selector,
    Span,
    Subquery,
    Text,
    Type,
    Unary,
)
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS, Signature
from lakerunner_query.promql.lang.lexer import COMPARISONS, SET_OPERATORS, failure
from lakerunner_query.syntax import Matcher, Task, unwind


def type_of(expr: Expr) -> Type:
    """Return the type of a tree from `parse`, where operators stand between scalars and vectors only.

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
    """Return the type of an expression that does not depend on its operands."""
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
            return FUNCTIONS[expr.function].signature.returns
        case Paren() | Unary() | Binary():
            raise TypeError(f"the type of {type(expr).__name__} depends on its operands")


_INTERNAL = {Type.VECTOR: "vector", Type.MATRIX: "matrix"}
_OPERANDS = {Type.SCALAR, Type.VECTOR}


def check_types(text: str, expr: Expr) -> Expr:
    """Return the tree to evaluate, or raise `PromParseError` about `text`."""
    tree, _ = unwind(_Check(text).any(expr))
    return tree


TypedExpr = tuple[Expr, Type]


class _Check:
    def __init__(self, text: str) -> None:
        self._text = text

    def _error(self, reason: str, span: Span) -> PromParseError:
        return failure(self._text, reason, span)

    def any(self, expr: Expr) -> Task[TypedExpr]:
        found: TypedExpr
        match expr:
            case Paren():
                found = yield self._paren(expr)
            case Unary():
                found = yield self._unary(expr)
            case Subquery():
                found = yield self._subquery(expr)
            case Aggregate():
                found = yield self._aggregate(expr)
            case Binary():
                found = yield self._binary(expr)
            case Call():
                found = yield self._call(expr)
            case Selector() | Matrix() | Number() | Text():
                self._selector(expr.selector if isinstance(expr, Matrix) else expr)
                found = expr, leaf_type(expr)
        return found

    def _paren(self, expr: Paren) -> Task[TypedExpr]:
        inner, kind = yield self.any(expr.expr)
        return replace(expr, expr=inner), kind

    def _unary(self, expr: Unary) -> Task[TypedExpr]:
        inner, kind = yield self.any(expr.expr)
        if kind not in _OPERANDS:
            allowed = "expressions of type scalar or instant vector"
            raise self._error(f'unary expression only allowed on {allowed}, got "{kind}"', expr.span)
        return replace(expr, expr=inner), kind

    def _subquery(self, expr: Subquery) -> Task[TypedExpr]:
        inner, kind = yield self.any(expr.expr)
        if kind != Type.VECTOR:
            shown = _INTERNAL.get(kind, str(kind))
            raise self._error(f"subquery is only allowed on instant vector, got {shown} instead", expr.span)
        return replace(expr, expr=inner), Type.MATRIX

    def _aggregate(self, expr: Aggregate) -> Task[TypedExpr]:
        inner, kind = yield self.any(expr.expr)
        self._require(kind, Type.VECTOR, "aggregation expression", inner.span)
        parameter = expr.parameter
        if parameter is not None:
            parameter, kind = yield self.any(parameter)
            expected = AGGREGATIONS[expr.op].parameter or Type.SCALAR
            self._require(kind, expected, "aggregation parameter", parameter.span)
        return replace(expr, expr=inner, parameter=parameter), Type.VECTOR

    def _require(self, found: Type, wanted: Type, where: str, span: Span) -> None:
        if found != wanted:
            raise self._error(f"expected type {wanted} in {where}, got {found}", span)

    def _selector(self, expr: Selector | Number | Text) -> None:
        if not isinstance(expr, Selector):
            return
        if expr.name:
            for matcher in expr.matchers[:-1]:
                if matcher.name == "__name__":
                    names = f"{PROMQL.quote(expr.name)} or {PROMQL.quote(matcher.value)}"
                    raise self._error(f"metric name must not be set twice: {names}", expr.span)
        elif all(map(_takes_empty, expr.matchers)):
            raise self._error("vector selector must contain at least one non-empty matcher", expr.span)

    def _binary(self, expr: Binary) -> Task[TypedExpr]:
        left, left_type = yield self.any(expr.left)
        right, right_type = yield self.any(expr.right)
        matching = expr.matching or Matching()
        is_scalar = left_type == right_type == Type.SCALAR
        self._operator(expr, matching, is_scalar)
        for side, kind in ((left, left_type), (right, right_type)):
            if kind not in _OPERANDS:
                reason = "binary expression must contain only scalar and instant vector types"
                raise self._error(reason, side.span)
        if Type.SCALAR in {left_type, right_type}:
            self._without_matching(expr, matching)
            return replace(
                expr, left=left, right=right, matching=None
            ), Type.SCALAR if is_scalar else Type.VECTOR
        if expr.op in SET_OPERATORS:
            self._set_matching(expr, matching)
        return replace(expr, left=left, right=right), Type.VECTOR

    def _operator(self, expr: Binary, matching: Matching, is_scalar: bool) -> None:
        if expr.return_bool and expr.op not in COMPARISONS:
            raise self._error(
                "bool modifier can only be used on comparison operators", self._operator_span(expr)
            )
        if expr.op in COMPARISONS and not expr.return_bool and is_scalar:
            raise self._error("comparisons between scalars must use BOOL modifier", self._operator_span(expr))
        for label in matching.labels:
            if matching.on and label in matching.include:
                reason = f"label {PROMQL.quote(label)} must not occur in ON and GROUP clause at once"
                raise self._error(reason, self._operator_span(expr))

    def _operator_span(self, expr: Binary) -> Span:
        start = expr.left.span.end
        while self._text[start] in " \t\n\r":
            start += 1
        return Span(start, expr.right.span.start)

    def _without_matching(self, expr: Binary, matching: Matching) -> None:
        if matching.labels:
            raise self._error("vector matching only allowed between instant vectors", expr.span)
        if (matching.fill_left, matching.fill_right) != (None, None):
            raise self._error("filling in missing series only allowed between instant vectors", expr.span)
        if expr.op in SET_OPERATORS:
            reason = f"set operator {PROMQL.quote(expr.op)} not allowed in binary scalar expression"
            raise self._error(reason, expr.span)

    def _set_matching(self, expr: Binary, matching: Matching) -> None:
        if matching.cardinality != Cardinality.MANY_TO_MANY:
            raise self._error(f"no grouping allowed for {PROMQL.quote(expr.op)} operation", expr.span)
        if (matching.fill_left, matching.fill_right) != (None, None):
            raise self._error("filling in missing series not allowed for set operators", expr.span)

    def _call(self, expr: Call) -> Task[TypedExpr]:
        function = FUNCTIONS[expr.function]
        signature, label_selector = function.signature, function.syntax.label_selector
        self._count_arguments(expr, signature)
        if label_selector is not None:
            self._check_label_selector(expr, expr.arguments[label_selector : label_selector + 1])
        arguments: list[Expr] = []
        for index, argument in enumerate(expr.arguments):
            if index == label_selector:
                # `{job="a"}` alone may match everything here
                arguments.append(argument)
                continue
            inner, kind = yield self.any(argument)
            wanted = signature.type_of_argument(index)
            if wanted is not None:
                self._require(kind, wanted, f"call to function {PROMQL.quote(expr.function)}", argument.span)
            arguments.append(inner)
        return replace(expr, arguments=tuple(arguments)), signature.returns

    def _count_arguments(self, expr: Call, signature: Signature) -> None:
        count, found = len(signature.arguments), len(expr.arguments)
        lowest = count - 1 if signature.variadic else count
        highest = None if signature.variadic < 0 else lowest + signature.variadic
        wanted = ""
        if signature.variadic == 0 and found != count:
            wanted = str(count)
        elif found < lowest:
            wanted = f"at least {lowest}"
        elif highest is not None and found > highest:
            wanted = f"at most {highest}"
        if wanted:
            called = f"in call to {PROMQL.quote(expr.function)}, got {found}"
            raise self._error(f"expected {wanted} argument(s) {called}", expr.span)

    def _check_label_selector(self, expr: Call, arguments: Sequence[Expr]) -> None:
        for selector in arguments:
            if (kind := type_of(selector)) != Type.VECTOR:
                called = f"call to function {PROMQL.quote(expr.function)}"
                reason = f"expected type instant vector in {called}, got {kind}"
                raise self._error(reason, expr.span)
            if not isinstance(selector, Selector):
                raise self._error("expected label selectors only", selector.span)
            if selector.name:
                reason = "expected label selectors only, got vector selector instead"
                raise self._error(reason, selector.span)


def _takes_empty(matcher: Matcher) -> bool:
    matches = regexp.full_matches(matcher.value, [""])[0] if matcher.op.is_regex else matcher.value == ""
    return matches != matcher.op.is_negative
