"""What the grammar allows and the language does not; said in Loki's words.

An aggregation of numbers needs `unwrap`, one of lines refuses it; only some take a parameter or a grouping;
operators stand between samples, and a selector has to name something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakerunner_query.errors import ParseError, UnsupportedError
from lakerunner_query.lang import regex
from lakerunner_query.lang.logql.ast import (
    Binary,
    Expr,
    LabelReplace,
    Literal,
    LogQuery,
    RangeAggregation,
    SampleExpr,
    VectorAggregation,
)
from lakerunner_query.lang.logql.tokens import Token
from lakerunner_query.lang.logql.vocabulary import (
    COUNTED,
    GROUPED,
    PARAMETRIC,
    SET_OPERATORS,
    UNGROUPED,
    UNWRAPPED,
)
from lakerunner_query.lang.matcher import Matcher

NO_MATCHER = (
    "queries require at least one regexp or equality matcher that does not have an empty-compatible value. "
    'For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)
_WHOLE = re.compile(r"0*[0-9]{1,18}")


def unsupported(word: Token) -> UnsupportedError:
    return UnsupportedError(f"{word.text}()", word.position)


def check_range_parameter(op: str, parameter: Token | None) -> None:
    if parameter is None and op == "quantile_over_time":
        raise ParseError(f"parameter required for operation {op}")
    if parameter is not None and op != "quantile_over_time":
        raise ParseError(f"parameter {parameter.text} not supported for operation {op}")


def checked_range(found: RangeAggregation) -> RangeAggregation:
    if found.grouping is not None and found.op not in GROUPED:
        raise ParseError(f"grouping not allowed for {found.op} aggregation")
    has_unwrap = found.range.unwrap is not None
    if found.op not in (UNWRAPPED if has_unwrap else COUNTED):
        raise ParseError(f"invalid aggregation {found.op} {'with' if has_unwrap else 'without'} unwrap")
    return found


def vector_parameter(op: str, parameter: Token | None) -> int | None:
    if op not in PARAMETRIC:
        if parameter is not None:
            raise ParseError(f"unsupported parameter for operation {op}({parameter.text},")
        return None
    if parameter is None:
        raise ParseError(f"parameter required for operation {op}")
    if not _WHOLE.fullmatch(parameter.text):
        raise ParseError(f"invalid parameter {op}({parameter.text},")
    value = int(parameter.text)
    if value == 0:
        raise ParseError(f"invalid parameter (must be greater than 0) {op}({parameter.text}")
    return value


def checked_vector(found: VectorAggregation) -> VectorAggregation:
    if found.grouping is not None and found.op in UNGROUPED:
        raise ParseError(f"grouping not allowed for {found.op} aggregation")
    return found


def operands(op: Token, left: Expr, right: Expr) -> tuple[SampleExpr, SampleExpr]:
    """Both sides of an operator, if they are such as it takes."""
    samples = _samples(op, "left", left), _samples(op, "right", right)
    for side, leg in (("left", left), ("right", right)):
        if op.kind in SET_OPERATORS and isinstance(leg, Literal):
            reason = f"unexpected literal for {side} leg of logical/set binary operation"
            raise ParseError(f"{reason} ({op.kind}): {leg.value:f}")
    return samples


def _samples(op: Token, side: str, leg: Expr) -> SampleExpr:
    if not isinstance(leg, LogQuery):
        return leg
    kind = "*syntax.PipelineExpr" if leg.stages else "*syntax.MatchersExpr"
    raise ParseError(f"unexpected type for {side} leg of binary operation ({op.kind}): {kind}")


def check_selectors(expr: Expr) -> None:
    for query in log_queries(expr):
        if not any(map(_refuses_empty, query.matchers)):
            raise ParseError(NO_MATCHER)


def log_queries(expr: Expr) -> Iterator[LogQuery]:
    """The selectors of an expression with their pipelines, from left to right."""
    waiting = [expr]
    while waiting:
        match waiting.pop():
            case LogQuery() as query:
                yield query
            case RangeAggregation(range=ranged):
                yield ranged.query
            case Binary(left=left, right=right):
                waiting += (right, left)
            case VectorAggregation(expr=inner) | LabelReplace(expr=inner):
                waiting.append(inner)


def _refuses_empty(matcher: Matcher) -> bool:
    matches_empty = regex.full_matches(matcher.value, [""])[0] if matcher.op.is_regex else not matcher.value
    return matches_empty == matcher.op.is_negative
