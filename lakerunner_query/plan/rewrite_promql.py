"""PromQL aggregations over raw samples are read from metrics that rules derive from metrics.

    sum by (job) (sum_over_time(node_load1{job="node"}[5m])) / 2
    ->  sum by (job) (sum_over_time(load{job="node"}[5m])) / 2

A leaf is an aggregation of a window function that gives the same over series and over parts of a window.
Everything that reads samples has to be such a leaf, else the whole query is answered from samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lakerunner_query.errors import QueryError
from lakerunner_query.plan.rewrite import (
    COST,
    COVERAGE,
    WHOLE,
    WINDOW,
    ActiveRule,
    Case,
    Decision,
    Guard,
    Guards,
    Leaf,
    LeafTimes,
    Rewriting,
    choose,
    implied,
    left_to_records,
    of_source,
)
from lakerunner_query.plan.rewrite_promql_parts import Formula
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Matrix,
    Number,
    Paren,
    Reach,
    Selector,
    Text,
    Unary,
    children,
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
    lost = sorted({*case.leaf.by} - {*case.metric.keep})
    return f"the rule does not keep {', '.join(lost)}" if lost else ""


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
    WINDOW,
    Guard("made", "No sample that the query reads was made by a rule.", _is_made, is_late=True),
    COVERAGE,
    COST,
)  # fmt: skip


class MixedError(Exception):
    """Part of an expression that reads samples, or that depends on the order of series."""


def rewrite_promql(
    expr: Expr, steps: Steps, rules: Sequence[ActiveRule], guards: Guards = GUARDS
) -> Rewriting | None:
    """Find the rules that may serve the leaves of a bound expression; None where it has none."""
    leaves = list(dict.fromkeys(leaves_of(expr, steps)))
    known = [(rule, _samples_of(rule.metric)) for rule in rules]
    if not leaves or not known:
        return None
    found = [choose(leaf, (Case(leaf, rule, body) for rule, body in known), guards) for leaf in leaves]
    decisions = tuple(decision for decision, _ in found)
    cases = tuple(case for _, case in found if case is not None)
    if len(cases) < len(leaves):
        return Rewriting(tuple(map(left_to_records, decisions)))
    parts = {case.leaf.node: _from_rule(case) for case in cases}
    try:
        rewritten = _replace(expr, parts)
    except MixedError as error:
        return Rewriting(tuple(Decision(one.leaf, one.metric, WHOLE, str(error)) for one in decisions))
    return Rewriting(decisions, cases, tuple(parts.values()), rewritten, guards)


def leaves_of(expr: Expr, steps: Steps) -> Iterator[Leaf]:
    """Yield the aggregations that rules over metrics can answer."""
    found = _leaf(expr, steps)
    if found is not None:
        yield found
        return
    if isinstance(expr, Binary | Paren | Unary | Aggregate | Call):
        for child in children(expr):
            yield from leaves_of(child, steps)


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


def _replace(expr: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """Put the parts in the place of the leaves."""
    if expr in parts:
        return parts[expr]
    match expr:
        case Number() | Text():
            return expr
        case Aggregate(op=op) if AGGREGATIONS[op].parameter is not None:
            raise MixedError(f"{op} depends on the order of series")
        case Call(function=name) if not _is_plain(name):
            raise MixedError(f"{name} is answered from samples")
        case Binary() | Paren() | Unary() | Aggregate() | Call():
            return with_children(expr, [_replace(child, parts) for child in children(expr)])
        case _:
            shown = to_text(Selector("", expr.matchers)) if isinstance(expr, Selector) else to_text(expr)
            raise MixedError(f"{shown} needs samples")


def _is_plain(name: str) -> bool:
    row = FUNCTIONS[name]
    return (
        row.sharding is Sharding.BY_ARGUMENT and not row.orders_answer and row.syntax.label_selector is None
    )


def _from_rule(case: Case) -> Expr:
    leaf, rule = _both(case)
    known = frozenset[Matcher]() if rule is None else rule.matchers
    return FORMULAS[leaf.window].over(case, sorted(leaf.matchers - known, key=matcher_text))
