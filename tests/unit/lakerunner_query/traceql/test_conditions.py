"""No span that a filter accepts fails the conditions that were read off the filter."""

from __future__ import annotations

import operator
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.traceql.lang import ast
from lakerunner_query.traceql.lang.ast import CompareOp, LogicalOp, MathOp, Scope, Type
from lakerunner_query.traceql.lang.conditions import (
    ANYTHING,
    NOTHING,
    AllOf,
    AnyOf,
    Condition,
    Requirement,
    SomeSpan,
    analyse,
    falsehood,
    truth,
)
from lakerunner_query.traceql.lang.intrinsics import Home
from lakerunner_query.traceql.lang.parser import parse
from lakerunner_query.traceql.lang.parser_fields import conjoin
from lakerunner_query.traceql.lang.printer import field_text, literal_text
from tests.unit.lakerunner_query.traceql.trees import START

Span = dict[str, Any]
_ORDER = {
    CompareOp.LESS: operator.lt,
    CompareOp.LESS_EQUAL: operator.le,
    CompareOp.GREATER: operator.gt,
    CompareOp.GREATER_EQUAL: operator.ge,
}


MISSING = object()


def compared(op: CompareOp, left: Any, right: Any) -> bool:
    """Compare two values, of which None is the literal `nil`; only that is equal to a missing one."""
    if {left, right} & {None, MISSING}:
        is_absent = {left, right} <= {None, MISSING}
        asks = None in {left, right} and op.is_equality
        return asks and is_absent == (op == CompareOp.EQUAL)
    if op.is_equality:
        return (left == right) == (op == CompareOp.EQUAL)
    if op.is_regex:
        matches = isinstance(left, str) and re.fullmatch(right, left) is not None
        return matches == (op == CompareOp.REGEX) if isinstance(left, str) else False
    return isinstance(left, str) == isinstance(right, str) and _ORDER[op](left, right)


def value(expr: ast.FieldExpr, span: Span) -> Any:
    """Evaluate in plain Python, without arrays."""
    match expr:
        case ast.Literal():
            return expr.value
        case ast.Attribute() | ast.Intrinsic():
            return span.get(field_text(expr), MISSING)
        case ast.Comparison(op=op, left=left, right=right):
            return compared(op, value(left, span), value(right, span))
        case ast.Not(operand=operand):
            return value(operand, span) is not True
        case ast.Logical(op=op, operands=operands):
            sides = [value(one, span) is True for one in operands]
            return all(sides) if op == LogicalOp.AND else any(sides)
        case ast.Arithmetic(left=left, right=right):
            sides = [value(one, span) for one in (left, right)]
            return sum(sides) if all(type(one) is int for one in sides) else MISSING
    raise AssertionError(expr)


def met(requirement: Requirement, span: Span) -> bool:
    match requirement:
        case Condition(field=field, op=op, values=values):
            return any(compared(op, value(field, span), one.value) for one in values)
        case AllOf(parts=parts):
            return all(met(one, span) for one in parts)
        case AnyOf(parts=parts):
            return any(met(one, span) for one in parts)
    raise AssertionError(requirement)


attributes = st.sampled_from((ast.Attribute("a", Scope.SPAN), ast.Attribute("b")))
names = st.just(ast.Intrinsic("name"))
fields = attributes | names
words = st.sampled_from("xyz")
texts = words.map(lambda word: ast.Literal(Type.STRING, word))
literals = texts | st.integers(0, 3).map(lambda number: ast.Literal(Type.INTEGER, number))
sums = st.builds(ast.Arithmetic, st.just(MathOp.ADD), attributes, st.just(ast.Literal(Type.INTEGER, 1)))
equalities = st.sampled_from((CompareOp.EQUAL, CompareOp.NOT_EQUAL))
plain = st.sampled_from([op for op in CompareOp if not op.is_regex])
conditions = st.recursive(
    st.one_of(
        st.builds(ast.Comparison, plain, attributes | sums, literals),
        st.builds(ast.Comparison, plain, literals, attributes | sums),
        st.builds(ast.Comparison, plain, names, texts),
        st.builds(ast.Comparison, plain, texts, names),
        st.builds(ast.Comparison, plain, fields, fields),
        st.builds(
            ast.Comparison,
            st.sampled_from((CompareOp.REGEX, CompareOp.NOT_REGEX)),
            fields,
            words.map(lambda word: ast.Literal(Type.STRING, f"{word}|x")),
        ),
        st.builds(ast.Comparison, equalities, attributes, st.just(ast.NIL)),
        attributes,
        st.booleans().map(lambda known: ast.Literal(Type.BOOLEAN, known)),
    ),
    lambda inner: st.one_of(
        st.builds(ast.Not, inner),
        st.builds(conjoin, st.sampled_from(LogicalOp), inner, inner, st.just(START)),
    ),
    max_leaves=6,
)  # fmt: skip
values = words | st.integers(0, 3) | st.booleans()
spans = st.fixed_dictionaries({"name": words}, optional={"span.a": values, ".b": values})


