"""What the grammar allows and the language does not; said in Loki's words.

An aggregation of numbers needs `unwrap`, one of lines refuses it; only some take a parameter or a grouping;
operators stand between samples, and a selector has to name something. Each function gives the complaint, if
there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakerunner_query.errors import InvalidQueryError, TemplateSyntaxError
from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.gotext.strconv import LOGQL
from lakerunner_query.gotext.template.parser import parse as parse_template
from lakerunner_query.logql.lang.ast import (
    Assign,
    Binary,
    Expr,
    FilterOp,
    Json,
    LabelAnd,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LabelIp,
    LabelOr,
    LabelReplace,
    LineFilter,
    LineFormat,
    Literal,
    Logfmt,
    LogQuery,
    RangeAggregation,
    Stage,
    Unwrap,
    VectorAggregation,
)
from lakerunner_query.logql.lang.lexer import (
    COUNTED,
    GROUPED,
    PARAMETRIC,
    SET_OPERATORS,
    UNGROUPED,
    UNWRAPPED,
    Token,
)
from lakerunner_query.logql.lang.patterns import (
    InvalidAddressError,
    InvalidPathError,
    InvalidPatternError,
    bounds,
    check_filter,
    check_key,
    path,
)
from lakerunner_query.logql.lang.printer import stage_text
from lakerunner_query.syntax import Matcher

# << The names that a template of `line_format` and `label_format` may call.
# <<
# << What the functions do is with the evaluation; a test holds that these are its names.

TEMPLATE_FUNCTIONS = frozenset(
    (
        *("Replace", "ToLower", "ToUpper", "Trim", "TrimLeft", "TrimPrefix", "TrimRight", "TrimSpace"),
        *("TrimSuffix", "__line__", "__timestamp__", "add", "addf", "alignLeft", "alignRight", "and"),
        *("b64dec", "b64enc", "bytes", "call", "ceil", "contains", "count", "date", "default", "div"),
        *("divf", "duration", "duration_seconds", "eq", "float64", "floor", "fromJson", "ge", "gt"),
        *("hasPrefix", "hasSuffix", "html", "indent", "index", "int", "js", "le", "len", "lower", "lt"),
        *("max", "maxf", "min", "minf", "mod", "mul", "mulf", "ne", "nindent", "not", "now", "or"),
        *("print", "printf", "println", "regexReplaceAll", "regexReplaceAllLiteral", "repeat"),
        *("replace", "round", "slice", "sub", "subf", "substr", "title", "toDate", "toDateInZone"),
        *("trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "unixEpoch", "unixEpochMillis"),
        *("unixEpochNanos", "unixToTime", "upper", "urldecode", "urlencode", "urlquery"),
    )
)


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


# << Stages that parse and cannot work: regexes, patterns, paths, templates and addresses that are none.
# <<
# << They are looked at when the whole text is known to be a query; the message quotes the stage, as
# << Loki's does.

_WITH_ADDRESSES = frozenset({FilterOp.CONTAINS, FilterOp.NOT_CONTAINS})


def check_stages(expr: Expr) -> None:
    """Raise for the first stage that cannot work."""
    for query, unwrap in log_ranges(expr):
        for stage in (*query.stages, *(unwrap.filters if unwrap else ())):
            try:
                reason = _fault(stage)
            except (InvalidPathError, InvalidPatternError) as error:
                reason = str(error)
            if reason:
                raise InvalidQueryError(f"stage '{stage_text(stage)}' : {reason}", stage.position)


def _fault(stage: Stage) -> str:
    match stage:
        case LineFilter():
            reason = _of_line_filter(stage)
        case LabelFilter():
            reason = _of_condition(stage.condition)
        case LineFormat():
            reason = _of_template("line", stage.template, "invalid line template")
        case LabelFormat():
            reason = _of_label_format(stage)
        case Json() | Logfmt():
            read = path if isinstance(stage, Json) else check_key
            for extraction in stage.extractions:
                read(extraction.expression)
            reason = ""
        case _:
            reason = ""
    return reason


def _of_line_filter(stage: LineFilter) -> str:
    if stage.ips and stage.op not in _WITH_ADDRESSES:
        return "ip: invalid operation"
    if stage.op.is_pattern:
        for pattern in stage.values:
            check_filter(pattern)
    reasons = map(complaint, stage.values if stage.op.is_regex else ())
    return next(filter(None, reasons), "") or next(filter(None, map(_of_address, stage.ips)), "")


def _of_address(pattern: str) -> str:
    try:
        bounds(pattern)
    except InvalidAddressError:
        return f"ip: invalid pattern: {LOGQL.quote(pattern)}"
    return ""


def _of_condition(condition: LabelCondition) -> str:
    waiting = [condition]
    while waiting:
        match waiting.pop():
            case LabelAnd(left=left, right=right) | LabelOr(left=left, right=right):
                waiting += (right, left)
            case LabelIp(pattern=pattern):
                if reason := _of_address(pattern):
                    return reason
    return ""


def _of_label_format(stage: LabelFormat) -> str:
    seen: set[str] = set()
    for operation in stage.operations:
        if operation.name == "__error__":
            return f"{operation.name} cannot be formatted"
        if operation.name in seen:
            return f"multiple label name '{operation.name}' not allowed in a single format operation"
        seen.add(operation.name)
    for operation in stage.operations:
        if isinstance(operation, Assign):
            what = f"invalid template for label '{operation.name}'"
            if reason := _of_template("label", operation.template, what):
                return reason
    return ""


def _of_template(name: str, template: str, what: str) -> str:
    if "{{" not in template:
        return ""
    try:
        parse_template(name, template, TEMPLATE_FUNCTIONS)
    except TemplateSyntaxError as error:
        return f"{what}: {error.message}"
    return ""
