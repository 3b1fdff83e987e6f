"""What the grammar allows and the language does not; said in Loki's words.

An aggregation of numbers needs `unwrap`, one of lines refuses it; only some take a parameter or a grouping;
operators stand between samples, and a selector has to name something. Each function gives the complaint, if
there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakerunner_query.errors import InvalidQueryError
from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.lang.logql.ast import (
    Binary,
    Expr,
    LabelReplace,
    Literal,
    LogQuery,
    RangeAggregation,
    Unwrap,
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
from lakerunner_query.syntax import Matcher

NO_MATCHER = (
    "queries require at least one regexp or equality matcher that does not have an empty-compatible value. "
    'For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)
_WHOLE = re.compile(r"0*[0-9]{1,18}")


def of_range_aggregation(found: RangeAggregation, parameter: Token | None) -> str:
    has_unwrap = found.range.unwrap is not None
    if parameter is None and found.op == "quantile_over_time":
        return f"parameter required for operation {found.op}"
    if parameter is not None and found.op != "quantile_over_time":
        return f"parameter {parameter.text} not supported for operation {found.op}"
    if found.grouping is not None and found.op not in GROUPED:
        return f"grouping not allowed for {found.op} aggregation"
    if found.op not in (UNWRAPPED if has_unwrap else COUNTED):
        return f"invalid aggregation {found.op} {'with' if has_unwrap else 'without'} unwrap"
    return ""


def of_vector_aggregation(found: VectorAggregation, parameter: Token | None) -> str:
    if found.op in PARAMETRIC:
        reason = _of_count(found.op, parameter)
    else:
        reason = f"unsupported parameter for operation {found.op}({parameter.text}," if parameter else ""
    if reason or found.grouping is None or found.op not in UNGROUPED:
        return reason
    if found.op == "approx_topk":
        return f"grouping not allowed for {found.op} aggregation"
    return "sort and sort_desc doesn't allow grouping by "


def _of_count(op: str, parameter: Token | None) -> str:
    if parameter is None:
        return f"parameter required for operation {op}"
    if not _WHOLE.fullmatch(parameter.text):
        return f"invalid parameter {op}({parameter.text},"
    return "" if int(parameter.text) else f"invalid parameter (must be greater than 0) {op}({parameter.text}"


def count_of(parameter: Token | None) -> int | None:
    """The `k` of `topk`, if it is one."""
    return int(parameter.text) if parameter and _WHOLE.fullmatch(parameter.text) else None


def of_operands(op: str, left: Expr, right: Expr) -> str:
    for side, leg in (("left", left), ("right", right)):
        if isinstance(leg, LogQuery):
            kind = "*syntax.PipelineExpr" if leg.stages else "*syntax.MatchersExpr"
            return f"unexpected type for {side} leg of binary operation ({op}): {kind}"
    for side, leg in (("left", left), ("right", right)):
        if op in SET_OPERATORS and isinstance(leg, Literal):
            reason = f"unexpected literal for {side} leg of logical/set binary operation"
            return f"{reason} ({op}): {leg.value:f}"
    return ""


def of_replacement(pattern: Token) -> str:
    reason = complaint(pattern.text)
    if not reason:
        return ""
    whole = f"^(?:{pattern.text})$"
    return f"invalid regex in label_replace: {complaint(whole) or reason}"


def check_selectors(expr: Expr) -> None:
    """Raise if a selector could be that of every stream."""
    for query, _ in log_ranges(expr):
        if not any(map(_refuses_empty, query.matchers)):
            raise InvalidQueryError(NO_MATCHER, query.position)


def log_ranges(expr: Expr) -> Iterator[tuple[LogQuery, Unwrap | None]]:
    """The selectors of an expression with their pipelines, from left to right."""
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
