"""Rules are checked one by one: names, expressions and templates, worded as Prometheus words them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.logql.lang.ast import LogQuery
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.promql.lang.ast import Type
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.cursor import Features
from lakerunner_query.promql.lang.parser import parse as parse_promql
from lakerunner_query.rules.documents import AlertRule, RecordingRule, Rule, RuleGroup, RuleLanguage
from lakerunner_query.rules.templates import check_template
from lakerunner_query.traceql.lang.parser import parse_metrics
from resources.yaml_nodes import Fault

METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NAME = "__name__"


def check_group(group: RuleGroup, features: Features) -> Iterator[Fault]:
    """Yield what is wrong with a group and its rules; repeated names are the file's affair."""
    if not group.name:
        yield Fault(group.line, "Groupname must not be empty")
    for message in _label_faults(group.labels, "label", group.language):
        yield Fault(group.line, message)
    for number, rule in enumerate(group.rules, start=1):
        prefix = place_of(group.name, number, name_of(rule))
        for message in _rule_faults(rule, group.language, features):
            yield Fault(rule.line, prefix + message)


def place_of(group: str, number: int, rule: str) -> str:
    """Name a rule as Prometheus does.

    >>> place_of("g", 1, "Down")
    'group "g", rule 1, "Down": '
    """
    return f"group {PROMQL.quote(group)}, rule {number}, {PROMQL.quote(rule)}: "


def name_of(rule: Rule) -> str:
    return rule.record if isinstance(rule, RecordingRule) else rule.alert


def _rule_faults(rule: Rule, language: RuleLanguage, features: Features) -> Iterator[str]:
    if not rule.expr:
        yield "field 'expr' must be set in rule"
    else:
        try:
            parse(rule.expr, language, features)
        except QueryError as error:
            yield f"could not parse expression: {error.message}"
    if isinstance(rule, RecordingRule):
        yield from _record_faults(rule.record, language)
    yield from _label_faults(rule.labels, "label", language)
    if isinstance(rule, AlertRule):
        yield from _label_faults(rule.annotations, "annotation", language)
        yield from _template_faults(rule)


def parse(expr: str, language: RuleLanguage, features: Features) -> object:
    """Parse an expression, or raise `QueryError`."""
    if language is RuleLanguage.PROMQL:
        return parse_promql(expr, features)
    return _PARSERS[language](expr)


def _parse_lakeql(expr: str) -> object:
    """Parse a statement; the SQL parser is loaded only for those who have such rules."""
    from lakerunner_query.lakeql.macros import Context
    from lakerunner_query.lakeql.statement import parse as parse_lakeql

    return parse_lakeql(expr, Context(0, 0, 0))


_PARSERS: Mapping[RuleLanguage, Callable[[str], object]] = {
    RuleLanguage.LOGQL: parse_expr,
    RuleLanguage.TRACEQL: parse_metrics,
    RuleLanguage.LAKEQL: _parse_lakeql,
}


def _record_faults(name: str, language: RuleLanguage) -> Iterator[str]:
    if language is RuleLanguage.LOGQL and not METRIC_NAME.fullmatch(name):
        yield f"invalid recording rule name: {name}"
    if "{" in name or "}" in name:
        yield f"braces present in the recording rule name; should it be in expr?: {name}"


def _label_faults(labels: Mapping[str, str], kind: str, language: RuleLanguage) -> Iterator[str]:
    """Yield invalid names; Loki's have the classic letters, Prometheus' any."""
    for name in labels:
        is_known = LABEL_NAME.fullmatch(name) if language is RuleLanguage.LOGQL else name
        if not is_known or (kind == "label" and name == NAME):
            yield f"invalid {kind} name: {name}"


def _template_faults(rule: AlertRule) -> Iterator[str]:
    for kind, texts in (("label", rule.labels), ("annotation", rule.annotations)):
        for name, text in texts.items():
            try:
                check_template(rule.alert, text)
            except QueryError as error:
                yield f'{kind} "{name}": {error.message}'


def lint(groups: Iterable[RuleGroup]) -> list[Fault]:
    """List what is allowed and still looks wrong: repeated rules, and expressions that yield no vector."""
    found: list[Fault] = []
    rules = [(group, rule) for group in groups for rule in group.rules]
    seen: Counter[tuple[bool, str, Sequence[tuple[str, str]]]] = Counter()
    for group, rule in rules:
        labels = {**group.labels, **rule.labels}
        key = (isinstance(rule, AlertRule), name_of(rule), tuple(sorted(labels.items())))
        seen[key] += 1
        if seen[key] == 2:
            shown = ", ".join(f'{name}="{value}"' for name, value in key[2])
            found.append(Fault(rule.line, f"duplicate rule: {name_of(rule)}{{{shown}}} stands here again"))
        if no_vector := _yields_no_vector(rule.expr, group.language):
            found.append(Fault(rule.line, f"{name_of(rule)}: {no_vector}, every evaluation will fail"))
    return found


def _yields_no_vector(expr: str, language: RuleLanguage) -> str:
    try:
        if language is RuleLanguage.PROMQL:
            kind = type_of(parse_promql(expr))
            return "" if kind in {Type.VECTOR, Type.SCALAR} else f"the expression yields a {kind.value}"
        if language is RuleLanguage.LOGQL and isinstance(parse_expr(expr), LogQuery):
            return "the expression yields log lines"
    except QueryError:
        pass  # a fault of the file, told as such
    return ""
