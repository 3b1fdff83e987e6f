"""Texts made to hurt: they are refused quickly and in words."""

from __future__ import annotations

import time

import pytest

from lakerunner_query.errors import ParseError
from lakerunner_query.logql.lang.ast import FilterOp, LineFilter, Literal
from lakerunner_query.logql.lang.parser import parse, parse_expr

MANY = 40_000


@pytest.mark.parametrize(
    "text",
    [
        "(" * MANY,
        "(" * MANY + "1" + ")" * MANY,
        'rate(' + "(" * MANY + '{a="b"}',
        '{a="b"} | ' + "(" * MANY + 'a="b"',
        "sum(" * 20_000 + "vector(1)",
        "vector(1)" + "+vector(1)" * 10_000,
        "vector(1)" + "^vector(1)" * 10_000,
        '{a="b"} | a=1' + " or a=1" * 10_000,
        '{a="b"} | a=1' + " a=1" * 10_000,
    ],
)  # fmt: skip
def test_deep_texts_are_refused(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError, match=r"levels deep|unexpected \$end"):
        parse_expr(text)
    assert time.process_time() - start < 20


@pytest.mark.parametrize("text", ['{a="' + "x" * 1_000_000 + '"}', "[" * 1_000_000, "1" * 1_000_000])
def test_long_texts_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="input size too long"):
        parse_expr(text)


@pytest.mark.parametrize(
    "text",
    [
        "1" * 130_000,
        "1_" * 60_000,
        "1" * 120_000 + "s",
        "topk(" + "1" * 120_000 + ",vector(1))",
        "1m" * 60_000,
        '{a="b"} | a > ' + "1y" * 60_000,
        "#\n" * 60_000,
    ],
)
def test_long_numbers_cost_little(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        parse_expr(text)
    assert time.process_time() - start < 20


def test_wide_texts_parse() -> None:
    assert len(parse("{" + ",".join(f'a{i}="b"' for i in range(10_000)) + "}").matchers) == 10_000
    assert len(parse('{a="b"}' + '|="x"' * 10_000).stages) == 10_000
    chain = parse('{a="b"} |= "x"' + ' or "x"' * 10_000)
    assert chain.stages == (LineFilter(FilterOp.CONTAINS, ("x",) * 10_001),)
    assert parse_expr("1" + "+1" * 10_000) == Literal(10_001)


def test_a_typical_query_costs_well_below_a_millisecond() -> None:
    text = 'sum by (app) (rate({app=~"a.+", env="prod"} |= "error" | json | status >= 500 [5m])) / 2 > 1'
    parse_expr(text)
    rounds = 50
    best = min(_timed(text) for _ in range(rounds))
    assert best < 0.002  # twice the aim, as machines differ


def _timed(text: str) -> float:
    start = time.process_time()
    parse_expr(text)
    return time.process_time() - start
