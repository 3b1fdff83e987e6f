"""Errors name the first mistake and its place, and hostile texts cost little."""

from __future__ import annotations

import pytest

from lakerunner_query.errors import InvalidQueryError, ParseError, UnsupportedError
from lakerunner_query.traceql.lang.functions import hint
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS, TAG_NAMES
from lakerunner_query.traceql.lang.lexer import END, Lexer
from lakerunner_query.traceql.lang.parser import MAX_LENGTH, parse, parse_field, parse_metrics


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n  .a ==\n}", "parse error at line 2, col 7: syntax error: unexpected ="),
        ("{ foo = 1 }", "parse error at line 1, col 3: unknown identifier: foo"),
        ("{ trace:name = 1 }", "parse error at line 1, col 9: syntax error: unexpected name, "
         "expecting duration or rootName or rootService or id"),
        ("{ .a } >> ({ .b } | count() > 1)", "parse error at line 1, col 19: syntax error: unexpected |"),
        ("({ .b } | count() > 1) && { .a }", "parse error at line 1, col 27: syntax error: unexpected {"),
        ("{ .a } | count()", "parse error at line 1, col 17: syntax error: unexpected $end"),
        ("{ .a } | ({} | rate())", "parse error at line 1, col 10: syntax error: unexpected ("),
        ("{} | rate() | rate()", "parse error at line 1, col 15: syntax error: unexpected rate, "
         "expecting topk or bottomk"),
        ("({} | rate()) > (10s * 2)", "parse error at line 1, col 18: syntax error: unexpected DURATION"),
        ("{ . a }", "parse error at line 1, col 3: syntax error: unexpected END_ATTRIBUTE, "
         "expecting IDENTIFIER"),
        ("{ .a = \udcff }", "parse error at line 1, col 8: invalid UTF-8 encoding"),
        ('{ .a = "\\xff" }', "parse error at line 1, col 8: invalid UTF-8 encoding"),
        ("1e999", 'parse error at line 1, col 1: strconv.ParseFloat: parsing "1e999": value out of range'),
    ],
)  # fmt: skip
def test_the_grammar_refuses(text: str, message: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert str(raised.value) == message
    assert not isinstance(raised.value, InvalidQueryError | UnsupportedError)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("{ .a && status > ok }", "illegal operation for the given types: status > ok", "line 1, col 16"),
        ('{ name = 5 + 1 && "x" }', "binary operations must operate on the same type: name = (5 + 1)",
         "line 1, col 8"),
        ("{ kind = nil }", "kind=nil is not valid because intrinsics cannot be nil", "line 1, col 8"),
        ("{ .a =~ `[` }", "error parsing regexp: missing closing ]: `[`", "line 1, col 6"),
        ("{} | rate() | topk(0)", "limit must be greater than 0", "line 1, col 15"),
        ("{ -true }", "illegal operation for the given type: -true", "line 1, col 3"),
    ],
)  # fmt: skip
def test_the_checks_refuse(text: str, message: str, place: str) -> None:
    with pytest.raises(InvalidQueryError) as raised:
        parse(text)
    assert (str(raised.value), str(raised.value.position)) == (message, place)


def test_unsupported_constructs_are_named() -> None:
    with pytest.raises(UnsupportedError, match=r"^parent not yet supported$"):
        parse("{ .a = 1 || parent.b = 2 }")


def test_a_search_is_no_metrics_query() -> None:
    assert parse_metrics("{} | rate()").body
    with pytest.raises(InvalidQueryError, match=r"^not a metrics query$"):
        parse_metrics("{}")


@pytest.mark.parametrize("text", ["resource.team name", "", "1", "span:", "foo", ".a, .b"])
def test_a_tag_is_one_field(text: str) -> None:
    with pytest.raises(ParseError):
        parse_field(text)


@pytest.mark.parametrize("name", INTRINSICS)
def test_every_spelling_of_an_intrinsic_is_the_same_field(name: str) -> None:
    spellings = INTRINSICS[name].spellings
    assert spellings
    assert {parse_field(spelling).name for spelling in spellings} == {name}
    assert set(spellings) <= set(TAG_NAMES) or not INTRINSICS[name].is_listed


def test_hints_of_another_type_are_ignored() -> None:
    query = parse('{} with (sample=0.5, most_recent="yes", unknown=true)')
    assert (hint(query, "sample"), hint(query, "most_recent")) == (0.5, None)


@pytest.mark.parametrize(
    "text",
    [
        "{ " + "(" * 60_000 + ".a" + ")" * 60_000 + " }",
        "(" * 60_000 + "{}" + ")" * 60_000,
        "{ " + "!" * 100_000 + ".a }",
        "{ .a" + " + .a" * 10_000 + " = 1 }",
        "{} || " * 10_000 + "{}",
        "({} | rate()) + " * 5_000 + "({} | rate())",
        "{} | " * 20_000,
        "{ .a = " + "1" * 100_000 + " }",
        '{ ."' + "\\\\" * 50_000 + " }",
        "{" + " " * MAX_LENGTH + "}",
        "/*" * 60_000,
    ],
)
def test_hostile_texts_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_long_chains_of_one_operator_are_flat() -> None:
    query = parse("{ " + " || ".join(f'trace:id = "{number}"' for number in range(5_000)) + " }")
    assert len(query.body.stages[0].condition.operands) == 5_000  # type: ignore[union-attr]


def test_tokens_know_their_places() -> None:
    lexer, found = Lexer('{\n .a="x" // comment\n&&\tspan:kind }'), []
    while (token := lexer.next()).kind != END:
        found.append((token.kind, token.position.line, token.position.column))
    assert found == [
        ("{", 1, 1), ("ATTRIBUTE", 2, 2), ("=", 2, 4), ("STRING", 2, 5),
        ("&&", 3, 1), ("span:", 3, 4), ("kind", 3, 9), ("}", 3, 14),
    ]  # fmt: skip
