"""LogQL expressions become PromQL over derived metrics, leaf by leaf.

    sum by (service_name) (rate({service_name="web"} |= "error" [5m])) > 1
    ->  (sum by (service_name) (sum_over_time(errors{service_name="web"}[5m])) / 300) > 1

Windows are left-open in both languages, and the buckets of a derived metric are, too. What stands around the
leaves has to mean the same in both, else PromQL brings the leaves alone, and LogQL is evaluated over them and
over the parts that need records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from lakerunner_query.errors import QueryError
from lakerunner_query.logql.lang import parser
from lakerunner_query.logql.lang.aggregations import RANGE, VECTOR
from lakerunner_query.logql.lang.ast import (
    Binary,
    Grouping,
    LabelMatch,
    LabelReplace,
    Literal,
    LogQuery,
    LogRange,
    Matching,
    RangeAggregation,
    SampleExpr,
    Unwrap,
    VectorAggregation,
    VectorOf,
)
from lakerunner_query.logql.lang.conditions import conjuncts, matcher_text
from lakerunner_query.logql.lang.normal_form import (
    NormalForm,
    filters_of,
    is_told_apart,
    is_without_errors,
    keeps_stream_label,
    normal_form,
)
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.logql.metrics.context import LogSteps
from lakerunner_query.logql.metrics.demand import pushed_grouping
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
    MixedError,
    Rewriting,
    around,
    lost_labels,
    match_rules,
    of_source,
)
from lakerunner_query.plan.rewrite_promql_parts import Formula, number, operation, vector_of
from lakerunner_query.plan.rules.matchers import implied, refuses_empty
from lakerunner_query.promql.lang.ast import Aggregate, Expr
from lakerunner_query.promql.lang.functions import GREATEST, LEAST, TOTAL
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric, Form
from lakerunner_query.syntax import Matcher
from resources.lake.layout import Signal

ALWAYS_THERE = frozenset({"service_name"})
"""Labels that every stream has."""
FORMULAS: Mapping[tuple[str, bool], Formula] = {
    ("count_over_time", False): Formula(TOTAL, Form.COUNT),
    ("rate", False): Formula(TOTAL, Form.COUNT, is_per_second=True),
    ("bytes_over_time", False): Formula(TOTAL, Form.SUM),
    ("bytes_rate", False): Formula(TOTAL, Form.SUM, is_per_second=True),
    ("sum_over_time", True): Formula(TOTAL, Form.SUM),
    ("rate", True): Formula(TOTAL, Form.SUM, is_per_second=True),
    ("avg_over_time", True): Formula(TOTAL, Form.SUM, divided_by=Form.COUNT),
    ("min_over_time", True): Formula(LEAST, Form.MIN),
    ("max_over_time", True): Formula(GREATEST, Form.MAX),
}
"""Aggregations over time, of lines or of numbers, by what a derived metric has to give."""
AROUND = frozenset({"sum", "min", "max", "avg", "count"})
"""Aggregations over series that mean the same in both languages."""
BY_ORDER = frozenset({"topk", "bottomk", "approx_topk", "sort", "sort_desc"})
"""Aggregations that compare series with each other, by the last digit."""
EXTREMES = frozenset({"min_over_time", "max_over_time"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a leaf or of a rule, and the number that is taken of them."""

    form: NormalForm
    unwrap: Unwrap | None = None
    measures_lines: bool = False
    """Lines count with their bytes."""

    @property
    def behind(self) -> frozenset[Matcher]:
        """Conditions on texts that rows satisfy at the end."""
        return self.form.last.matches | (filters_of(self.unwrap.filters).matches if self.unwrap else set())


def _rule_selection(metric: DerivedMetric) -> Selection | None:
    return _selection_of(metric.select, metric.value)


@lru_cache(1024)
def _selection_of(select: str, value: str) -> Selection | None:
    """Return what a rule selects; None where it is no LogQL."""
    try:
        query = parser.parse_expr(select)
        if not isinstance(query, LogQuery):
            return None
        if not value or value == LINE_BYTES:
            return Selection(normal_form(query), None, bool(value))
        of_number = parser.parse_expr(f"sum_over_time({select} | unwrap {value} [1m])")
    except QueryError:
        return None
    if not isinstance(of_number, RangeAggregation):
        return None
    return Selection(normal_form(of_number.range.query), of_number.range.unwrap)


def _selections(case: Case) -> tuple[Selection, Selection | None]:
    leaf: Selection = case.leaf.body
    rule: Selection | None = case.body
    return leaf, rule


def _other_matchers(case: Case) -> str:
    leaf, rule = _selections(case)
    if rule is None:
        return "the rule's selection is no LogQL"
    for one in sorted(rule.form.matchers, key=matcher_text):
        if not implied(one, leaf.form.matchers):
            return f"the query does not ask for {matcher_text(one)}"
    for one in sorted(leaf.form.matchers - rule.form.matchers, key=matcher_text):
        if one.name not in case.metric.keep:
            return f"{matcher_text(one)} is about a label that the rule does not keep"
        if not _is_of_stream(rule, one.name):
            return f"{one.name} may come from rows whose stream has no such label"
    return ""


