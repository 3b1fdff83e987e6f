"""Derived metrics give TraceQL's functions their counts and values by group and step.

    { status = error } | rate() by (name)     at 12:00, 12:01 …
    ->  label_replace(sum by (name) (sum_over_time(failed[1m])), "__part__", "0 count", "__part__", "")

A step counts the spans that began in the step before it, a left-open window. One PromQL expression brings all
functions of a query; the label `__part__` tells them apart. What stands above the functions stays TraceQL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from re import compile as pattern_of

from lakerunner_query.errors import QueryError
from lakerunner_query.plan.rewrite import (
    COST,
    COVERAGE,
    WINDOW,
    ActiveRule,
    Case,
    Guard,
    Guards,
    Leaf,
    LeafTimes,
    Rewriting,
    match_rules,
    of_source,
)
from lakerunner_query.plan.rewrite_promql_parts import Formula, labelled, operation
from lakerunner_query.plan.traceql import TraceMetricsRequest
from lakerunner_query.promql.lang.ast import Expr
from lakerunner_query.promql.lang.functions import GREATEST, LEAST, TOTAL
from lakerunner_query.rules.documents import DerivedMetric, Form
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.traceql.lang.ast import (
    Attribute,
    CompareOp,
    Comparison,
    Field,
    FieldExpr,
    Intrinsic,
    Literal,
    MetricsAggregation,
    MetricsCompare,
    Query,
    Type,
)
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS, Merge
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.lang.normal_form import span_conditions
from lakerunner_query.traceql.lang.parser import parse_field, parse_metrics
from lakerunner_query.traceql.lang.printer import field_text, print_node
from lakerunner_query.traceql.series import metrics_functions
from resources.lake.layout import Signal

PART = "__part__"
COUNTS, VALUES = "count", "value"
TEXTS = frozenset({Type.STRING, Type.STATUS, Type.KIND})
"""Types of intrinsics that labels of metrics hold as they are."""
_VALUES: Mapping[Merge, Formula] = {
    Merge.SUM: Formula(TOTAL, Form.SUM),
    Merge.MEAN: Formula(TOTAL, Form.SUM),
    Merge.MIN: Formula(LEAST, Form.MIN),
    Merge.MAX: Formula(GREATEST, Form.MAX),
}
_UNSAFE = pattern_of("[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of a function or of a rule, and the field that is measured."""

    conditions: frozenset[FieldExpr] | None
    """None where whole traces decide."""
    operand: Field | None = None
    merge: Merge | None = Merge.SUM
    by: tuple[Field, ...] = ()
    number: int = 0
    """Place of the function among those of the query."""


def label_name(field: Field) -> str:
    """Return the label under which a derived metric has a field.

    >>> label_name(parse_field("resource.service.name"))
    'resource_service_name'
    """
    return _UNSAFE.sub("_", field_text(field))


@lru_cache(1024)
def _spans_of(metric: DerivedMetric) -> Spans | None:
    """Return what a rule selects; None where it is no TraceQL."""
    try:
        query = parse_metrics(f"{metric.select} | count_over_time()")
        operand = parse_field(metric.value) if metric.value else None
        by = tuple(map(parse_field, metric.keep))
    except QueryError:
        return None
    if not isinstance(query.body, MetricsAggregation):
        return None
    return Spans(span_conditions(query.body.pipeline), operand, None, by)


def _both(case: Case) -> tuple[Spans, Spans]:
    leaf: Spans = case.leaf.body
    rule: Spans | None = case.body
    return leaf, rule or Spans(None)


def _other_pipeline(case: Case) -> str:
    leaf, rule = _both(case)
    if case.body is None:
        return "the rule's selection is no TraceQL"
    if leaf.conditions is None or rule.conditions is None:
        return "whole traces decide which spans count"
    missing = sorted(map(print_node, rule.conditions - leaf.conditions))
    return f"the query does not ask for {missing[0]}" if missing else ""


def _other_matchers(case: Case) -> str:
    leaf, rule = _both(case)
    for one in sorted((leaf.conditions or frozenset()) - (rule.conditions or frozenset()), key=print_node):
        if not _matchers_of(one):
            return f"{print_node(one)} is no comparison of a field with a text"
        if not isinstance(one, Comparison) or one.left not in rule.by:
            return f"{print_node(one)} is about a field that the rule does not keep"
    return ""


