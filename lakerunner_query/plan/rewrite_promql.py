"""PromQL aggregations over raw samples are read from metrics that rules derive from metrics.

    sum by (job) (sum_over_time(node_load1{job="node"}[5m])) / 2
    ->  sum by (job) (sum_over_time(load{job="node"}[5m])) / 2

A leaf is an aggregation of a window function that gives the same over series and over parts of a window.
Other parts of the query read samples, beside the leaves that are served.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
    around,
    lost_labels,
    match_rules,
    of_source,
)
from lakerunner_query.plan.rewrite_promql_parts import Formula
from lakerunner_query.plan.rules.matchers import implied
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matrix,
    Paren,
    Reach,
    Selector,
    Unary,
    children,
    walk,
    with_children,
)
from lakerunner_query.promql.lang.functions import (
    AGGREGATIONS,
    FUNCTIONS,
    GREATEST,
    LEAST,
    NUMBER,
    TOTAL,
    MergedWindow,
    Sharding,
)
from lakerunner_query.promql.lang.parser import parse_selector
from lakerunner_query.promql.lang.printer import matcher_text, to_text
from lakerunner_query.rules.documents import SAMPLE, DerivedMetric, Form
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Steps
from resources.lake.layout import Signal

NS_PER_MS = 1_000_000
FORMULAS: Mapping[MergedWindow, Formula] = {
    TOTAL: Formula(TOTAL, Form.SUM),
    NUMBER: Formula(TOTAL, Form.COUNT),
    LEAST: Formula(LEAST, Form.MIN),
    GREATEST: Formula(GREATEST, Form.MAX),
}


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a leaf or of a rule."""

    matchers: frozenset[Matcher]
    window: MergedWindow = TOTAL


@lru_cache(1024)
def _samples_of(metric: DerivedMetric) -> Samples | None:
    """Return what a rule selects; None where it is no selector of PromQL."""
    try:
        return Samples(frozenset(parse_selector(metric.select)))
    except QueryError:
        return None


def _both(case: Case) -> tuple[Samples, Samples | None]:
    leaf: Samples = case.leaf.body
    rule: Samples | None = case.body
    return leaf, rule


def _other_matchers(case: Case) -> str:
    leaf, rule = _both(case)
    if rule is None:
        return "the rule's selection is no selector"
    for one in sorted(rule.matchers, key=matcher_text):
        if not implied(one, leaf.matchers):
            return f"the query does not ask for {matcher_text(one)}"
    lost = [one for one in leaf.matchers - rule.matchers if one.name not in case.metric.keep]
    shown = sorted(map(matcher_text, lost))
    return f"{shown[0]} is about a label that the rule does not keep" if shown else ""


def _other_grouping(case: Case) -> str:
    if case.leaf.by is None:
        return "without keeps labels that the rule may not keep"
    return lost_labels(case.leaf.by, case)


def _other_function(case: Case) -> str:
    leaf, _ = _both(case)
    if leaf.window == NUMBER:
        return ""
    return "" if case.metric.value == SAMPLE else f"the rule has no value: {SAMPLE}"


def _is_made(case: Case) -> str:
    found = case.evidence
    return "it reads samples that rules made, which rules leave out" if found and found.is_made else ""


GUARDS: Guards = (
    of_source(Signal.METRICS),
    Guard(
        "matchers", "Every matcher of the rule follows from those of the query; others are of kept labels.",
        _other_matchers,
    ),
    Guard("grouping", "Groups are by kept labels, not `without` some.", _other_grouping),
    Guard("function", "The rule has the value `sample`, unless samples are only counted.", _other_function),
    around("No function above the leaf depends on the order of series, or looks at samples."),
    WINDOW,
    Guard("made", "No sample that the query reads was made by a rule.", _is_made, is_late=True),
    COVERAGE,
    COST,
)  # fmt: skip


def rewrite_promql(
    expr: Expr, steps: Steps, rules: Sequence[ActiveRule], guards: Guards = GUARDS
) -> Rewriting | None:
    """Find the rules that may serve the leaves of a bound expression; None where it has none."""
    found = match_rules(list(leaves_of(expr, steps)), rules, _samples_of, guards)
    if found is None or not found.cases:
        return found
    cases, parts = found.cases, tuple(map(_from_rule, found.cases))

    def join(served: Collection[int]) -> Expr:
        return _with_parts(expr, {cases[place].leaf.node: parts[place] for place in served})

    derived = {matchers for part in parts for matchers in _selections(part)}
    if derived & _selections(expr):
        return found.refused("it reads the derived metric by its name, too")
    return replace(found, parts=parts, join=join, is_whole=_selections(join(range(len(cases)))) <= derived)


def _selections(expr: Expr) -> set[tuple[Matcher, ...]]:
    return {one.matchers for one in walk(expr) if isinstance(one, Selector)}


def leaves_of(expr: Expr, steps: Steps, above: str = "") -> Iterator[Leaf]:
    """Yield the aggregations that rules over metrics can answer."""
    found = _leaf(expr, steps)
    if found is not None:
        yield replace(found, above=above)
        return
    if isinstance(expr, Binary | Paren | Unary | Aggregate | Call):
        for child in children(expr):
            yield from leaves_of(child, steps, above or _objection(expr))


def _objection(expr: Expr) -> str:
    """Say why what stands below needs samples; nothing where it need not."""
    match expr:
        case Aggregate(op=op) if AGGREGATIONS[op].parameter is not None:
            return f"{op} may depend on the order of series, or on last digits"
        case Call(function=name) if FUNCTIONS[name].orders_answer:
            return f"{name} depends on the order of series"
        case Call(function=name) if (
            FUNCTIONS[name].sharding is not Sharding.BY_ARGUMENT
            or FUNCTIONS[name].syntax.label_selector is not None
        ):
            return f"{name} is answered from samples"
        case _:
            return ""


def _leaf(expr: Expr, steps: Steps) -> Leaf | None:
    if not isinstance(expr, Aggregate) or expr.parameter is not None:
        return None
    call = _bare(expr.expr)
    if not isinstance(call, Call) or len(call.arguments) != 1:
        return None
    window, matrix = MergedWindow(expr.op, call.function), _bare(call.arguments[0])
    if window not in FORMULAS or not isinstance(matrix, Matrix) or not isinstance(matrix.range, int):
        return None
    shift = matrix.selector.shift
    if matrix.selector.reach is not Reach.PLAIN or shift.at is not None or not isinstance(shift.offset, int):
        return None
    times = LeafTimes(
        steps.start_ms * NS_PER_MS,
        steps.step_ms * NS_PER_MS,
        steps.count,
        matrix.range * NS_PER_MS,
        shift.offset * NS_PER_MS,
    )
    by = None if expr.without else expr.grouping
    body = Samples(frozenset(matrix.selector.matchers), window)
    return Leaf(to_text(expr), expr, window.over_time, by, times, body)


def _bare(expr: Expr) -> Expr:
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


def _with_parts(expr: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """Put the parts in the place of the leaves."""
    if expr in parts:
        return parts[expr]
    if not isinstance(expr, Binary | Paren | Unary | Aggregate | Call):
        return expr
    return with_children(expr, [_with_parts(one, parts) for one in children(expr)])


def _from_rule(case: Case) -> Expr:
    leaf, rule = _both(case)
    known = frozenset[Matcher]() if rule is None else rule.matchers
    return FORMULAS[leaf.window].over(case, sorted(leaf.matchers - known, key=matcher_text))
