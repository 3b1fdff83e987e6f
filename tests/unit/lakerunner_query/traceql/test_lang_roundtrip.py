"""Printing loses nothing: the text of a tree parses to the same tree."""

from __future__ import annotations

import pytest
from hypothesis import given

from lakerunner_query.traceql.lang import ast
from lakerunner_query.traceql.lang.parser import parse
from lakerunner_query.traceql.lang.printer import print_query
from tests.unit.lakerunner_query.traceql.trees import queries


@given(queries)
def test_printing_then_parsing_gives_the_same_tree(query: ast.Query) -> None:
    assert parse(print_query(query)) == query


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("{}", "{ }"),
        ('{.a="x"&&.b=`y`||span.c}', "{ ((.a = `x`) && (.b = `y`)) || span.c }"),
        ("{ .a && .b && (.c && .d) }", "{ .a && .b && (.c && .d) }"),
        ("{ .a || .b && .c || .d }", "{ ((.a || .b) && .c) || .d }"),
        ("{ 1 + 2 * 3 ^ 2 ^ 2 = -4 % 5 }", "{ (1 + (2 * (3 ^ (2 ^ 2)))) = (-(4 % 5)) }"),
        ("{ !.a = !.b && -.c * 2 < (-1) ^ 2 }", "{ ((!.a) = (!.b)) && ((-(.c * 2)) < ((-1) ^ 2)) }"),
        ("{ nil != .a = true }", "{ (nil != .a) = true }"),
        ("{ span:duration > 1.5h && trace:rootName = `a` }", "{ (duration > 1h30m0s) && (rootName = `a`) }"),
        ('{ resource."team \\"name\\"".x = "a`b" }', '{ resource."team \\"name\\".x" = "a`b" }'),
        ("{ .a = minInt && .b = 1. && .c = 1e21 }", "{ (.a = minInt) && (.b = 1.0) && (.c = 1e+21) }"),
        ("{.a}>>{.b}&&{.c}||{.d}~{.e}", "(({ .a } >> { .b }) && { .c }) || ({ .d } ~ { .e })"),
        ("({.a}|by(.b))&&({.c})", "({ .a } | by(.b)) && ({ .c })"),
        ("({.a}|count()>2)", "{ .a } | count() > 2"),
        ("{.a}|count()>7/2|max(.b)<3*2s", "{ .a } | count() > 3 | max(.b) < 6s"),
        ("by(.a % 2)|select(.b,span:kind)|coalesce()", "by(.a % 2) | select(.b, kind) | coalesce()"),
        ("({}|rate())*10+7/2>50|topk(1)", "(({ } | rate()) * 10) + 3.5 > 50 | topk(1)"),
        ("{}|quantile_over_time(.b,.5,1)by(.a)>-3", "{ } | quantile_over_time(.b, 0.5, 1) by (.a) > -3"),
        ("{}|compare({.a})with(sample=true)", "{ } | compare({ .a }, 10) with (sample=true)"),
    ],
)  # fmt: skip
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert print_query(parse(text)) == canonical
    assert print_query(parse(canonical)) == canonical