def _matchers_of(condition: FieldExpr) -> list[Matcher]:
    """Return what a condition asks of a label; nothing where labels do not tell.

    Without the field a span satisfies no comparison, not even `!=`.
    """
    if not isinstance(condition, Comparison) or not condition.op.is_equality:
        return []
    field, wanted = condition.left, condition.right
    if not isinstance(field, Attribute | Intrinsic) or not isinstance(wanted, Literal):
        return []
    kind = INTRINSICS[field.name].type if isinstance(field, Intrinsic) else Type.STRING
    if wanted.type is not kind or kind not in TEXTS or not wanted.value:
        return []
    name = label_name(field)
    found = [Matcher(name, MatchOp(condition.op.value), str(wanted.value))]
    return found if condition.op is CompareOp.EQUAL else [*found, Matcher(name, MatchOp.NOT_EQUAL, "")]


def _other_grouping(case: Case) -> str:
    leaf, rule = _both(case)
    for one in leaf.by:
        if one not in rule.by:
            return f"the rule does not keep {field_text(one)}"
        if isinstance(one, Intrinsic) and INTRINSICS[one.name].type not in TEXTS:
            return f"{field_text(one)} is no text"
    return ""


def _other_function(case: Case) -> str:
    leaf, rule = _both(case)
    if leaf.merge not in _VALUES:
        return f"{case.leaf.op} cannot be computed from counts, sums, minima and maxima"
    if leaf.operand == rule.operand:
        return ""
    if leaf.operand is None:
        return "the rule leaves out spans without its value"
    return f"the rule does not measure {field_text(leaf.operand)}"


GUARDS: Guards = (
    of_source(Signal.TRACES),
    Guard(
        "pipeline", "Every condition of the rule is one of the query; single spans decide.", _other_pipeline
    ),
    Guard(
        "matchers", "Further conditions of the query compare kept fields with texts, by `=` or `!=`.",
        _other_matchers,
    ),
    Guard("grouping", "Groups are by kept fields that are texts.", _other_grouping),
    Guard(
        "function", "The function follows from counts, sums, minima and maxima that the rule keeps.",
        _other_function,
    ),
    WINDOW,
    COVERAGE,
    COST,
)  # fmt: skip


def rewrite_traceql(
    query: Query, request: TraceMetricsRequest, rules: Sequence[ActiveRule], guards: Guards = GUARDS
) -> Rewriting | None:
    """Find the rules that may serve the functions; None where there is nothing to decide."""
    found = match_rules(leaves_of(query, request), rules, _spans_of, guards)
    if found is None:
        return None
    parts = tuple(map(_parts, found.cases))

    def join(served: Collection[int]) -> Expr | None:
        return reduce(_union, (parts[place] for place in served)) if served else None

    return replace(found, parts=parts, join=join)


def leaves_of(query: Query, request: TraceMetricsRequest) -> list[Leaf]:
    """Return the functions of a query."""
    return [_leaf(node, number, request) for number, node in enumerate(metrics_functions(query))]


def _leaf(node: MetricsAggregation | MetricsCompare, number: int, request: TraceMetricsRequest) -> Leaf:
    times = LeafTimes(request.start_ns, request.step_ns, request.steps, request.step_ns)
    conditions, text = span_conditions(node.pipeline), print_node(node)
    if isinstance(node, MetricsCompare):
        body = Spans(conditions, merge=Merge.BY_VALUE, number=number)
        return Leaf(text, node, "compare", (), times, body)
    merge = METRICS_FUNCTIONS[node.function].merge
    body = Spans(conditions, node.operand, merge, node.by, number)
    return Leaf(text, node, node.function, tuple(map(label_name, node.by)), times, body)


def _parts(case: Case) -> Expr:
    """Return the expression that brings the cells of one function."""
    leaf, rule = _both(case)
    number = leaf.number
    more = (leaf.conditions or frozenset()) - (rule.conditions or frozenset())
    extra = [matcher for one in sorted(more, key=print_node) for matcher in _matchers_of(one)]
    counts = labelled(Formula(TOTAL, Form.COUNT).over(case, extra), PART, f"{number} {COUNTS}")
    if leaf.operand is None:
        return counts
    formula = _VALUES.get(leaf.merge or Merge.SUM, _VALUES[Merge.SUM])
    return _union(counts, labelled(formula.over(case, extra), PART, f"{number} {VALUES}"))


def _union(left: Expr, right: Expr) -> Expr:
    return operation("or", left, right)
