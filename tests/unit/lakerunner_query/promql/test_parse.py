"""The parser gives the right tree, with the places of its parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from lakerunner_query.errors import PromParseError
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    DurationCall,
    DurationNumber,
    Edge,
    Expr,
    Matching,
    Matrix,
    Number,
    Paren,
    Reach,
    Selector,
    Shift,
    Span,
    Subquery,
    Text,
    Type,
    Unary,
    walk,
)
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.cursor import STABLE_FEATURES, Features
from lakerunner_query.promql.lang.functions import FUNCTIONS
from lakerunner_query.promql.lang.parser import parse, parse_selector
from lakerunner_query.syntax import Matcher, MatchOp
from tests.golden.promql_parse import cases
from tests.support.query.promql.promql_texts import SOUPS, VECTORS

MINUTE = 60_000
SECONDS_5 = DurationNumber(5, True)


def name(value: str) -> Matcher:
    return Matcher("__name__", MatchOp.EQUAL, value)


def metric(value: str) -> Selector:
    return Selector(value, (name(value),))


A, B, C, D = map(metric, "abcd")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", Binary("+", A, Binary("*", B, C, Matching()), Matching())),
        ("a * b + c", Binary("+", Binary("*", A, B, Matching()), C, Matching())),
        ("a - b - c", Binary("-", Binary("-", A, B, Matching()), C, Matching())),
        ("a ^ b ^ c", Binary("^", A, Binary("^", B, C, Matching()), Matching())),
        ("-a ^ b", Unary("-", Binary("^", A, B, Matching()))),
        ("-a * b", Binary("*", Unary("-", A), B, Matching())),
        ("a ^ -b * c", Binary("*", Binary("^", A, Unary("-", B), Matching()), C, Matching())),
        ("-1 ^ 2", Unary("-", Binary("^", Number(1), Number(2)))),
        ("a atan2 b % c", Binary("%", Binary("atan2", A, B, Matching()), C, Matching())),
        ("a == b >= c", Binary(">=", Binary("==", A, B, Matching()), C, Matching())),
        ("a </ b + c", Binary("</", A, Binary("+", B, C, Matching()), Matching())),
        ("(a + b) * 2", Binary("*", Paren(Binary("+", A, B, Matching())), Number(2))),
        ("-a offset 1m", Unary("-", Selector("a", (name("a"),), Shift(MINUTE)))),
        ("+a", Unary("+", A)),
    ],
)
def test_operators_bind_as_in_prometheus(text: str, tree: Expr) -> None:
    assert parse(text) == tree


def test_set_operators_are_many_to_many_and_bind_last() -> None:
    many = Matching(Cardinality.MANY_TO_MANY)
    inner = Binary("and", B, Binary("==", C, D, Matching()), many)
    assert parse("a or b and c == d") == Binary("or", A, inner, many)
    assert parse("a AND b Unless c").op == "unless"


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("a + on (x, y) b", Matching(on=True, labels=("x", "y"))),
        ("a + ignoring () b", Matching()),
        ("a + on () b", Matching(on=True)),
        ("a + on (x) group_left b", Matching(Cardinality.MANY_TO_ONE, True, ("x",))),
        ("a + ignoring (x) group_right (y,) b", Matching(Cardinality.ONE_TO_MANY, False, ("x",), ("y",))),
        ("a + fill(5) b", Matching(fill_left=5.0, fill_right=5.0)),
        (
            "a + on(x) fill_right (-1m) fill_left(0) b",
            Matching(on=True, labels=("x",), fill_left=0, fill_right=-60),
        ),
        ('a + on ("é.x") b', Matching(on=True, labels=("é.x",))),
    ],
)
def test_matching_of_vectors(text: str, matching: Matching) -> None:
    assert parse(text) == Binary("+", A, B, matching)


def test_an_operator_with_a_scalar_side_has_no_matching() -> None:
    assert parse("a > bool 1") == Binary(">", A, Number(1), None, return_bool=True)
    assert parse("1 == bool 1") == Binary("==", Number(1), Number(1), None, return_bool=True)
    assert parse("(1) + -scalar(a)").matching is None


def test_selectors_keep_the_order_of_matchers_and_the_name_last() -> None:
    found = parse("""foo{b="1", 'a b'!="2", c=~"x|y", d!~`\\d`}""")
    assert found == Selector(
        "foo",
        (
            Matcher("b", MatchOp.EQUAL, "1"),
            Matcher("a b", MatchOp.NOT_EQUAL, "2"),
            Matcher("c", MatchOp.REGEX, "x|y"),
            Matcher("d", MatchOp.NOT_REGEX, "\\d"),
            name("foo"),
        ),
    )


def test_a_quoted_name_is_a_matcher_only() -> None:
    assert parse('{"my.metric", a="b"}') == Selector(
        "", (name("my.metric"), Matcher("a", MatchOp.EQUAL, "b"))
    )
    assert parse_selector("{'x'}") == (name("x"),)


@pytest.mark.parametrize(
    "word", ["sum", "by", "offset", "fill", "step", "start", "and", "smoothed", "without", "topk"]
)
def test_keywords_are_metric_names_where_nothing_else_fits(word: str) -> None:
    assert parse(f"{word} + {word}") == Binary("+", metric(word), metric(word), Matching())
    assert parse(f'{word}{{a="b"}}').name == word


@pytest.mark.parametrize("word", ["bool", "on", "ignoring", "group_left", "group_right", "atan2"])
def test_some_keywords_are_never_metric_names(word: str) -> None:
    with pytest.raises(PromParseError):
        parse(word)


def test_keywords_are_label_names() -> None:
    found = parse('sum without(and, by, on, offset, sum) (up{by="1", nan="2", start="3"})')
    assert found.grouping == ("and", "by", "on", "offset", "sum")
    assert [matcher.name for matcher in found.expr.matchers] == ["by", "nan", "start", "__name__"]


def test_shifts_belong_to_the_selector_inside_a_range() -> None:
    shifted = Selector("a", (name("a"),), Shift(-5 * MINUTE, 10_500))
    assert (
        parse("a[1h] @ 10.5 offset -5m") == parse("a[1h] offset -5m @ 10.5") == Matrix(shifted, 60 * MINUTE)
    )
    assert parse("a @ start()").shift == Shift(0, Edge.START)
    assert parse("a[1m] smoothed @ END()").selector == Selector(
        "a", (name("a"),), Shift(0, Edge.END), Reach.SMOOTHED
    )


def test_subqueries_keep_their_own_shift() -> None:
    tree = Subquery(Paren(Binary("+", A, Number(1))), 60 * MINUTE, 5 * MINUTE, Shift(MINUTE))
    assert parse("(a + 1)[1h:5m] offset 1m") == tree
    assert parse("a[1h:]") == Subquery(A, 60 * MINUTE, None)
    nested = "max_over_time(a[1h:])[2h:1]"
    assert parse(nested) == Subquery(
        Call("max_over_time", (Subquery(A, 60 * MINUTE, None),)), 120 * MINUTE, 1000
    )


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("a offset 90", 90_000),
        ("a offset -1h30m", -5_400_000),
        ("a offset +1.5", 1_500),
        ("a offset -(5)", DurationCall("neg", (DurationCall("paren", (DurationNumber(5, False),)),))),
        ("a offset step()", DurationCall("step", ())),
        ("a offset -(step())", DurationCall("neg", (DurationCall("paren", (DurationCall("step", ()),)),))),
        ("a offset (5s + 5s)", DurationCall("paren", (DurationCall("+", (SECONDS_5, SECONDS_5)),))),
        ("a offset --5s", 5_000),
        ("a offset max_of(5s, range())", DurationCall("max", (SECONDS_5, DurationCall("range", ())))),
    ],
)
def test_offsets(text: str, offset: object) -> None:
    assert parse(text).shift.offset == offset


def test_only_one_operand_belongs_to_an_offset() -> None:
    shifted = Selector("a", (name("a"),), Shift(5_000))
    assert parse("a offset 5s - 8") == Binary("-", shifted, Number(8))
    assert parse("a offset 5s - b") == Binary("-", shifted, B, Matching())
    assert parse("a offset -1 ^ 2").op == "^"
    assert parse("a offset step() * 2").op == "*"
    # a parenthesis first, and all is arithmetic on durations
    assert isinstance(parse("a offset (5s) - 8").shift.offset, DurationCall)


def test_arithmetic_in_brackets() -> None:
    two = DurationNumber(2, False)
    power = DurationCall("^", (two, two))
    assert parse("a[-2 ^ 2]").range == DurationCall("neg", (power,))
    assert parse("a[5s + 5s * 2]").range == DurationCall(
        "+", (SECONDS_5, DurationCall("*", (SECONDS_5, two)))
    )
    assert parse("a[2 ^ 2 ^ 2]").range == DurationCall("^", (two, power))
    assert parse("a[((5s))]").range == DurationCall("paren", (SECONDS_5,))


def test_aggregations() -> None:
    assert parse("SUM(a)") == Aggregate("sum", A)
    assert parse("sum by (x, y,) (a)") == parse("sum(a) by (x, y)") == Aggregate("sum", A, None, ("x", "y"))
    assert parse("topk without () (3, a)") == Aggregate("topk", A, Number(3), (), without=True)
    assert parse('count_values("v", a)') == Aggregate("count_values", A, Text("v"))


def test_calls_and_literals() -> None:
    assert parse("rate(a[1m])") == Call("rate", (Matrix(A, MINUTE),))
    assert parse("time()") == Call("time", ())
    assert parse("-5m") == Number(-300, True)
    assert parse("- + -1") == Number(1)
    assert parse("-(1)") == Unary("-", Paren(Number(1)))
    assert parse("'it\\'s'") == Text("it's")


def test_comments_and_blank_lines_are_nothing() -> None:
    assert parse("# all\n a # here\n\t+\r\n b{ # inside\n}") == Binary("+", A, B, Matching())


def test_every_part_knows_its_place() -> None:
    text = "sum(rate(a[5m] offset 1m)) by (x)\n + -b{c='d'} > 2 * step()"
    spans = {type(one).__name__ + text[slice(*one.span)] for one in walk(parse(text))}
    assert {
        "Aggregate" + text[:33],
        "Callrate(a[5m] offset 1m)",
        "Matrixa[5m] offset 1m",
        "Selectora",
        "Unary-b{c='d'}",
        "Selectorb{c='d'}",
        "Binary2 * step()",
        "Callstep()",
        "Binary" + text,
    } <= spans
    assert parse("{x='ü'}[5m]").span == Span(0, 11)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 + 2", Type.SCALAR),
        ("-(1)", Type.SCALAR),
        ("1 + a", Type.VECTOR),
        ("scalar(a) ^ time()", Type.SCALAR),
        ("sum(a)", Type.VECTOR),
        ("a[5m]", Type.MATRIX),
        ("(a[5m:])", Type.MATRIX),
        ("'x'", Type.STRING),
        ("vector(1)", Type.VECTOR),
    ],
)
def test_types(text: str, kind: Type) -> None:
    assert type_of(parse(text)) == kind


def test_variadic_signatures() -> None:
    assert FUNCTIONS["round"].signature.type_of_argument(1) == Type.SCALAR
    assert FUNCTIONS["label_join"].signature.type_of_argument(9) == Type.STRING
    assert FUNCTIONS["rate"].signature.type_of_argument(1) is None
    assert FUNCTIONS["pi"].signature.type_of_argument(0) is None


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("promql-experimental-functions", "mad_over_time(a[5m])"),
        ("promql-experimental-functions", "limitk(1, a)"),
        ("promql-experimental-functions", "step()"),
        ("promql-extended-range-selectors", "rate(a[5m] anchored)"),
        ("promql-binop-fill-modifiers", "a + fill(0) b"),
    ],
)
def test_optional_parts_need_their_feature(flag: str, text: str) -> None:
    with pytest.raises(PromParseError, match=r"not enabled|must be enabled"):
        parse(text, STABLE_FEATURES)
    assert parse(text, Features.from_flags([flag])) == parse(text)


@pytest.mark.parametrize(
    "text", ["a[5m + 1m]", "a offset -step()", "a[max_of(1m, step())]", "first_over_time(a[5m])"]
)
def test_what_became_stable_needs_no_feature(text: str) -> None:
    assert parse(text, STABLE_FEATURES) == parse(text, Features.from_flags(["promql-duration-expr"]))


def test_unknown_features_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="promql-wishes"):
        Features.from_flags(["promql-wishes"])


@settings(max_examples=100, deadline=None)
@given(VECTORS)
def test_what_is_built_as_a_vector_parses_as_one(text: str) -> None:
    tree = parse(text)
    assert type_of(tree) == Type.VECTOR
    assert all(0 <= one.span.start < one.span.end <= len(text) for one in walk(tree))


@settings(max_examples=100, deadline=None)
@given(SOUPS)
def test_anything_else_is_refused_with_a_place_in_the_text(text: str) -> None:
    try:
        parse(text)
    except PromParseError as refused:
        error = refused
    else:
        return
    assert 0 <= error.span[0] <= error.span[1] <= len(text)
    assert ": parse error: " in str(error)


def test_the_corpora_of_prometheus(corpora: Path) -> None:
    found = json.loads((corpora / "parse" / "promql_parse.json").read_text())
    scripts = sorted((corpora / "promqltest").glob("*.test"))
    assert len(found["valid"]) > 100
    assert len(scripts) > 10
    for text in found["valid"] + [text for script in scripts for text, _ in cases(script)]:
        parse(text)
    for text in found["invalid"]:
        with pytest.raises(PromParseError):
            parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a" + ")" * 10_000,
        "-" * 10_000 + "a",
        "sum(" * 10_000,
        " or ".join(["a"] * 10_000),
        "^".join(["2"] * 10_000),
        "a[" + "(" * 10_000,
        "a[" + "+".join(["1"] * 10_000) + "]",
    ],
    ids=["parens", "signs", "calls", "chain", "powers", "durations", "sums of durations"],
)
def test_what_is_too_deep_is_refused_and_not_a_crash(text: str) -> None:
    with pytest.raises(PromParseError, match="nested more than 500 levels"):
        parse(text)


def test_what_is_deep_but_allowed_parses() -> None:
    chain = parse(" or ".join(["a"] * 490))
    assert sum(1 for _ in walk(chain)) == 490 + 489
    assert type_of(parse("(" * 490 + "1" + ")" * 490)) == Type.SCALAR


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(PromParseError, match="too long"):
        parse('a{b="' + "x" * (1 << 20) + '"}')
