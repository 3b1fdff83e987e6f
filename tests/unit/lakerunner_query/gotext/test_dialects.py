"""One scanner of string literals and one parser of durations: where the dialects differ, and where not."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.gotext.durations import GO as GO_DURATIONS
from lakerunner_query.gotext.durations import PROMETHEUS, UNITS, go_nanoseconds, range_nanoseconds
from lakerunner_query.gotext.numbers import ConversionError, format_float, parse_float, parse_integer
from lakerunner_query.gotext.strconv import GO, LOGQL, PROMQL, Dialect, UnquoteError, quote_bytes


@pytest.mark.parametrize(
    ("text", "go", "promql", "logql"),
    [
        ("a'b", '"a\'b"', '"a\'b"', '"a\'b"'),
        ('"\\\n', r'"\"\\\n"', r'"\"\\\n"', r'"\"\\\n"'),
        ("\x00\x7f", r'"\x00\x7f"', r'"\x00\x7f"', r'"\x00\x7f"'),
        ("\x85\u200b", r'"\u0085\u200b"', r'"\u0085\u200b"', '"\x85\u200b"'),
        ("\ufffd", '"\ufffd"', r'"\ufffd"', r'"\ufffd"'),
        ("\udcff", r'"\xff"', r'"\xff"', '"\udcff"'),
        ("\U000e0001", r'"\U000e0001"', r'"\U000e0001"', '"\U000e0001"'),
    ],
)
def test_quoting(text: str, go: str, promql: str, logql: str) -> None:
    assert (GO.quote(text), PROMQL.quote(text), LOGQL.quote(text)) == (go, promql, logql)


@pytest.mark.parametrize(
    ("literal", "go", "promql", "logql"),
    [
        (r'"\xff"', "\udcff", "\udcff", None),
        ("`a\r\n`", "a\n", "a\r\n", "a\n"),
        ('"a\nb"', None, "a\nb", "a\nb"),
        (r'"\'"', None, None, None),
        (r'"\400"', None, None, None),
        (r'"\ud800"', None, None, None),
        (r'"\u00e9\101\x42"', "éAB", "éAB", "éAB"),
    ],
)
def test_unquoting(literal: str, go: str | None, promql: str | None, logql: str | None) -> None:
    assert tuple(value_of(dialect, literal) for dialect in (GO, PROMQL, LOGQL)) == (go, promql, logql)


def value_of(dialect: Dialect, literal: str) -> str | None:
    try:
        return dialect.unquote(literal)
    except UnquoteError:
        return None


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_dialect_reads_what_it_writes(text: str) -> None:
    assert all(dialect.unquote(dialect.quote(text)) == text for dialect in (GO, PROMQL, LOGQL))


@given(st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"])))
def test_bytes_are_quoted_one_by_one(text: str) -> None:
    assert quote_bytes(text) == '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["h", "m", "s", "ms"])), max_size=4))
def test_both_notations_agree_on_what_both_can_write(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    order = [list(UNITS).index(unit) for _, unit in parts]
    found = go_nanoseconds(text)
    if not parts or order != sorted(set(order)):
        with pytest.raises(ConversionError):
            range_nanoseconds(text)
    else:
        assert found == range_nanoseconds(text) == PROMETHEUS.parse(text)


@pytest.mark.parametrize(
    ("text", "go", "prometheus"),
    [
        ("", 'time: invalid duration ""', 'not a valid duration string: ""'),
        ("5", 'time: missing unit in duration "5"', 'not a valid duration string: "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"', 'unknown unit "x" in duration "5x"'),
        ("1.d", 'time: unknown unit "d" in duration "1.d"', 'unknown unit ".d" in duration "1.d"'),
        ("300000000000h", 'time: invalid duration "300000000000h"', "duration out of range"),
        (
            "99999999999999999999h",
            'time: invalid duration "99999999999999999999h"',
            'not a valid duration string: "99999999999999999999h"',
        ),
    ],
)
def test_faults_of_durations(text: str, go: str, prometheus: str) -> None:
    for notation, message in ((GO_DURATIONS, go), (PROMETHEUS, prometheus)):
        with pytest.raises(ConversionError) as error:
            notation.parse(text)
        assert str(error.value) == message


@pytest.mark.parametrize(
    "text", ["1" * 10_000 + "s", "0." + "1" * 10_000 + "s", "0x1p99999", "-9223372036854775808ns"]
)
def test_huge_values_are_answered_not_crashed_on(text: str) -> None:
    for read in (GO_DURATIONS.parse, parse_float, parse_integer):
        with suppress(ConversionError):
            assert read(text) != 0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_from_either_form(value: float) -> None:
    assert parse_float(format_float(value)) == value == parse_float(format_float(value, "f"))
