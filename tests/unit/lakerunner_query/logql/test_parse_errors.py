"""What is no LogQL is refused with Loki's words and the place."""

from __future__ import annotations

import pytest

from lakerunner_query.errors import ParseError, Position, UnsupportedError
from lakerunner_query.logql.lang.parser import parse, parse_expr


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ('{foo="bar"', "syntax error: unexpected $end, expecting } or ,", (1, 11)),
        ('{foo="bar}', "literal not terminated", (1, 6)),
        ('{foo="bar"} |~', "syntax error: unexpected $end, expecting STRING or ip", (1, 15)),
        ('{foo="bar"} foo', "syntax error: unexpected IDENTIFIER", (1, 13)),
        ('{app=~"\ufffd"}', "invalid UTF-8 encoding", (1, 7)),
        ('{a=~"\udcff"}', "invalid UTF-8 encoding", (1, 5)),
        ('{a="b"} |= `\ud800`', "invalid UTF-8 encoding", (1, 12)),
        ('{a="\\q"}', "invalid char escape", (1, 4)),
        ('{a="\\xff"}', "invalid UTF-8 encoding", (1, 4)),
        ("{a='b'}", "syntax error: unexpected IDENTIFIER, expecting STRING", (1, 4)),
        ("{a='bc'}", "invalid char literal", (1, 4)),
        ('{a="b"} /* x', "comment not terminated", (1, 9)),
        ('{json="b"}', "syntax error: unexpected json, expecting IDENTIFIER or }", (1, 2)),
        ('rate(rate({a="b"}[5m])[5m])', "syntax error: unexpected RATE, expecting NUMBER or { or (", (1, 6)),
        (
            'rate({a="b"} | unwrap x foo)',
            "syntax error: unexpected IDENTIFIER, expecting RANGE or |",
            (1, 25),
        ),
        ('rate({a="b"}[1.5h])', 'unknown unit "." in duration "1.5h"', (1, 13)),
        ("1 -0", "syntax error: unexpected DURATION", (1, 3)),
        ("sum by x (vector(1))", "syntax error: unexpected IDENTIFIER", (1, 1)),
        ("sum(vector(1)", "syntax error: unexpected $end", (1, 14)),
        ("", "syntax error: unexpected $end", (1, 1)),
        ('rate({a="b"}\n  [5m)', "missing closing ']' in duration", (2, 3)),
        ('rate({a="b"}[5x])', 'unknown unit "x" in duration "5x"', (1, 13)),
        ('vector({a="b"})', "syntax error: unexpected {, expecting NUMBER", (1, 8)),
        ("089", "invalid digit '8' in octal literal", (1, 1)),
        ("5e + 1", "exponent has no digits", (1, 1)),
    ],
)
def test_mistakes_have_a_position(text: str, message: str, position: tuple[int, int]) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    assert caught.value.position == Position(*position)
    assert caught.value.message == f"parse error at {caught.value.position}: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('rate({a="b"}[5m]) by (a)', "grouping not allowed for rate aggregation"),
        ('sum_over_time({a="b"}[5m])', "invalid aggregation sum_over_time without unwrap"),
        ('bytes_rate({a="b"} | unwrap x [5m])', "invalid aggregation bytes_rate with unwrap"),
        (
            'quantile_over_time({a="b"} | unwrap x [5m])',
            "parameter required for operation quantile_over_time",
        ),
        ('rate(2, {a="b"}[5m])', "parameter 2 not supported for operation rate"),
        ("topk(vector(1))", "parameter required for operation topk"),
        ("topk(1.5, vector(1))", "invalid parameter topk(1.5,"),
        ("topk(0, vector(1))", "invalid parameter (must be greater than 0) topk(0"),
        ("sum(2, vector(1))", "unsupported parameter for operation sum(2,"),
        ("sort(vector(1)) by (a)", "sort and sort_desc doesn't allow grouping by "),
        ('{a="b"} + 1', "unexpected type for left leg of binary operation (+): *syntax.MatchersExpr"),
        ('1 / {a="b"} | json', "unexpected type for right leg of binary operation (/): *syntax.PipelineExpr"),
        ("vector(1) or 2", "unexpected literal for right leg of logical/set binary operation (or): 2.000000"),
        (
            '{a="b"} | label_format x=y, x="z"',
            "multiple label name 'x' not allowed in a",
        ),
        ('{a="b"} | label_format __error__=y', "__error__ cannot be formatted"),
        ('{a="b"} |= ip("1.2.3")', "ip: invalid pattern"),
        ('{a="b"} |~ ip("1.2.3.4")', "ip: invalid operation"),
        ('{a="b"} |> "<a> x"', "named captures are not allowed"),
        ('{a="b"} | regexp "x"', "at least one named capture must be supplied"),
        ('{a="b"} | regexp "(?P<x>.)(?P<x>.)"', "duplicate extracted label name 'x'"),
        ('{a="b"} | pattern "x"', "at least one capture is required"),
        ('{a="b"} | pattern "<a><b>"', "found consecutive capture"),
        ('{a="b"} |~ "("', "stage '|~ \"(\"' : error parsing regexp: missing closing ): `(`"),
        ('{a="b"} | json x="a..b"', "cannot parse expression [a..b]: syntax error: unexpected DOT"),
        (
            '{a="b"} | json x="a[1"',
            "cannot parse expression [a[1]: syntax error: unexpected $end, expecting STRING",
        ),
        ('{a="b"} | json x="a-b"', "cannot parse expression [a-b]: unexpected char -"),
        ('{a="b"} | logfmt x="a-b"', "cannot parse expression [a-b]: unexpected char -"),
        (
            '{a="b"} | logfmt x="1a"',
            "cannot parse expression [1a]: syntax error: unexpected $end, expecting STRING",
        ),
        ('{a="b"} | regexp "(?P<é>a)"', "error parsing regexp: invalid named capture: `(?P<é>`"),
        ('{a="b"} |= ip("10.0.0.0/08")', 'ip: invalid pattern: "10.0.0.0/08"'),
        ('{a="b"} | logfmt x="a b"', "cannot parse expression [a b]: syntax error: unexpected KEY"),
        ('{a="b"} | line_format "{{.x"', "invalid line template: template: line:1: unclosed action"),
        ('{a="b"} | line_format "{{nosuch}}"', 'function "nosuch" not defined'),
        ('{a="b"} | label_format x="{{.x"', "invalid template for label 'x': template: label:1:"),
        ('label_replace(vector(1),"a","b","c","(")', "invalid regex in label_replace: error parsing regexp"),
        ("0x10", 'unable to parse literal as a float: strconv.ParseFloat: parsing "0x10": invalid syntax'),
    ],
)
def test_what_the_grammar_allows_and_the_language_does_not(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    assert caught.value.message.startswith("parse error : ")
    assert message in caught.value.message
    assert caught.value.position is not None


def test_mistakes_of_the_grammar_are_told_before_those_of_the_language() -> None:
    with pytest.raises(ParseError, match=r"unexpected \$end"):
        parse_expr('rate({a="b"}[5m]) by (x) +')
    with pytest.raises(ParseError, match="grouping not allowed"):
        parse_expr('rate({a=~".*"} |~ "(" [5m]) by (x)')
    with pytest.raises(ParseError, match="at least one regexp"):
        parse_expr('rate({a=~".*"} |~ "(" [5m])')


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{a=~".*"}',
        '{a!="b"}',
        '{a!~"b"}',
        '{a=""}',
        '{a=~"b|"}',
        '{a=~"b?"}',
        'sum(rate({a=~".*"}[5m]))',
    ],
)
def test_needs_a_matcher_that_refuses_the_empty_value(text: str) -> None:
    with pytest.raises(ParseError, match="at least one regexp or equality matcher"):
        parse_expr(text)


def test_metric_queries_give_no_lines() -> None:
    with pytest.raises(ParseError, match="a query for log lines was expected"):
        parse('rate({a="b"}[5m])')


def test_variants_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"variants\(\)"):
        parse_expr('variants(rate({a="b"}[5m])) of ({a="b"}[5m])')
