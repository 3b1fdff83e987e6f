"""Trees as text: in Prometheus' spelling, and never another query than before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Expr,
    Paren,
    Selector,
    children,
    with_children,
)
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import MAX_LINE, matcher_text, pretty, to_text
from tests.support.query.promql.promql_texts import VECTORS


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("sum(a)by(x,'é')", 'sum by (x, "é") (a)'),
        ("SUM without()(a)", "sum without () (a)"),
        ("sum by ()(a)", "sum(a)"),
        ("topk(3,a)", "topk(3, a)"),
        ("-a+- 1", "-a + -1"),
        ("1e3*0x10", "1000 * 16"),
        ("1e21-1e-7", "1000000000000000000000 - 0.0000001"),
        ("inf+NAN", "+Inf + NaN"),
        ("5m*90s*36500ms", "5m * 1m30s * 36s500ms"),
        ("400d + 8d + 14d + 365d", "400d + 8d + 2w + 1y"),
        ("foo{b='1',a!=`2`}", 'foo{a!="2",b="1"}'),
        ("{'my.metric'}", '{__name__="my.metric"}'),
        ("{'a b'=~'x','__name__'='y'}", '{"a b"=~"x",__name__="y"}'),
        ("foo[300]offset-1.5", "foo[5m] offset -1s500ms"),
        ("foo offset 5m @ 1.5", "foo @ 1.500 offset 5m"),
        ("foo[1m]smoothed offset 1m@end()", "foo[1m] smoothed @ end() offset 1m"),
        ("foo anchored offset 1m @ 0", "foo @ 0.000 anchored offset 1m"),
        ("foo[1h:]", "foo[1h:]"),
        ("foo[1h:5m]@start()offset-1m", "foo[1h:5m] @ start() offset -1m"),
        ("foo[-(step()*2)+RANGE()^2]", "foo[-(step() * 2) + range() ^ 2]"),
        ("foo[((300))] offset (5s) - 1", "foo[(300)] offset (5s) - 1"),
        ("foo offset -(1h)", "foo offset -(1h)"),
        ("foo offset max_of(5m,step())", "foo offset max_of(5m, step())"),
        ("a==bool on(x)group_left(y)b", "a == bool on (x) group_left (y) b"),
        ("a+ignoring()b", "a + b"),
        ("a+on()b", "a + on () b"),
        ("a+fill(1)b", "a + fill (1) b"),
        ("a+fill_right(1000000)fill_left(-1e-5)b", "a + fill_left (-1e-05) fill_right (1e+06) b"),
        ("a and ignoring(x)b", "a and ignoring (x) b"),
        (
            "label_replace(a,'b','\\t\\x01\"é\\u200b','d',`\\d`)",
            r'label_replace(a, "b", "\t\x01\"é\u200b", "d", "\\d")',
        ),
        ("'\\xc3\\xa9\\xff'", '"é\\xff"'),
        ("time()", "time()"),
    ],
)
def test_spelling(text: str, printed: str) -> None:
    assert to_text(parse(text)) == printed


@pytest.mark.parametrize("text", ["a offset --5s * 2", "info(a, {})", "'\\ufffd'"])
def test_what_prometheus_prints_as_something_else_keeps_its_meaning(text: str) -> None:
    printed = to_text(parse(text))
    assert to_text(parse(printed)) == printed
    assert type(parse(printed)) is type(parse(text))


def ordered(expr: Expr) -> Expr:
    """Sort the matchers in the order of printing."""
    if isinstance(expr, Selector):
        own = expr.matchers[-1:] if expr.name else ()
        others = expr.matchers[: len(expr.matchers) - len(own)]
        return replace(expr, matchers=(*sorted(others, key=matcher_text), *own))
    return with_children(expr, [ordered(child) for child in children(expr)])


@settings(max_examples=100, deadline=None)
@given(VECTORS)
def test_a_printed_tree_parses_to_itself(text: str) -> None:
    tree = ordered(parse(text))
    assert parse(to_text(tree)) == tree
    assert parse(pretty(tree)) == tree


@settings(max_examples=60, deadline=None)
@given(VECTORS)
def test_lines_are_split_only_where_the_text_is_long(text: str) -> None:
    tree = parse(text)
    printed = to_text(tree)
    if len(printed.encode(errors="surrogateescape")) <= MAX_LINE:
        assert pretty(tree) == printed
    elif isinstance(tree, Paren | Call | Aggregate | Binary):
        assert "\n" in pretty(tree)


def test_long_expressions_in_lines() -> None:
    rate = "rate(http_requests_total{handler='/api/v1/query_range', method='POST', code=~'5..'}[5m])"
    long = f"sum by (job) ({rate})"
    assert pretty(parse(f"-({long}) / on (job) group_left () topk(3, {long})")).split("\n") == [
        "  -(",
        "    sum by (job) (",
        '      rate(http_requests_total{code=~"5..",handler="/api/v1/query_range",method="POST"}[5m])',
        "    )",
        "  )",
        "/ on (job) group_left ()",
        "  topk(",
        "    3,",
        "    sum by (job) (",
        '      rate(http_requests_total{code=~"5..",handler="/api/v1/query_range",method="POST"}[5m])',
        "    )",
        "  )",
    ]
