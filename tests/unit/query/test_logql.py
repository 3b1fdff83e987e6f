"""The LogQL front end: what parses, what is refused and where, and that printing loses nothing."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.errors import ParseError, Position, UnsupportedError
from lakerunner_query.lang.logql import FilterOp, LineFilter, LogQuery, Matcher, MatchOp, parse, to_text
from lakerunner_query.lang.regex import for_duckdb, full_matches


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{foo="bar"}', '{foo="bar"}'),
        ('{ namespace="buzz", foo != "bar" }', '{namespace="buzz", foo!="bar"}'),
        ('{foo="bar"} |= "baz" |~ "blip" != "flip" !~ "flap"',) * 2,
        ('{app="foo"} |= "foo" or "bar" |= "buzz" or "fizz"',) * 2,
        ('{a=~`b\\d`}|=`x"y`', '{a=~"b\\\\d"} |= "x\\"y"'),
        ('{a="b"} # selector\n |= "c#d" # filter', '{a="b"} |= "c#d"'),
        (r'{a="\t\x41\101\u00e9\U0001F600"}', '{a="\\tAAé😀"}'),
        ('{a="b}", c="{"} |= "}"',) * 2,
    ],
)
def test_accepts(text: str, canonical: str) -> None:
    assert to_text(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ('{foo="bar"', "syntax error: unexpected $end, expecting } or ,", (1, 11)),
        ('{foo="bar}', "literal not terminated", (1, 6)),
        ('{foo="bar"} |~', "syntax error: unexpected $end, expecting STRING or ip", (1, 15)),
        ('{foo="bar"} foo', "syntax error: unexpected IDENTIFIER", (1, 13)),
        ('{app=~"\ufffd"}', "invalid UTF-8 encoding", (1, 7)),
        ('{a="b"}\n|~ "("', "error parsing regexp: missing ): (: `(`", (2, 4)),
        ('{a=~"x(?=y)"}', "error parsing regexp: invalid perl operator: (?=: `x(?=y)`", (1, 5)),
        ('{a=~"b)(c"}', "error parsing regexp: unexpected ): b)(c: `b)(c`", (1, 5)),
        (r'{a=~"\\Qx"}', r"error parsing regexp: missing ): ^(?s:\Qx)$: `^(?s:\Qx)$`", (1, 5)),
        ('{a="\\q"}', "invalid char escape", (1, 4)),
        ('{a="\\xff"}', "invalid UTF-8 encoding", (1, 4)),
        ("{a='b'}", 'syntax error: unexpected "\'"', (1, 4)),
        ("", "syntax error: unexpected $end, expecting {", (1, 1)),
    ],
)
def test_rejects_with_position(text: str, message: str, position: tuple[int, int]) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert caught.value.position == Position(*position)
    assert caught.value.message == f"parse error at {caught.value.position}: {message}"


@pytest.mark.parametrize(
    ("text", "construct", "column"),
    [
        ('{a="b"} | json', "stage (| json)", 9),
        ('{a="b"} | status >= 500', "label filter (| status)", 9),
        ('{a="b"} |> "<_> x"', "pattern line filter (|>)", 9),
        ('{a="b"} !> "<_> x"', "pattern line filter (!>)", 9),
        ('{a="b"} |= ip("10.0.0.0/8")', "ip() line filter", 12),
        ('{a="b"} |= "x" or ip("10.0.0.0/8")', "ip() line filter", 19),
        ('rate({a="b"}[5m])', "metric query (rate)", 1),
        ('sum by (a) (rate({a="b"}[5m]))', "metric query (sum)", 1),
        ("vector(1)+vector(1)", "metric query (vector)", 1),
        ("1 + 1", "metric query (expression)", 1),
        ('{a="b"}[5m]', "range over a log query", 8),
    ],
)
def test_names_what_is_not_supported_yet(text: str, construct: str, column: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse(text)
    assert caught.value.message == f"parse error at line 1, col {column}: not supported yet: {construct}"


@pytest.mark.parametrize(
    "text", ["{}", '{a=~".*"}', '{a!="b"}', '{a!~"b"}', '{a=""}', '{a=~"b|"}', '{a=~"b?"}']
)
def test_needs_a_matcher_that_refuses_the_empty_value(text: str) -> None:
    with pytest.raises(ParseError, match="at least one regexp or equality matcher"):
        parse(text)


def test_the_corpus_of_loki_parses_or_is_refused_by_name(corpora: Path) -> None:
    """No accepted text may be called a mistake, no rejected one may pass."""
    cases = json.loads((corpora / "parse" / "logql_parse.json").read_text())
    for text in cases["accept"]:
        with contextlib.suppress(UnsupportedError):
            parse(text)
    for case in cases["reject"]:
        with pytest.raises(ParseError):
            parse(case["query"])


def test_a_hostile_text_is_refused_quickly() -> None:
    with pytest.raises(ParseError, match="input size too long"):
        parse('{a="' + "x" * 200_000)
    many = "{" + ",".join(f'a{i}="b"' for i in range(10_000)) + "}"
    assert len(parse(many).matchers) == 10_000


def test_label_regexes_are_anchored_and_see_newlines() -> None:
    values = ["web", "webs", "xweb", "w\nb", "", "WEB"]
    assert full_matches("w.b", values) == [True, False, False, True, False, False]
    assert full_matches("(?i)web|xweb", values) == [True, False, True, False, False, True]
    assert full_matches("a|", values) == [False, False, False, False, True, False]


@pytest.mark.parametrize(
    ("given_pattern", "spelled"),
    [
        ("(?<a>x)(?P<b>y)(?i)(?:z)", "(?P<a>x)(?P<b>y)(?i)(?:z)"),
        (r"\(?<a>", r"\(?<a>"),
        (r"\\(?<a>x)", r"\\(?P<a>x)"),
        (r"[(?<a>][]](?<b>[^](?<c>\]])", r"[(?<a>][]](?P<b>[^](?<c>\]])"),
        (r"[[:alpha:](?<a>](?<b>x)", r"[[:alpha:](?<a>](?P<b>x)"),
        (r"\Q(?<a>\E(?<b>x)\Q(?<c>", r"\Q(?<a>\E(?P<b>x)\Q(?<c>"),
    ],
)
def test_named_groups_as_the_older_re2_of_duckdb_spells_them(given_pattern: str, spelled: str) -> None:
    assert for_duckdb(given_pattern) == spelled


names = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
texts = st.text(st.characters(exclude_characters="\ufffd", exclude_categories=["Cs"]), max_size=12)
plain_matchers = st.builds(Matcher, names, st.sampled_from([MatchOp.EQUAL, MatchOp.NOT_EQUAL]), texts)
first_matchers = st.builds(Matcher, names, st.just(MatchOp.EQUAL), texts.filter(bool))
filters = st.builds(
    LineFilter,
    st.sampled_from([FilterOp.CONTAINS, FilterOp.NOT_CONTAINS]),
    st.lists(texts, min_size=1, max_size=3).map(tuple),
)
queries = st.builds(
    lambda first, rest, stages: LogQuery((first, *rest), tuple(stages)),
    first_matchers, st.lists(plain_matchers, max_size=3), st.lists(filters, max_size=3),
)  # fmt: skip


@given(queries)
def test_printing_then_parsing_gives_the_same_tree(query: LogQuery) -> None:
    assert parse(to_text(query)) == query


def test_a_newline_at_the_end_of_a_text_is_escaped() -> None:
    text = to_text(parse('{a="\\n"}'))
    assert text == '{a="\\n"}'
    assert parse(text) == parse('{a="\\n"}')
