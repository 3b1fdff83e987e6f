"""Filters on lines and labels, and what becomes of rows that have an error; as a running Loki has it."""

from __future__ import annotations

import pytest

from tests.support.query.logql.frames import labels, passing


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ('|= "a"', ["a=1", "xa"]),
        ('!= "a"', ["b\nc", ""]),
        ('|= "a" or "c"', ["a=1", "xa", "b\nc"]),
        ('!= "a" or "c"', [""]),
        ('|~ "^a"', ["a=1"]),
        ('|~ "(?i)A"', ["a=1", "xa"]),
        ('|~ "b.c"', []),
        ('|~ "(?s)b.c"', ["b\nc"]),
        ('|~ "a=."', ["a=1"]),
        ('!~ "a|c"', [""]),
        ('|= ""', ["a=1", "xa", "b\nc", ""]),
        ('|> "a=<_>"', ["a=1"]),
        ('|> "x<_>"', ["xa"]),
        ('!> "<_>"', [""]),
        ('|> ""', [""]),
        ('|> "a=1<_>"', []),
        ('|> "<_>a"', ["xa"]),
    ],
)
def test_line_filters(query: str, kept: list[str]) -> None:
    assert passing(query, "a=1", "xa", "b\nc", "") == kept


def test_the_first_literal_of_a_line_pattern_may_stand_anywhere() -> None:
    assert passing('|> "a=<_>"', "x a=1", "x a=") == ["x a=1"]


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("10.0.0.0/8", ["client 10.0.0.7:80"]),
        ("10.0.0.1-10.0.0.9", ["client 10.0.0.7:80"]),
        ("10.0.0.8", []),
        ("::1", ["vpn ::1"]),
        ("2001:db8::/32", ["[2001:db8::5]:80"]),
    ],
)
def test_addresses_in_lines(pattern: str, kept: list[str]) -> None:
    lines = ["client 10.0.0.7:80", "vpn ::1", "[2001:db8::5]:80", "010.0.0.7 10.0.0.7.1", "12:30:45"]
    assert passing(f'|= ip("{pattern}")', *lines) == kept
    assert passing(f'!= ip("{pattern}")', *lines) == [line for line in lines if line not in kept]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("v > 5", [0]),
        ("v >= 5", [0, 1]),
        ("v == 5", [1]),
        ("v != 5", [0]),
        ("v < 6", [1]),
        ('v=""', [3]),
        ('v!="5"', [0, 2, 3]),
        ('v=~"5|10"', [0, 1]),
        ('v=~"."', [1, 2]),
        ('v!~".+"', [3]),
        ('w="z"', [3]),
        ('v > 5 or w="z"', [0, 3]),
        ('(w="" and v < 6) or w="z"', [1, 3]),
    ],
)
def test_conditions(condition: str, rows: list[int]) -> None:
    lines = ["v=10", "v=5", "v=x", "w=z"]
    assert passing(f'| logfmt | {condition} | __error__=""', *lines) == [lines[row] for row in rows]


def test_a_value_that_is_no_number_keeps_the_row_and_says_so() -> None:
    (found,) = labels("| logfmt | v > 5", "v=x", "w=1")
    assert found == {
        "v": "x",
        "__error__": "LabelFilterErr",
        "__error_details__": 'strconv.ParseFloat: parsing "x": invalid syntax',
    }


def test_the_first_error_stays() -> None:
    (found,) = labels("| logfmt | a > 1s and b > 1s", "a=x b=90")
    assert found["__error_details__"] == 'time: invalid duration "x"'
    (found,) = labels("| json | logfmt | a > 1s", "a=1")
    assert found["__error__"] == "JSONParserErr"


def test_a_parser_overwrites_the_error_of_another() -> None:
    (found,) = labels("| json | logfmt --strict", "a=1 a==2")
    assert found["__error_details__"] == "logfmt syntax error at pos 7 : unexpected '='"


def test_or_looks_at_its_right_side_only_where_the_left_fails() -> None:
    (found,) = labels('| logfmt | lvl="error" or took > 1s', "lvl=error took=oops")
    assert "__error__" not in found
    (found,) = labels('| logfmt | took > 1s or lvl="error"', "lvl=error took=oops")
    assert found["__error__"] == "LabelFilterErr"


def test_and_looks_at_both_sides() -> None:
    (found,) = labels('| logfmt | (lvl="info" and took > 1s) or lvl="error"', "lvl=error took=oops")
    assert found["__error__"] == "LabelFilterErr"


def test_addresses_in_labels_keep_rows_with_errors_and_drop_rows_without_the_label() -> None:
    lines = '{"a":"1.2.3.4"}', '{"a":"9.9.9.9"}', '{"b":"1"}', "broken"
    assert passing('| json | a = ip("1.2.3.0/24")', *lines) == [lines[0], lines[3]]
    assert passing('| json | a != ip("1.2.3.0/24")', *lines) == [lines[1], lines[3]]


def test_details_of_errors_are_hidden_from_filters() -> None:
    assert passing('| json | __error_details__!=""', "broken") == []
    assert passing('| json | __error__="JSONParserErr"', "broken", "{}") == ["broken"]


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        ("drop a", {"b": "2"}),
        ('drop a="1"', {"b": "2"}),
        ('drop a="2"', {"a": "1", "b": "2"}),
        ("drop a, b", {}),
        ('drop a=~".+", b="x"', {"b": "2"}),
        ("keep a", {"a": "1"}),
        ('keep a="2", b', {"b": "2"}),
        ('keep a="1", a="2"', {"a": "1"}),
    ],
)
def test_keep_and_drop(stage: str, left: dict[str, str]) -> None:
    assert labels(f"| logfmt | {stage}", "a=1 b=2") == [left]


def test_errors_survive_keep_and_go_with_drop() -> None:
    assert "__error__" in labels("| json | keep a", "broken")[0]
    assert labels("| json | drop __error__", "broken") == [{}]
    assert labels("| json | drop __error_details__", "broken") == [{"__error__": "JSONParserErr"}]
    assert labels('| json | drop __error__="X"', "broken")[0]["__error__"] == "JSONParserErr"