def _is_of_stream(rule: Selection, name: str) -> bool:
    """Tell if the kept label is the stream's, on all rows of the rule."""
    is_there = name in ALWAYS_THERE or any(m.name == name and refuses_empty(m) for m in rule.form.matchers)
    return is_there and keeps_stream_label(rule.form, name)


def _other_pipeline(case: Case) -> str:
    leaf, rule = _selections(case)
    if rule is None:
        return "the rule's selection is no LogQL"
    if reason := is_told_apart(leaf.form, rule.form):
        return reason
    mine, its = leaf.form.last, rule.form.last
    if mine.lines != its.lines:
        return "their line filters differ"
    if mine.ordered != its.ordered:
        return "their comparisons of labels differ"
    for one in sorted(its.matches, key=matcher_text):
        if not implied(one, mine.matches):
            return f"the query does not filter by {matcher_text(one)}"
    for one in sorted(leaf.behind - its.matches, key=matcher_text):
        if one.name not in case.metric.keep:
            return f"{matcher_text(one)} is about a label that the rule does not keep"
    return _odd_filter_behind(leaf.unwrap)


def _odd_filter_behind(unwrap: Unwrap | None) -> str:
    if unwrap is None:
        return ""
    for stage in unwrap.filters:
        for one in conjuncts(stage.condition):
            if not isinstance(one, LabelMatch):
                return "a comparison of labels stands behind unwrap"
            if one.matcher.name == unwrap.label:
                return f"a filter behind unwrap looks at {unwrap.label}"
    odd = [one for one in filters_of(unwrap.filters).ordered if not is_without_errors(one)]
    return "a filter behind unwrap looks at errors" if odd else ""


def _other_grouping(case: Case) -> str:
    leaf, _ = _selections(case)
    by = case.leaf.by
    if by is None:
        return "all labels are shown: only groups by named labels can be answered"
    if lost := lost_labels(by, case):
        return lost
    if leaf.unwrap is not None and leaf.unwrap.label in by:
        return f"{leaf.unwrap.label} is unwrapped"
    return ""


def _other_function(case: Case) -> str:
    leaf, rule = _selections(case)
    formula = FORMULAS.get((case.leaf.op, leaf.unwrap is not None))
    if formula is None:
        return f"{case.leaf.op} cannot be computed from counts, sums, minima and maxima"
    if rule is None:
        return ""
    if RANGE[case.leaf.op].counts_bytes:
        return "" if rule.measures_lines else f"the rule has no value: {LINE_BYTES}"
    if leaf.unwrap is None:
        return "" if rule.unwrap is None else "the rule leaves out lines without its value"
    if rule.unwrap is None:
        return f"the rule has no value: {leaf.unwrap.label}"
    mine, its = leaf.unwrap, rule.unwrap
    is_same = (mine.label, mine.conversion) == (its.label, its.conversion)
    return "" if is_same else "another label is unwrapped, or in another way"


GUARDS: Guards = (
    of_source(Signal.LOGS),
    Guard(
        "matchers",
        "Every matcher of the rule follows from those of the query; further ones are about kept labels that"
        " are the stream's.",
        _other_matchers,
    ),
    Guard(
        "pipeline",
        "Stages and filters are those of the rule in normal form; further conditions are about texts of kept"
        " labels.",
        _other_pipeline,
    ),
    Guard(
        "grouping",
        "Groups are by kept labels; not `without` some, not by all labels.",
        _other_grouping,
    ),
    Guard(
        "function", "The aggregation follows from counts, sums, minima and maxima that the rule keeps.",
        _other_function,
    ),
    around("No sums of fractions are sorted or ranked: their last digits decide."),
    WINDOW,
    COVERAGE,
    COST,
)  # fmt: skip


