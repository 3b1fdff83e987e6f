"""Numbers, durations and strings against what Python makes of the same notation."""

from __future__ import annotations

import ast
import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.errors import PromParseError
from lakerunner_query.gotext import durations, numbers
from lakerunner_query.gotext.durations import UNITS
from lakerunner_query.gotext.strconv import PROMQL, quote_char
from lakerunner_query.promql.lang.lexer import END, Lexer, Token


def tokens(text: str) -> list[Token]:
    lexer = Lexer(text)
    found = [lexer.next()]
    while found[-1].kind != END:
        found.append(lexer.next())
    return found[:-1]


@given(st.floats(0, allow_nan=False, allow_infinity=False))
def test_decimal_numbers(value: float) -> None:
    for written in (repr(value), f"{value:e}", f"{value:.25f}"):
        (token,) = tokens(written)
        assert numbers.read_number(token.text) == float(written)


@given(st.integers(0, 2**63 - 1))
def test_whole_numbers(value: int) -> None:
    assert (
        numbers.read_number(hex(value))
        == numbers.read_number(f"0{value:o}")
        == numbers.read_number(f"{value:_}")
        == float(value)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0755", 493),
        ("089", 89),
        ("08.5", 8.5),
        ("0_7", 7),
        ("0x_1F", 31),
        ("1_0e1_0", 10e10),
        ("9223372036854775808", 2.0**63),
        ("0" * 5_000 + "7", 7),
        ("Inf", math.inf),
        ("iNf", math.inf),
    ],
)
def test_numbers_gos_way(text: str, value: float) -> None:
    assert numbers.read_number(text) == value


@pytest.mark.parametrize(
    "text", ["1_", "_1", "1__0", "0x", "0x1.8", "1e400", "0x" + "f" * 17, "9" * 5_000, "1_.5"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(numbers.ConversionError, match=r"strconv\.ParseFloat"):
        numbers.read_number(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_printed_exactly_and_without_exponent(value: float) -> None:
    printed = numbers.format_float(value, "f")
    assert float(printed) == value
    assert "e" not in printed
    assert float(numbers.format_float(value)) == value


@pytest.mark.parametrize(
    ("value", "plain", "general"),
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (999_999.0, "999999", "999999"),
        (1e6, "1000000", "1e+06"),
        (1.25e-5, "0.0000125", "1.25e-05"),
        (1e100, "1" + "0" * 100, "1e+100"),
        (math.inf, "+Inf", "+Inf"),
        (-math.inf, "-Inf", "-Inf"),
        (math.nan, "NaN", "NaN"),
    ],
)
def test_number_texts(value: float, plain: str, general: str) -> None:
    assert (numbers.format_float(value, "f"), numbers.format_float(value)) == (plain, general)


@given(st.lists(st.integers(0, 30), min_size=len(UNITS), max_size=len(UNITS)))
def test_durations_add_up(counts: list[int]) -> None:
    written = "".join(f"{count}{unit}" for count, unit in zip(counts, UNITS, strict=True))
    year, week, day, hour, minute, second, milli = counts
    length = timedelta(365 * year + 7 * week + day, second, 0, milli, minute, hour)
    assert durations.milliseconds(written) == length / timedelta(milliseconds=1)
    printed = durations.text(durations.milliseconds(written))
    assert durations.milliseconds(printed) == durations.milliseconds(written)


@pytest.mark.parametrize(
    ("value_ms", "printed"),
    [
        (0, "0s"),
        (-90_000, "-1m30s"),
        (8 * 86_400_000, "8d"),
        (14 * 86_400_000, "2w"),
        (730 * 86_400_000, "2y"),
    ],
)
def test_duration_texts(value_ms: int, printed: str) -> None:
    assert durations.text(value_ms) == printed


@pytest.mark.parametrize("text", ["1m1h", "1h1h", "1x", "5", "", "292y278d", f"{2**64}ms", ".5m", "1.5h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(numbers.ConversionError):
        durations.milliseconds(text)


def test_seconds_are_cut_to_milliseconds_after_rounding_to_nanoseconds() -> None:
    assert durations.from_seconds(1.0009999999) == 1_001
    assert durations.from_seconds(1.0009) == 1_000
    assert durations.from_seconds(-1.0009) == -1_000


@given(st.text().filter(lambda s: "\ufffd" not in s))
def test_quoting_comes_back(value: str) -> None:
    for literal in (
        PROMQL.quote(value),
        "'" + PROMQL.quote(value)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'",
    ):
        (token,) = tokens(literal)
        assert PROMQL.unquote(token.text) == value


@given(st.binary())
def test_bytes_that_are_not_utf8_come_back(raw: bytes) -> None:
    literal = '"' + "".join(f"\\x{byte:02x}" for byte in raw) + '"'
    assert PROMQL.unquote(literal).encode(errors="surrogateescape") == raw
    assert PROMQL.unquote(PROMQL.quote(PROMQL.unquote(literal))) == PROMQL.unquote(literal)


@given(st.text("abnrtv\\x0417'fué", max_size=8))
def test_escapes_mean_what_python_says(body: str) -> None:
    literal = f'"{body}"'
    try:
        (token,) = tokens(literal)
        expected = ast.literal_eval(literal)
    except (PromParseError, ValueError, SyntaxError):
        return
    if all(ord(char) < 128 for char in expected):
        assert PROMQL.unquote(token.text) == expected


def test_a_raw_string_takes_everything_but_its_quote() -> None:
    (token,) = tokens("`a\\n\"'\n\\`")
    assert PROMQL.unquote(token.text) == "a\\n\"'\n\\"


def test_characters_in_messages() -> None:
    assert [quote_char(char) for char in ("'", '"', "\n", "é", "\u200b", "", "\udcff")] == [
        r"'\''",
        "'\"'",
        r"'\n'",
        "'é'",
        r"'\u200b'",
        "'\ufffd'",
        "'\ufffd'",
    ]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("fill + fill (x", ["identifier", "+", "fill", "(", "identifier"]),
        ("a{by=~'x'}by", ["identifier", "{", "identifier", "=~", "string", "}", "by"]),
        ("5m5 5m", None),
        ("[5m:step()]", ["[", "duration", ":", "step", "(", ")", "]"]),
        ("a:b :c", ["metric identifier", "metric identifier"]),
        ("1e5 1h30m 0x1e .5 5.", ["number", "duration", "number", "number", "number"]),
        ("a#comment\r+#b", ["identifier", "+"]),
    ],
)
def test_words_depend_on_the_brackets_around_them(text: str, kinds: list[str] | None) -> None:
    if kinds is None:
        with pytest.raises(PromParseError, match="bad number or duration"):
            tokens(text)
        return
    found = []
    lexer = Lexer(text)
    while len(found) < len(kinds):
        found.append(lexer.next().kind)
    assert found == kinds
