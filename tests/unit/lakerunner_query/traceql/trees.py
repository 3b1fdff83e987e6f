"""Random trees of TraceQL that pass the checks."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lakerunner_query.errors import Position
from lakerunner_query.gotext.numbers import INT_MAX, INT_MIN
from lakerunner_query.traceql.lang import ast
from lakerunner_query.traceql.lang.ast import CompareOp, LogicalOp, MathOp, Relation, Scope, Type, Variant
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS, RANKINGS, Argument
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS
from lakerunner_query.traceql.lang.lexer import KINDS, STATUSES
from lakerunner_query.traceql.lang.parser_fields import conjoin

NUMERIC = (Type.INTEGER, Type.FLOAT, Type.DURATION)
START = Position(1, 1)
FIELD = ast.Attribute | ast.Intrinsic

names = st.one_of(
    st.sampled_from(("a", "http.status_code", "team name", 'x"y', "a\\b", "", "5xx", "span.x", "a+b", "nil")),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
attributes = st.builds(ast.Attribute, names, st.sampled_from(Scope))
intrinsics = st.sampled_from([name for name, row in INTRINSICS.items() if row.is_supported]).map(
    ast.Intrinsic
)
fields = attributes | intrinsics
integers = st.integers(INT_MIN, INT_MAX).map(lambda value: ast.Literal(Type.INTEGER, value))
floats = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: ast.Literal(Type.FLOAT, value))
durations = st.integers(-(2**62), 2**62).map(lambda value: ast.Literal(Type.DURATION, value))
numbers = integers | floats | durations
OTHERS: dict[Type, st.SearchStrategy[ast.Literal]] = {
    Type.STRING: texts.map(lambda value: ast.Literal(Type.STRING, value)),
    Type.BOOLEAN: st.booleans().map(lambda value: ast.Literal(Type.BOOLEAN, value)),
    Type.STATUS: st.sampled_from(STATUSES).map(lambda value: ast.Literal(Type.STATUS, value)),
    Type.KIND: st.sampled_from(KINDS).map(lambda value: ast.Literal(Type.KIND, value)),
}
regexes = st.sampled_from(("", "a.*", r"\d+|x", "(?i)e{1,3}", '"`\\\\')).map(
    lambda value: ast.Literal(Type.STRING, value)
)


def _of_type(known: Type) -> list[str]:
    return [name for name, row in INTRINSICS.items() if row.type == known and row.is_supported]


def _negation(operand: ast.FieldExpr) -> ast.FieldExpr:
    return operand if isinstance(operand, ast.Literal) else ast.Negation(operand)


numeric_fields = st.one_of(
    attributes, st.sampled_from([name for known in NUMERIC for name in _of_type(known)]).map(ast.Intrinsic)
)
numeric = st.recursive(
    numeric_fields | numbers,
    lambda inner: st.one_of(
        st.builds(ast.Arithmetic, st.sampled_from(MathOp), inner, inner),
        st.builds(_negation, inner),
    ),
    max_leaves=4,
)


def _comparisons_of(known: Type) -> st.SearchStrategy[Any]:
    ops = [op for op in CompareOp if known == Type.STRING or op.is_equality]
    own = _of_type(known)
    left = attributes | st.sampled_from(own).map(ast.Intrinsic) if own else attributes
    plain = st.sampled_from([op for op in ops if not op.is_regex])
    return st.one_of(
        st.builds(ast.Comparison, plain, left, OTHERS[known]),
        st.builds(ast.Comparison, plain, OTHERS[known], left),
    )


nil = st.just(ast.NIL)
comparisons = st.one_of(
    st.builds(ast.Comparison, st.sampled_from([op for op in CompareOp if not op.is_regex]), numeric, numeric),
    st.sampled_from(list(OTHERS)).flatmap(_comparisons_of),
    st.builds(
        ast.Comparison,
        st.sampled_from((CompareOp.REGEX, CompareOp.NOT_REGEX)),
        attributes | st.just(ast.Intrinsic("name")),
        regexes,
    ),
    st.builds(ast.Comparison, st.just(CompareOp.NOT_EQUAL), fields, nil),
    st.builds(ast.Comparison, st.just(CompareOp.EQUAL), attributes, nil).filter(
        lambda one: one.left != ast.Attribute("service.name", Scope.RESOURCE)
    ),
    st.builds(ast.Comparison, st.just(CompareOp.EQUAL), nil, nil | numeric_fields.filter(
        lambda one: isinstance(one, ast.Attribute) and one.name != "service.name")),
)  # fmt: skip
conditions = st.recursive(
    comparisons | attributes | OTHERS[Type.BOOLEAN],
    lambda inner: st.one_of(
        st.builds(conjoin, st.sampled_from(LogicalOp), inner, inner, st.just(START)),
        st.builds(ast.Not, inner),
        st.builds(ast.Comparison, st.sampled_from((CompareOp.EQUAL, CompareOp.NOT_EQUAL)), inner, inner),
    ),
    max_leaves=6,
)
filters = st.builds(ast.SpansetFilter, conditions | st.just(ast.TRUE))
spansets = st.recursive(
    filters,
    lambda inner: st.one_of(
        st.builds(ast.Structural, st.sampled_from(Relation), st.sampled_from(Variant), inner, inner),
        st.builds(ast.Combination, st.sampled_from(LogicalOp), inner, inner),
    ),
    max_leaves=4,
)
aggregates = st.one_of(
    st.just(ast.Aggregate(ast.AggregateOp.COUNT)),
    st.builds(
        ast.Aggregate,
        st.sampled_from([op for op in ast.AggregateOp if op != ast.AggregateOp.COUNT]),
        numeric.filter(lambda expr: any(isinstance(one, FIELD) for one in ast.walk(expr))),
    ),
)  # fmt: skip
thresholds = numbers.filter(lambda literal: literal.value != INT_MIN)
order = st.sampled_from([op for op in CompareOp if not op.is_regex])
scalar_filters = st.builds(ast.ScalarFilter, order, aggregates, thresholds)
groups = st.builds(ast.Group, fields | numeric_fields)
selects = st.builds(ast.Select, st.lists(fields, min_size=1, max_size=3).map(tuple))
later = spansets | scalar_filters | groups | selects | st.just(ast.Coalesce())
stages = st.builds(
    lambda first, rest: (first, *rest),
    spansets | scalar_filters | groups | selects,
    st.lists(later, max_size=3),
)
pipelines = st.builds(ast.Pipeline, stages)
wrapped = pipelines.filter(
    lambda one: (
        len(one.stages) > 1
        or not isinstance(one.stages[0], ast.SpansetFilter | ast.Structural | ast.Combination)
    )
)
joined = st.builds(
    lambda op, left, right: ast.Pipeline((ast.Combination(op, left, right),)),
    st.sampled_from(LogicalOp), wrapped, wrapped | spansets,
)  # fmt: skip


def _aggregation(name: str) -> st.SearchStrategy[Any]:
    row = METRICS_FUNCTIONS[name]
    quantiles = st.lists(st.floats(0, 1), min_size=1, max_size=3).map(tuple)
    return st.builds(
        ast.MetricsAggregation,
        pipelines,
        st.just(name),
        fields if Argument.FIELD in row.arguments else st.none(),
        quantiles if Argument.QUANTILES in row.arguments else st.just(()),
        st.lists(fields, max_size=row.most_groups).map(tuple),
    )


aggregations = st.sampled_from([name for name in METRICS_FUNCTIONS if name != "compare"]).flatmap(
    _aggregation
)
times = st.just((0, 0)) | st.tuples(st.integers(1, 2**40), st.integers(2**41, 2**62))
compares = st.builds(
    lambda pipeline, selection, limit, ends: ast.MetricsCompare(pipeline, selection, limit, *ends),
    pipelines, filters, st.integers(1, 1000), times,
)  # fmt: skip


def _staged(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return inner | st.recursive(
        inner,
        lambda below: st.one_of(
            st.builds(ast.Ranking, below, st.sampled_from(list(RANKINGS)), st.integers(1, 100)),
            st.builds(ast.Threshold, below, order, thresholds),
        ),
        max_leaves=3,
    )


scalars = st.one_of(
    st.integers(-INT_MAX, INT_MAX).map(lambda value: ast.Literal(Type.INTEGER, value)), floats
)
series_math = st.sampled_from((MathOp.ADD, MathOp.SUBTRACT, MathOp.MULTIPLY, MathOp.DIVIDE))
series = _staged(
    st.recursive(
        _staged(aggregations),
        lambda inner: st.one_of(
            st.builds(ast.MetricsMath, series_math, inner, inner),
            st.builds(ast.MetricsMath, series_math, scalars, inner),
            st.builds(ast.MetricsMath, series_math, inner, scalars),
        ),
        max_leaves=3,
    )
)
hints = st.builds(
    ast.Hint,
    st.sampled_from(("most_recent", "exemplars", "x")),
    st.one_of(*OTHERS.values(), st.just(ast.Literal(Type.INTEGER, 5))),
)
queries = st.builds(ast.Query, pipelines | joined | series | compares, st.lists(hints, max_size=2).map(tuple))
