"""Errors about texts that are not PromQL have Prometheus' words and place."""

from __future__ import annotations

import pytest

from lakerunner_query.errors import ParseError, Position, PromParseError
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.promql.lang.cursor import STABLE_FEATURES, Features
from lakerunner_query.promql.lang.parser import parse, parse_selector

SHIFTABLE = "an instant vector selector or range vector selector or a subquery"
DURATION = "number, duration, step(), or range()"
STEP = 'number, duration, step(), range(), or "]"'
OPERANDS = "scalar and instant vector types"


def said(text: str) -> str:
    with pytest.raises(PromParseError) as error:
        parse(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown position: parse error: no expression found in input"),
        ("# only a comment", "1:1: parse error: no expression found in input"),
        ("1 /", "1:4: parse error: unexpected end of input"),
        ("*test", "1:1: parse error: unexpected <op:*>"),
        ("a b", '1:3: parse error: unexpected identifier "b"'),
        ("a )", "1:4: parse error: unexpected right parenthesis ')'"),
        ("(1))", "1:5: parse error: unexpected right parenthesis ')'"),
        ("((1)", "1:5: parse error: unclosed left parenthesis"),
        ("sum(", "1:5: parse error: unclosed left parenthesis"),
        ("@@", "1:1: parse error: unexpected <op:@>"),
        ("1 offset 1d", f"1:1: parse error: offset modifier must be preceded by {SHIFTABLE}"),
        ("1 @ 5", f"1:1: parse error: @ modifier must be preceded by {SHIFTABLE}"),
        ("a - on(b) ignoring(c) d", "1:11: parse error: unexpected <ignoring>"),
        ("a + on b", '1:8: parse error: unexpected identifier "b" in grouping opts, expected "("'),
        ("a + on(b) group_left == c", '1:22: parse error: unexpected <op:==> in grouping opts, expected "("'),
        (
            "sum by (x y) (a)",
            '1:11: parse error: unexpected identifier "y" in grouping opts, expected "," or ")"',
        ),
        ("sum by (1) (a)", '1:9: parse error: unexpected number "1" in grouping opts, expected label'),
        ("sum by (,) (a)", '1:9: parse error: unexpected "," in grouping opts, expected label'),
        ('sum by ("") (a)', '1:9: parse error: invalid label name for grouping: ""'),
        ("sum(a b)", '1:7: parse error: unexpected identifier "b" in aggregation'),
        ("rate(sum(a b))", '1:12: parse error: unexpected identifier "b" in aggregation'),
        ("sum some_metric by (test)", '1:5: parse error: unexpected identifier "some_metric"'),
        (
            "sum by (test) some_metric",
            '1:15: parse error: unexpected identifier "some_metric" in aggregation',
        ),
        ("foo[5m", "1:7: parse error: unclosed left bracket"),
        ("foo[", "1:5: parse error: unexpected end of input in duration expression"),
        ("foo[]", f'1:5: parse error: unexpected "]" in subquery or range selector, expected {DURATION}'),
        (
            "foo[5m 5m]",
            '1:8: parse error: unexpected duration "5m" in subquery or range, expected ":" or "]"',
        ),
        ("foo[5m:(]", f'1:9: parse error: unexpected "]" in subquery selector, expected {STEP}'),
        ("foo[5m:1m 1]", '1:11: parse error: unexpected number "1" in subquery selector, expected "]"'),
        ("foo[:5m]", "1:6: parse error: unexpected colon before duration in duration expression"),
        ("foo[5m::]", "1:8: parse error: unexpected colon ':'"),
        ('foo["5m"]', "1:5: parse error: unexpected character in duration expression: '\"'"),
        ("foo[5mm]", '1:5: parse error: bad number or duration syntax: "5mm"'),
        ("foo[5y1hs]", '1:5: parse error: unknown unit "hs" in duration "5y1hs"'),
        ("foo[1m1h]", '1:5: parse error: not a valid duration string: "1m1h"'),
        ("foo[300y]", "1:5: parse error: duration out of range"),
        ("foo[0m]", "1:5: parse error: duration must be greater than 0"),
        ("foo[5m:-1]", "1:8: parse error: duration must be greater than 0"),
        ("foo[5m/0]", "1:7: parse error: division by zero"),
        ("foo[5m%0s]", "1:7: parse error: modulo by zero"),
        ("foo[step]", f'1:9: parse error: unexpected "]" in subquery or range selector, expected {DURATION}'),
        ("(a + b)[5m]", "1:8: parse error: ranges only allowed for vector selectors"),
        ("a offset 1m[5m]", "1:12: parse error: no offset modifiers allowed before range"),
        ("a @ 123[5m]", "1:8: parse error: no @ modifiers allowed before range"),
        ("a offset 1m offset 2m", "1:1: parse error: offset may not be set multiple times"),
        ("a @ 1 @ end()", "1:1: parse error: @ <timestamp> may not be set multiple times"),
        ("a @ Inf", "1:1: parse error: timestamp out of bounds for @ modifier: +Inf"),
        ("a @ NaN", "1:1: parse error: timestamp out of bounds for @ modifier: NaN"),
        ("a @ foo", '1:5: parse error: unexpected identifier "foo" in @, expected timestamp'),
        ("a offset", f"1:9: parse error: unexpected end of input in offset, expected {DURATION}"),
        ("a anchored smoothed", "1:1: parse error: anchored and smoothed modifiers cannot be used together"),
        ("a[5m:] smoothed", "1:1: parse error: smoothed modifier is not supported for subqueries"),
        ("1 anchored", "1:1: parse error: anchored modifier not implemented"),
        ("{", "1:2: parse error: unexpected end of input inside braces"),
        ("}", "1:1: parse error: unexpected character: '}'"),
        ("foo{,}", '1:5: parse error: unexpected "," in label matching, expected identifier or "}"'),
        ("foo{a}", '1:6: parse error: unexpected "}" in label matching, expected label matching operator'),
        ("foo{a=b}", '1:7: parse error: unexpected identifier "b" in label matching, expected string'),
        (
            "foo{a='b' c}",
            '1:11: parse error: unexpected identifier "c" in label matching, expected "," or "}"',
        ),
        ("foo{a:b='c'}", "1:6: parse error: unexpected character inside braces: ':'"),
        ("foo{a!b}", "1:6: parse error: unexpected character after '!' inside braces: 'b'"),
        ("foo{{", "1:5: parse error: unexpected left brace '{'"),
        ("1 !~ 1", "1:3: parse error: unexpected character after '!': '~'"),
        ("a =~ b", "1:3: parse error: unexpected character after '=': '~'"),
        ("a = b", '1:3: parse error: unexpected "="'),
        ("a $", "1:3: parse error: unexpected character: '$'"),
        ('"\\c"', "1:1: parse error: unknown escape sequence U+0063 'c'"),
        ('"\\x.."', "1:1: parse error: illegal character U+002E '.' in escape sequence"),
        ('"\\400"', "1:1: parse error: escape sequence is an invalid Unicode code point"),
        ('"\\ud800"', "1:1: parse error: escape sequence is an invalid Unicode code point"),
        ('"\\u12', "1:1: parse error: escape sequence not terminated"),
        ('"a\nb"', "1:1: parse error: unterminated quoted string"),
        ("`a", "1:1: parse error: unterminated raw string"),
        ('"\ufffd"', "1:1: parse error: invalid UTF-8 rune"),
        ("100..4", '1:1: parse error: bad number or duration syntax: "100.."'),
        ("0xee", '1:1: parse error: bad number or duration syntax: "0xee"'),
        ("1__0", '1:1: parse error: bad number or duration syntax: "1__"'),
        (
            ".5.5",
            '1:1: parse error: error parsing number: strconv.ParseFloat: parsing ".5.5": invalid syntax',
        ),
        (
            "1e999",
            '1:1: parse error: error parsing number: strconv.ParseFloat: parsing "1e999": value out of range',
        ),
        ("nope()", '1:1: parse error: unknown function with name "nope"'),
        ("RATE(a[5m])", '1:1: parse error: unknown function with name "RATE"'),
        ("rate(a,)", "1:7: parse error: trailing commas not allowed in function call args"),
        (
            "topk(1)",
            "1:1: parse error: wrong number of arguments for aggregate expression provided, "
            "expected 2, got 1",
        ),
        ("sum()", "1:1: parse error: no arguments for aggregate expression provided"),
        ("a:b(c)", '1:4: parse error: unexpected "("'),
    ],
)
def test_syntax(text: str, message: str) -> None:
    assert said(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rate(a)",
            '1:6: parse error: expected type range vector in call to function "rate", got instant vector',
        ),
        (
            "abs(a[5m])",
            '1:5: parse error: expected type instant vector in call to function "abs", got range vector',
        ),
        (
            "label_join(a, 1, 'x')",
            '1:15: parse error: expected type string in call to function "label_join", got scalar',
        ),
        ("floor()", '1:1: parse error: expected 1 argument(s) in call to "floor", got 0'),
        ("round(a, 1, 2)", '1:1: parse error: expected at most 2 argument(s) in call to "round", got 3'),
        (
            "label_join(a, 'b')",
            '1:1: parse error: expected at least 3 argument(s) in call to "label_join", got 2',
        ),
        ("sum(1)", "1:5: parse error: expected type instant vector in aggregation expression, got scalar"),
        ("topk(a, b)", "1:6: parse error: expected type scalar in aggregation parameter, got instant vector"),
        (
            "count_values(1, b)",
            "1:14: parse error: expected type string in aggregation parameter, got scalar",
        ),
        ("1 ==  1", "1:3: parse error: comparisons between scalars must use BOOL modifier"),
        ("foo  + bool 10", "1:6: parse error: bool modifier can only be used on comparison operators"),
        ("1 or 1", '1:1: parse error: set operator "or" not allowed in binary scalar expression'),
        ("foo and 1", '1:1: parse error: set operator "and" not allowed in binary scalar expression'),
        ("1 or on(bar) foo", "1:1: parse error: vector matching only allowed between instant vectors"),
        ("1 + fill(0) a", "1:1: parse error: filling in missing series only allowed between instant vectors"),
        ("a or fill(0) b", "1:1: parse error: filling in missing series not allowed for set operators"),
        ("a and on(x) group_left b", '1:1: parse error: no grouping allowed for "and" operation'),
        (
            "a + on(x, y) group_left(y) b",
            '1:3: parse error: label "y" must not occur in ON and GROUP clause at once',
        ),
        ("a + 'b'", f"1:5: parse error: binary expression must contain only {OPERANDS}"),
        (
            "-'b'",
            "1:1: parse error: unary expression only allowed on expressions of type "
            'scalar or instant vector, got "string"',
        ),
        ("rate(a[1m])[5m:] + a[5m]", f"1:1: parse error: binary expression must contain only {OPERANDS}"),
        ("1[5m:]", "1:1: parse error: subquery is only allowed on instant vector, got scalar instead"),
        ("(a[5m])[5m:]", "1:1: parse error: subquery is only allowed on instant vector, got matrix instead"),
        ("foo{__name__='bar'}", '1:1: parse error: metric name must not be set twice: "foo" or "bar"'),
        ("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        (
            "1 + {x=~'.*', y!='a'}",
            "1:5: parse error: vector selector must contain at least one non-empty matcher",
        ),
        ("info(a, b)", "1:9: parse error: expected label selectors only, got vector selector instead"),
        ("info(a, {x='y'} + 1)", "1:9: parse error: expected label selectors only"),
        (
            "info(a, 1)",
            '1:1: parse error: expected type instant vector in call to function "info", got scalar',
        ),
    ],
)
def test_types_and_modifiers(text: str, message: str) -> None:
    assert said(text) == message