@given(conditions, spans)
def test_a_span_that_matches_meets_the_requirement(condition: ast.FieldExpr, span: Span) -> None:
    if value(condition, span) is True:
        assert met(truth(condition), span)
    else:
        assert met(falsehood(condition), span)


def shown(requirement: Requirement) -> str:
    match requirement:
        case Condition(field=field, op=op, values=found):
            return f"{field_text(field)} {op} {','.join(map(literal_text, found))}"
        case SomeSpan(requirement=inner):
            return f"some({shown(inner)})"
        case AllOf(parts=parts):
            return f"all({'; '.join(map(shown, parts))})"
        case AnyOf(parts=parts):
            return f"any({'; '.join(map(shown, parts))})"


@pytest.mark.parametrize(
    ("text", "requirement"),
    [
        ("{}", "all()"),
        ("{ false }", "any()"),
        ("{ .a = 1 || .a = 2 || .a = `x` }", "some(.a = 1,2,`x`)"),
        ("{ .a =~ `x.*` || .a =~ `y` || .b }", "some(any(.a =~ `x.*`,`y`; .b = true))"),
        ("{ 5 < .a && !(status = ok && .b = nil) }", "some(all(.a > 5; any(status != ok; .b != nil)))"),
        ("{ !(.a = 1) && !(event:name = `x`) && event.a = nil }", "some(event.a = nil)"),
        ("{ !(!.a) }", "all()"),
        ("{ !(span:parentID = `x`) && !(span:id =~ `y`) }", "all()"),
        ("{ !(span:parentID != nil) }", "some(span:parentID = nil)"),
        ("{ .a + .b > 2 && duration > traceDuration / 2 }", "some(all(.a != nil; .b != nil))"),
        ("{ .a } | { .b } | count() > 1", "all(some(.a = true); some(all(.a = true; .b = true)))"),
        ("{ .a } && { .b }", "all(some(.a = true); some(.b = true))"),
        ("{ .a } || { .b } || { }", "all()"),
        ("{ .a } || { .b }", "any(some(.a = true); some(.b = true))"),
        ("{ .a } >> { .b } | { .c }",
         "all(some(.a = true); some(.b = true); some(all(.b = true; .c = true)))"),
        ("{ .a } !>> { .b }", "some(.b = true)"),
        ("{ .a } &~ { .b } | { .c }",
         "all(some(.a = true); some(.b = true); some(all(any(.a = true; .b = true); .c = true)))"),
        ("({ .a } | count() > 2) || ({ .b })", "any(some(.a = true); some(.b = true))"),
        ("({ .a } | rate()) / ({ .b } | rate()) > 5", "any(some(.a = true); some(.b = true))"),
        ("{ .a } | compare({ .b })", "some(.a = true)"),
    ],
)  # fmt: skip
def test_requirements_of_queries(text: str, requirement: str) -> None:
    assert shown(analyse(parse(text)).requirement) == requirement


@pytest.mark.parametrize(
    ("text", "is_on_one_span"),
    [
        ("{ .a && .b } | by(.c) | select(name)", True),
        ("{ .a && .b } | count() > 2 | rate()", False),
        ("{ .a } || { .b } | rate() by (.c)", True),
        ("{ traceDuration > 1s }", True),
        ("{ .a } && { .b }", False),
        ("{ .a } > { .b }", False),
        ("{ .a } | select(nestedSetLeft)", False),
        ("{ span:childCount > 1 }", False),
        ("({ .a } | count() > 2) || ({ .b })", False),
        ("({ .a } | rate()) / ({ .b } > { .c } | rate())", False),
    ],
)
def test_queries_on_one_span(text: str, is_on_one_span: bool) -> None:
    assert analyse(parse(text)).is_on_one_span is is_on_one_span


def test_fields_and_their_homes() -> None:
    found = analyse(
        parse("{ .a = 1 && rootName = `x` } | by(.b) | max(.c) > 1 | select(name, .a, event:name)")
    )
    assert set(map(field_text, found.reads)) == {".a", "rootName", ".b", ".c"}
    assert set(map(field_text, found.selects)) == {"name", "event:name"}
    assert found.homes == {Home.SPAN, Home.TRACE, Home.EVENT}
    assert not found.is_metrics


def test_metrics_read_what_they_measure() -> None:
    found = analyse(parse("{ .a } | max_over_time(.b) by (.c) | topk(2)"))
    assert set(map(field_text, found.reads)) == {".a", ".b", ".c"}
    assert (found.is_metrics, len(found.pipelines), found.reads_all_fields) == (True, 1, False)
    assert analyse(parse("{} | compare({ .a })")).reads_all_fields


def test_constants() -> None:
    assert truth(ast.TRUE) == falsehood(ast.Literal(Type.BOOLEAN, False)) == ANYTHING
    assert falsehood(ast.TRUE) == NOTHING