def rewrite_logql(
    expr: SampleExpr, steps: LogSteps, rules: Sequence[ActiveRule], guards: Guards = GUARDS
) -> Rewriting | None:
    """Find the rules that may serve the leaves; None where there is nothing to decide."""
    found = match_rules(list(leaves_of(expr, steps)), rules, _rule_selection, guards)
    if found is None:
        return None
    cases, parts = found.cases, tuple(map(_from_rule, found.cases))

    def join(served: Collection[int]) -> Expr | None:
        try:
            return _translate(expr, {cases[place].leaf.node: parts[place] for place in served})
        except MixedError:
            return None

    return replace(found, parts=parts, join=join)


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of an expression that is answered by itself: a leaf, or as much around none as there is."""

    node: SampleExpr
    case: int | None
    """Case of the leaf; None: it is read from records."""


def pieces_of(expr: SampleExpr, cases: Sequence[Case]) -> list[Piece]:
    """Cut an expression into leaves that rules may serve, and the largest other parts.

        topk(2, errors) / on (a) sum by (a) (x)   ->   errors of the case 0, and sum by (a) (x) of records

    Below what sorts or ranks the other parts are windows of lines, whose series are ordered by their labels.
    """
    known = {case.leaf.node: number for number, case in enumerate(cases)}
    by_order = any(isinstance(one, VectorAggregation) and VECTOR[one.op].orders for one in _all(expr))
    return list(dict.fromkeys(_pieces(expr, known, by_order=by_order)))


def _pieces(expr: SampleExpr, known: Mapping[SampleExpr, int], *, by_order: bool) -> Iterator[Piece]:
    if expr in known:
        yield Piece(expr, known[expr])
        return
    parts = list(_all(expr))
    if not any(isinstance(one, RangeAggregation) for one in parts):
        return
    is_window = isinstance(expr, RangeAggregation) or (
        isinstance(expr, VectorAggregation) and pushed_grouping(expr) is not None
    )
    if is_window or not (by_order or any(one in known for one in parts)):
        yield Piece(expr, None)
        return
    by_order = by_order or (isinstance(expr, VectorAggregation) and expr.op in BY_ORDER)
    for child in _children(expr):
        yield from _pieces(child, known, by_order=by_order)


def _all(expr: SampleExpr) -> Iterator[SampleExpr]:
    yield expr
    for child in _children(expr):
        yield from _all(child)


def _children(expr: SampleExpr) -> tuple[SampleExpr, ...]:
    match expr:
        case Binary(left=left, right=right):
            return left, right
        case VectorAggregation(expr=inner) | LabelReplace(expr=inner):
            return (inner,)
        case _:
            return ()


def leaves_of(expr: SampleExpr, steps: LogSteps, above: str = "") -> Iterator[Leaf]:
    """Yield the aggregations over windows of one selection."""
    match expr:
        case RangeAggregation():
            yield _leaf(expr, expr, expr.grouping, steps, above)
        case VectorAggregation(expr=RangeAggregation() as below) if pushed_grouping(expr) is not None:
            yield _leaf(expr, below, pushed_grouping(expr), steps, above)
        case VectorAggregation(expr=RangeAggregation() as below) if _is_sum_of(expr, below):
            yield _leaf(expr, below, expr.grouping or Grouping(()), steps, above)
        case VectorAggregation(op=op, expr=inner) if op in BY_ORDER:
            yield from leaves_of(inner, steps, above or op)
        case _:
            for child in _children(expr):
                yield from leaves_of(child, steps, above)


def _is_sum_of(expr: VectorAggregation, below: RangeAggregation) -> bool:
    return below.grouping is None and RANGE[below.op].merged_by == expr.op


def _leaf(
    whole: SampleExpr, inner: RangeAggregation, grouping: Grouping | None, steps: LogSteps, above: str
) -> Leaf:
    ranged: LogRange = inner.range
    is_exact = ranged.unwrap is None or inner.op in EXTREMES
    reason = f"{above} compares sums of numbers, whose last digits may differ" if above else ""
    by = None if grouping is None or grouping.without else grouping.labels
    times = LeafTimes(steps.start_ns, steps.step_ns, steps.count, ranged.range_ns, ranged.offset_ns)
    body = Selection(normal_form(ranged.query), ranged.unwrap)
    return Leaf(print_query(whole), whole, inner.op, by, times, body, "" if is_exact else reason)


def _translate(expr: SampleExpr, parts: Mapping[SampleExpr, Expr]) -> Expr:
    """Translate an expression around the parts that stand for its leaves."""
    if expr in parts:
        return parts[expr]
    match expr:
        case VectorAggregation(op=op, expr=inner, grouping=grouping) if op in AROUND:
            labels, without = (grouping.labels, grouping.without) if grouping else ((), False)
            return Aggregate(op, _translate(inner, parts), None, labels, without)
        case Binary(left=left, right=right) if expr.matching == Matching():
            sides = _translate(left, parts), _translate(right, parts)
            return operation(expr.op, *sides, return_bool=expr.return_bool)
        case Literal(value=value):
            return number(value)
        case VectorOf(value=value):
            return vector_of(value)
        case _:
            raise MixedError(print_query(expr))


def _from_rule(case: Case) -> Expr:
    leaf, rule = _selections(case)
    formula = FORMULAS.get((case.leaf.op, leaf.unwrap is not None), Formula(TOTAL, Form.COUNT))
    form, behind = (None, frozenset[Matcher]()) if rule is None else (rule.form, rule.form.last.matches)
    extra = {one for one in leaf.form.matchers if form is None or one not in form.matchers}
    return formula.over(case, sorted(extra | (leaf.behind - behind), key=matcher_text))