def test_info_takes_matchers_that_match_everything() -> None:
    assert parse("info(a, {})").arguments[1].matchers == ()


def test_the_first_of_several_errors_is_told() -> None:
    assert said("nope() $").endswith('unknown function with name "nope"')
    assert said("sum() $").endswith("unexpected character: '$'")
    assert said("rate(a) b").startswith("1:9:")


def test_the_place_counts_lines_and_bytes_and_for_editors_characters() -> None:
    with pytest.raises(ParseError) as error:
        parse("a +\n {'é'} $")
    assert str(error.value) == "2:9: parse error: unexpected character: '$'"
    assert error.value.position == Position(2, 8)
    assert error.value.status == 400
    assert isinstance(error.value, PromParseError)
    assert error.value.reason == "unexpected character: '$'"
    assert error.value.span[0] == 11


@pytest.mark.parametrize(
    ("features", "text", "message"),
    [
        (
            STABLE_FEATURES,
            "sort_by_label(a, 'x')",
            '1:1: parse error: function "sort_by_label" is not enabled',
        ),
        (
            STABLE_FEATURES,
            "limitk(1, a)",
            "1:1: parse error: limitk() is experimental and must be enabled with "
            "--enable-feature=promql-experimental-functions",
        ),
        (
            STABLE_FEATURES,
            "a[5m] smoothed",
            "1:1: parse error: smoothed modifier is experimental and not enabled",
        ),
        (
            STABLE_FEATURES,
            "b + a + fill(1) c",
            "1:1: parse error: binop fill modifiers are experimental and not enabled",
        ),
        (
            Features(fill_modifiers=False),
            "mad_over_time(a)",
            "1:15: parse error: expected type range vector in call ",
        ),
    ],
)
def test_parts_that_are_switched_off(features: Features, text: str, message: str) -> None:
    with pytest.raises(PromParseError) as error:
        parse(text, features)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(b", "missing closing ): `a(b`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("\\z\\Z", "invalid escape sequence: `\\Z`"),
        ("\\C", "invalid escape sequence: `\\C`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("\udcff", "invalid UTF-8: `\udcff`"),
    ],
)
def test_patterns_are_judged_in_gos_words(pattern: str, message: str) -> None:
    assert complaint(pattern) == f"error parsing regexp: {message}"


def test_a_bad_pattern_is_placed_at_its_matcher() -> None:
    assert said("foo{x='y', a=~'b('}") == "1:12: parse error: error parsing regexp: missing closing ): `b(`"
    assert complaint("\\Q\\C\\E|\\\\C") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown position: parse error: unexpected end of input"),
        ("a[5m]", '1:2: parse error: unexpected "["'),
        ("a + b", "1:3: parse error: unexpected <op:+>"),
        ("{a=}", '1:4: parse error: unexpected "}" in label matching, expected string'),
        ("sum(a)", '1:4: parse error: unexpected "("'),
    ],
)
def test_a_matcher_parameter_is_a_selector_and_nothing_else(text: str, message: str) -> None:
    with pytest.raises(PromParseError) as error:
        parse_selector(text)
    assert str(error.value) == message
