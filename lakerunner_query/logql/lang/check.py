"""Rules that the grammar does not have, in Loki's words.

An aggregation of numbers needs `unwrap`, one of lines refuses it; only some take a parameter or a grouping;
operators stand between samples, and a selector has to name something. The functions return the complaint,
or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakerunner_query.errors import InvalidQueryError
from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.logql.lang.aggregations import RANGE, VECTOR
from lakerunner_query.logql.lang.ast import (
    Binary,
    Expr,
    LabelReplace,
    Literal,
    LogQuery,
    RangeAggregation,
    Unwrap,
    VectorAggregation,
)
from lakerunner_query.logql.lang.lexer import SET_OPERATORS, Token
from lakerunner_query.logql.lang.patterns import InvalidPathError, InvalidPatternError
from lakerunner_query.logql.lang.stages import row_of, stage_text
from lakerunner_query.syntax import Matcher

NO_MATCHER = (
    "queries require at least one regexp or equality matcher that does not have an empty-compatible value. "
    'For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)
_WHOLE = re.compile(r"0*[0-9]{1,18}")


def range_aggregation_fault(parsed: RangeAggregation, parameter: Token | None) -> str:
    row, has_unwrap = RANGE[parsed.op], parsed.range.unwrap is not None
    if parameter is None and row.takes_parameter:
        return f"parameter required for operation {parsed.op}"
    if parameter is not None and not row.takes_parameter:
        return f"parameter {parameter.text} not supported for operation {parsed.op}"
    if parsed.grouping is not None and not row.takes_grouping:
        return f"grouping not allowed for {parsed.op} aggregation"
    if not (row.of_numbers if has_unwrap else row.of_lines):
        return f"invalid aggregation {parsed.op} {'with' if has_unwrap else 'without'} unwrap"
    return ""


def vector_aggregation_fault(parsed: VectorAggregation, parameter: Token | None) -> str:
    row = VECTOR[parsed.op]
    if row.takes_count:
        reason = _count_fault(parsed.op, parameter)
    else:
        reason = f"unsupported parameter for operation {parsed.op}({parameter.text}," if parameter else ""
    return reason or (row.grouping_fault if parsed.grouping else "")


def _count_fault(op: str, parameter: Token | None) -> str:
    if parameter is None:
        return f"parameter required for operation {op}"
    if not _WHOLE.fullmatch(parameter.text):
        return f"invalid parameter {op}({parameter.text},"
    return "" if int(parameter.text) else f"invalid parameter (must be greater than 0) {op}({parameter.text}"


def count_of(parameter: Token | None) -> int | None:
    """Return the `k` of `topk`, if it is one."""
    return int(parameter.text) if parameter and _WHOLE.fullmatch(parameter.text) else None


def operands_fault(op: str, left: Expr, right: Expr) -> str:
    for side, leg in (("left", left), ("right", right)):
        if isinstance(leg, LogQuery):
            kind = "*syntax.PipelineExpr" if leg.stages else "*syntax.MatchersExpr"
            return f"unexpected type for {side} leg of binary operation ({op}): {kind}"
    for side, leg in (("left", left), ("right", right)):
        if op in SET_OPERATORS and isinstance(leg, Literal):
            reason = f"unexpected literal for {side} leg of logical/set binary operation"
            return f"{reason} ({op}): {leg.value:f}"
    return ""


def replacement_fault(pattern: Token) -> str:
    reason = complaint(pattern.text)
    if not reason:
        return ""
    whole = f"^(?:{pattern.text})$"
    return f"invalid regex in label_replace: {complaint(whole) or reason}"


def check_selectors(expr: Expr) -> None:
    """Raise if a selector could match every stream."""
    for query, _ in selectors(expr):
        if not any(map(_refuses_empty, query.matchers)):
            raise InvalidQueryError(NO_MATCHER, query.position)


def selectors(expr: Expr) -> Iterator[tuple[LogQuery, Unwrap | None]]:
    """Yield the selectors of an expression with their pipelines, from left to right."""
    waiting = [expr]
    while waiting:
        match waiting.pop():
            case LogQuery() as query:
                yield query, None
            case RangeAggregation(range=ranged):
                yield ranged.query, ranged.unwrap
            case Binary(left=left, right=right):
                waiting += (right, left)
            case VectorAggregation(expr=inner) | LabelReplace(expr=inner):
                waiting.append(inner)


def _refuses_empty(matcher: Matcher) -> bool:
    matches_empty = regexp.full_matches(matcher.value, [""])[0] if matcher.op.is_regex else not matcher.value
    return matches_empty == matcher.op.is_negative


def check_stages(expr: Expr) -> None:
    """Raise for the first stage that cannot work; the message quotes the stage, as Loki's does."""
    for query, unwrap in selectors(expr):
        for stage in (*query.stages, *(unwrap.filters if unwrap else ())):
            try:
                reason = row_of(stage).fault(stage)
            except (InvalidPathError, InvalidPatternError) as error:
                reason = str(error)
            if reason:
                raise InvalidQueryError(f"stage '{stage_text(stage)}' : {reason}", stage.position)
