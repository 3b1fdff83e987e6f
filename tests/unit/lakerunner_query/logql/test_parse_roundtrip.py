"""Printing loses nothing: a tree printed in one line, or in many, parses to the same tree."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.logql.lang import ast
from lakerunner_query.logql.lang.aggregations import (
    COUNTED,
    GROUPED,
    PARAMETRIC,
    UNGROUPED,
    UNWRAPPED,
    VECTOR_AGGREGATIONS,
)
from lakerunner_query.logql.lang.ast import CompareOp, Conversion, FilterOp, Unit, fold
from lakerunner_query.logql.lang.lexer import SET_OPERATORS
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.lang.pretty import pretty
from lakerunner_query.logql.lang.printer import print_query
from lakerunner_query.syntax import Matcher, MatchOp

names = st.sampled_from(("a", "b_1", "_c", "sum", "ip", "rate", "bytes", "duration", "vector", "größe"))
texts = st.text(st.characters(exclude_characters="\ufffd", exclude_categories=["Cs"]), max_size=8)
regexes = st.sampled_from(("", "a.*", r"\d+|x", "(?i)e{1,3}", '"`\\\\'))
addresses = st.sampled_from(("10.0.0.1", "10.0.0.0/8", "10.0.0.1-10.0.0.9", "::1", "fe80::/10"))
numbers = st.floats(allow_nan=False, allow_infinity=False)
positives = st.floats(min_value=0, allow_infinity=False)
ranges_ns = st.integers(0, 2**43).map(lambda millis: millis * 1_000_000)
conversions = st.sampled_from(Conversion)


def tuples(items: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


matchers = st.one_of(
    st.builds(Matcher, names, st.sampled_from((MatchOp.EQUAL, MatchOp.NOT_EQUAL)), texts),
    st.builds(Matcher, names, st.sampled_from((MatchOp.REGEX, MatchOp.NOT_REGEX)), regexes),
)
line_filters = st.one_of(
    st.builds(ast.LineFilter, st.just(FilterOp.CONTAINS), tuples(texts.filter(bool), 1), tuples(addresses)),
    st.builds(ast.LineFilter, st.just(FilterOp.CONTAINS), st.just(("",))),
    st.builds(ast.LineFilter, st.just(FilterOp.NOT_CONTAINS), tuples(texts, 1), tuples(addresses)),
    st.builds(ast.LineFilter, st.just(FilterOp.CONTAINS), st.just(()), tuples(addresses, 1)),
    st.builds(ast.LineFilter, st.just(FilterOp.REGEX), tuples(regexes.filter(bool), 1)),
    st.builds(ast.LineFilter, st.just(FilterOp.NOT_REGEX), tuples(regexes, 1)),
    st.builds(
        ast.LineFilter,
        st.sampled_from((FilterOp.PATTERN, FilterOp.NOT_PATTERN)),
        tuples(st.sampled_from(("<_> x", "a <_>b", "x")), 1),
    ),
)
paths = st.sampled_from((("a", ("a",)), ("a.b", ("a", "b")), ('["x y"][0].z', ("x y", 0, "z"))))
extractions = st.builds(lambda name, path: ast.Extraction(name, *path), names, paths)
keys = st.builds(
    lambda name, key: ast.Extraction(name, key, (key.strip('"'),)),
    names,
    st.sampled_from(("a", "_c1", '"x y"')),
)
compares = st.one_of(
    st.builds(ast.LabelCompare, names, st.sampled_from(CompareOp), numbers, st.just(Unit.NUMBER)),
    st.builds(
        ast.LabelCompare, names, st.sampled_from(CompareOp),
        st.integers(0, 2**62).map(lambda nanos: nanos / 10**9), st.just(Unit.DURATION),
    ),
    st.builds(
        ast.LabelCompare, names, st.sampled_from(CompareOp), st.integers(0, 2**62).map(float),
        st.just(Unit.BYTES),
    ),
)  # fmt: skip
conditions = st.recursive(
    st.one_of(
        st.builds(ast.LabelMatch, matchers.filter(lambda one: one.value or not one.op.is_regex)),
        st.builds(ast.LabelIp, names, st.booleans(), addresses),
        compares,
    ),
    lambda inner: st.one_of(st.builds(ast.LabelAnd, inner, inner), st.builds(ast.LabelOr, inner, inner)),
    max_leaves=5,
)
label_filters = st.builds(ast.LabelFilter, conditions)
operations = st.one_of(st.builds(ast.Rename, names, names), st.builds(ast.Assign, names, texts))
kept = tuples(st.one_of(names, matchers), 1)
stages = st.one_of(
    line_filters,
    label_filters,
    st.builds(ast.Json, tuples(extractions)),
    st.builds(ast.Logfmt, tuples(keys), st.booleans(), st.booleans()),
    st.builds(ast.Regexp, st.sampled_from(("(?P<a>x+)", r"(?<b>\d)`"))),
    st.builds(ast.Pattern, st.sampled_from(("<a> <_>", "[<b>]"))),
    st.builds(ast.Unpack),
    st.builds(ast.Decolorize),
    st.builds(ast.LineFormat, st.sampled_from(("{{.a}}\n", "x", '{{ __line__ | replace "a" `b` }}'))),
    st.builds(
        ast.LabelFormat,
        st.lists(operations, min_size=1, max_size=3, unique_by=lambda one: one.name).map(tuple),
    ),
    st.builds(ast.Keep, kept),
    st.builds(ast.Drop, kept),
)


def can_be_written(found: tuple[ast.Stage, ...]) -> bool:
    """Behind `| keep a`, `!= "x"` would be the matcher of `a`."""
    negative = {FilterOp.NOT_CONTAINS, FilterOp.NOT_REGEX}
    return not any(
        isinstance(one, ast.Keep | ast.Drop)
        and isinstance(one.items[-1], str)
        and isinstance(following, ast.LineFilter)
        and following.op in negative
        for one, following in pairwise(found)
    )


queries = st.builds(
    lambda rest, found: ast.LogQuery((Matcher("app", MatchOp.EQUAL, "x"), *rest), found),
    tuples(matchers), tuples(stages, most=4).filter(can_be_written),
)  # fmt: skip
groupings = st.builds(ast.Grouping, tuples(names), st.booleans())


def _range_aggregation(op: str, unwrap: ast.Unwrap | None) -> st.SearchStrategy[Any]:
    ranges = st.builds(ast.LogRange, queries, ranges_ns, st.integers(-(2**53), 2**53), st.just(unwrap))
    grouped = st.none() | groupings if op in GROUPED else st.none()
    parameter = positives if op == "quantile_over_time" else st.none()
    return st.builds(ast.RangeAggregation, st.just(op), ranges, parameter, grouped)


unwraps = st.builds(ast.Unwrap, names, conversions, tuples(label_filters, most=2))
range_aggregations = st.one_of(
    st.sampled_from(sorted(COUNTED)).flatmap(lambda op: _range_aggregation(op, None)),
    st.tuples(st.sampled_from(sorted(UNWRAPPED)), unwraps).flatmap(lambda both: _range_aggregation(*both)),
)
matchings = st.one_of(
    st.just(ast.Matching()),
    st.builds(ast.Matching, st.booleans(), tuples(names, 1)),
    st.builds(
        ast.Matching, st.booleans(), tuples(names),
        st.sampled_from((ast.Cardinality.MANY_TO_ONE, ast.Cardinality.ONE_TO_MANY)), tuples(names),
    ),
)  # fmt: skip


def _vector_aggregation(op: str, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parameter = st.integers(1, 10**6) if op in PARAMETRIC else st.none()
    grouped = st.none() if op in UNGROUPED else st.none() | groupings
    return st.builds(ast.VectorAggregation, st.just(op), inner, parameter, grouped)


def _binary(
    op: str, left: ast.SampleExpr, right: ast.SampleExpr, rest: tuple[bool, ast.Matching]
) -> ast.SampleExpr:
    if isinstance(left, ast.Literal) and isinstance(right, ast.Literal):
        return ast.Literal(fold(op, left.value, right.value))
    return ast.Binary(op, left, right, rest[0] and op in {"==", "<"}, rest[1])


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    vectors = inner.filter(lambda expr: not isinstance(expr, ast.Literal))
    modifiers = st.tuples(st.booleans(), matchings)
    return st.one_of(
        st.sampled_from(sorted(VECTOR_AGGREGATIONS)).flatmap(lambda op: _vector_aggregation(op, vectors)),
        st.builds(ast.LabelReplace, vectors, texts, texts, texts, regexes),
        st.builds(_binary, st.sampled_from("+-*/%^"), inner, inner, modifiers),
        st.builds(_binary, st.sampled_from(("==", "<", *sorted(SET_OPERATORS))), vectors, vectors, modifiers),
    )


literals = st.one_of(
    st.builds(ast.Literal, numbers | st.sampled_from((math.nan, math.inf, -math.inf))),
    st.builds(ast.VectorOf, positives),
)
expressions = st.recursive(st.one_of(range_aggregations, literals), _around, max_leaves=5)


@given(queries | expressions)
def test_printing_then_parsing_gives_the_same_tree(expr: ast.Expr) -> None:
    assert parse_expr(print_query(expr)) == expr
    assert parse_expr(pretty(expr)) == expr


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{a="b"}|json|(x="1"or y>2)and z<3', '{a="b"} | json | ( ( x="1" or y>2 ) , z<3 )'),
        ('{a="b"}|x="1"or(y>2 and z<3)', '{a="b"} | ( x="1" or ( y>2 , z<3 ) )'),
        ('{a="b"}|x="1",y>2 z<3', '{a="b"} | ( x="1" , ( y>2 , z<3 ) )'),
        ('{a="b"}|x="1" and y>2 and z<3', '{a="b"} | ( ( x="1" , y>2 ) , z<3 )'),
        ('{a="b"}|x="1" or y>2,z<3 or w=4', '{a="b"} | ( x="1" or ( y>2 , ( z<3 or w==4 ) ) )'),
        ('{a="b"}|x>-1.5s', '{a="b"} | x>-1.5s'),
        (
            '{a="b"}|d>=1500us|d<1d|s<1.5KiB|s>42000kB|n>1e9',
            '{a="b"} | d>=1.5ms | d<24h0m0s | s<1536B | s>42MB | n>1000000000',
        ),
        ('SUM(RATE({a="b"}[1d]))BY(x) AND vector(1)', '(sum by (x)(rate({a="b"}[1d])) and vector(1.000000))'),
        ('sum by(a,b)(rate({a="b"}[90s]))+1+2', '((sum by (a,b)(rate({a="b"}[1m30s])) + 1) + 2)'),
        ('{a="b"} /* x */ | json // y', '{a="b"} | json'),
        (
            '{a="b"}|json x,y="z"|logfmt --strict z|drop a,b="c"',
            '{a="b"} | json x="x",y="z" | logfmt --strict z="z" | drop a,b="c"',
        ),
        ('{a="b"} |= "x" or "" |~ "" or "y" |= "" != "x" or ""', '{a="b"} |= "x" |~ "y" |= "" != "x" or ""'),
        ('{a="b"} |= "" or ip("::1") | x=~"" | y!~"(?i)"', '{a="b"} |= ip("::1") | x=~".*" | y!~".*"'),
        ('{a="b"} | s > 0kB | s < 5000TB', '{a="b"} | s>0kB | s<5000TB'),
        ("0 * -1", "(0 * -1)"),
        ("vector(1e-9)*1e6", "(vector(1e-09) * 1e+06)"),
        ("vector(1)^vector(2)^vector(3)", "(vector(1.000000) ^ (vector(2.000000) ^ vector(3.000000)))"),
        ("vector(1)*(vector(2)+3)", "(vector(1.000000) * (vector(2.000000) + 3))"),
        ("1<bool on(a)group_left(b)vector(2)", "(1 < bool on (a) group_left (b) vector(2.000000))"),
        ("1<on(a)group_left()(vector(2)+3)", "(1 < on (a) group_left () (vector(2.000000) + 3))"),
        ('{a="b"}|=`x"y`', '{a="b"} |= "x\\"y"'),
        ('{a="\\n\\t\\u00e9"}', '{a="\\n\\té"}'),
        (
            'max_over_time({a="b"}[5m]offset 1h|unwrap x)by(c)',
            'max_over_time({a="b"} | unwrap x[5m] offset 1h0m0s) by (c)',
        ),
        (
            'topk(3,label_replace(vector(1),"a","$1","b","c"))',
            'topk(3,label_replace(vector(1.000000),"a","$1","b","c"))',
        ),
    ],
)
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert print_query(parse_expr(text)) == canonical
    assert print_query(parse_expr(canonical)) == canonical


def test_what_is_too_long_for_a_line_is_split() -> None:
    text = """
topk(
  10,
    sum by (app, env)(
      quantile_over_time(
        0.99,
        {app="a long name of an app", env="a long name of an environment"}
          |= "some text that is long"
          | json
          | ( took>1s or status>=500 )
          | unwrap duration(took)
          | __error__="" [5m] offset 1h
      ) by (app, env)
    )
  /
    (
        count_over_time({app="a long name of an app", env="a long name of an environment"} | json[5m])
      - on (app, env)
        vector(1.000000)
    )
)"""
    assert pretty(parse_expr(text)) == text.strip("\n")
