"""Stages that parse and cannot work: regexes, patterns, paths, templates and addresses that are none.

They are looked at when the whole text is known to be a query; the message quotes the stage, as Loki's does.
"""

from __future__ import annotations

from lakerunner_query.errors import InvalidQueryError, TemplateSyntaxError
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.gotext.strconv import quote_logql
from lakerunner_query.gotext.template.parser import parse as parse_template
from lakerunner_query.lang.logql.addresses import InvalidAddressError, bounds
from lakerunner_query.lang.logql.ast import (
    Assign,
    Expr,
    FilterOp,
    Json,
    LabelAnd,
    LabelCondition,
    LabelFilter,
    LabelFormat,
    LabelIp,
    LabelOr,
    LineFilter,
    LineFormat,
    Logfmt,
    Stage,
)
from lakerunner_query.lang.logql.check import log_ranges
from lakerunner_query.lang.logql.paths import InvalidPathError, check_key, path
from lakerunner_query.lang.logql.patterns import InvalidPatternError, check_filter
from lakerunner_query.lang.logql.printer_stages import stage_text
from lakerunner_query.lang.logql.template_functions import TEMPLATE_FUNCTIONS

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
        return f"ip: invalid pattern: {quote_logql(pattern)}"
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
