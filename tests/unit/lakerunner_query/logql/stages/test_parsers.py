"""What parsers make of lines and of labels that are there already; checked against a running Loki."""

from __future__ import annotations

import pytest

from lakerunner_query.errors import ParseError
from tests.support.query.logql.frames import labels, passing

OBJECT_ERROR = "Value looks like object, but can't find closing '}' symbol"


def json_error(details: str) -> dict[str, str]:
    return {"__error__": "JSONParserErr", "__error_details__": details}


def test_json_keeps_the_fields_before_a_mistake() -> None:
    assert labels("| json", '{"a":1,"b" 2}') == [{"a": "1"} | json_error("Malformed JSON error")]
    assert labels("| json", '{"a":1') == [
        {"a": "1"} | json_error("Value is array, but can't find closing ']' symbol")
    ]


def test_json_numbers_stay_as_they_are_written() -> None:
    assert labels("| json", '{"a":1.50e3,"b":-0,"c":00012}') == [{"a": "1.50e3", "b": "-0", "c": "00012"}]


def test_a_string_with_a_broken_escape_is_empty_and_no_error() -> None:
    assert labels("| json", '{"a":"\\q","b":"\\ud800"}') == [{"a": "", "b": ""}]


def test_what_was_no_utf8_becomes_a_space() -> None:
    assert labels("| json", '{"a":"x\ufffdy"}') == [{"a": "x y"}]
    assert labels("| logfmt", "a=x\ufffdy") == [{"a": "x y"}]
    assert labels('| logfmt a="a"', "a=x\ufffdy") == [{"a": ""}]


def test_parsed_labels_give_way_to_those_of_stream_and_metadata() -> None:
    line = '{"app":"p","app_extracted":"z","m":"p"}'
    (found,) = labels("| json", line, stream={"app": "s"}, metadata={"m": "meta"})
    assert found == {"app": "s", "app_extracted": "p", "m": "meta", "m_extracted": "p"}


@pytest.mark.parametrize(
    ("before", "left"),
    [
        ("| drop app", {"app_extracted": "p", "m": "meta", "m_extracted": "q"}),
        ("| keep m", {"app_extracted": "p", "m": "meta", "m_extracted": "q"}),
        ("| drop m", {"app": "s", "app_extracted": "p", "m": "q"}),
        ('| label_format app="new"', {"app": "new", "app_extracted": "p", "m": "meta", "m_extracted": "q"}),
    ],
)
def test_a_stream_label_keeps_its_name_even_when_it_is_gone(before: str, left: dict[str, str]) -> None:
    line = '{"app":"p","m":"q"}'
    assert labels(f"{before} | json", line, stream={"app": "s"}, metadata={"m": "meta"}) == [left]


@pytest.mark.parametrize("second", ["json", "logfmt", "regexp `(?P<a>.)`", "pattern `<a>`", "unpack"])
def test_a_second_parser_leaves_what_the_first_has_found(second: str) -> None:
    query = f"| json | line_format `{{{{.b}}}}` | {second} | drop b, __error__, __error_details__"
    assert labels(query, '{"a":"1","b":"a=2"}') == [{"a": "1"}]


@pytest.mark.parametrize("taken", ["drop a", "keep b", "label_format c=a | drop c"])
def test_a_parsed_label_that_was_taken_away_does_not_come_back(taken: str) -> None:
    assert labels(f"| json | {taken} | json | drop b", '{"a":"1","b":"2"}') == [{}]


def test_extractions_overwrite_what_was_parsed() -> None:
    assert labels('| json | json a="b"', '{"a":1,"b":2}') == [{"a": "2", "b": "2"}]
    assert labels('| json | json a="zz"', '{"a":1}') == [{"a": "1"}]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b[1].c", "x"), ("a.b[0]", "7"), ("a.b[9]", ""), ("a.b", '[7,{"c":"x"}]'), ('["a"]["q r"]', "é"),
        ("a.n", ""), ("a", None), ("z", ""), ("[0]", ""),
    ],
)  # fmt: skip
def test_paths_lead_to_values(path: str, value: str | None) -> None:
    line = '{"a":{"b":[7,{"c":"x"}],"q r":"\\u00e9","n":null}}'
    (found,) = labels(f"| json x=`{path}`", line)
    assert found == {"x": line[5:-1] if value is None else value}


def test_json_paths_do_not_mind_what_is_broken_elsewhere() -> None:
    assert labels('| json x="x"', '{"a":tru,"b" 2,"x":5') == [{"x": "5"}]
    assert labels('| json x="x"', '{"x":tru}') == [{"x": ""} | json_error("Unknown value type")]
    assert labels('| json x="x"', "broken", "", '"q"') == [{"__error__": "JSONParserErr"}, {}, {"x": ""}]


def test_logfmt_keys_count_by_the_label_too_and_the_last_wins() -> None:
    query = '| logfmt x="a"'
    assert labels(query, "x=9 a=1", "a=1 x=9", "a=1 a=2", "b=1", "a=1 a=") == [
        {"x": "1"}, {"x": "9"}, {"x": "2"}, {"x": ""}, {"x": ""},
    ]  # fmt: skip
    assert labels('| logfmt | logfmt a="zz"', "b=1", "a=2") == [{"a": "", "b": "1"}, {"a": "2"}]
    assert labels('| json | logfmt a="zz"', '{"a":1}') == [{"a": ""}]
    assert labels(query, "x=9 a=1", stream={"x": "s"}) == [{"x": "s", "x_extracted": "9"}]


def test_unpack_wants_an_entry_and_takes_the_last_of_each() -> None:
    packed = '{"a":"1","n":1,"o":{"p":"q"},"_entry":"x","_entry":"y","a":"2"}'
    assert labels("| unpack", packed, '{"a":"1"}', "") == [{"a": "2"}, {}, {}]
    assert passing("| unpack", packed, '{"a":"1"}') == ["y", '{"a":"1"}']
    assert labels("| unpack", ' {"_entry":"x"}') == [json_error("expecting json object(6), but it is not")]


def test_groups_that_take_no_part_are_empty() -> None:
    assert labels(r"| regexp `(?P<a>\w+)( (?P<b>\d+))?`", "x", "x 1", "") == [
        {"a": "x", "b": ""}, {"a": "x", "b": "1"}, {},
    ]  # fmt: skip


def test_unnamed_groups_and_brackets_in_classes_are_no_names() -> None:
    assert labels(r"| regexp `([(]|\()(?P<a>[^()]+)\)(?:x|(y))`", "(ab)y") == [{"a": "ab"}]


@pytest.mark.parametrize("query", ["| regexp `(`", "| regexp `a`", "| pattern `a`", "| pattern `<a><b>`"])
def test_parsers_that_can_find_nothing_are_refused(query: str) -> None:
    with pytest.raises(ParseError):
        labels(query, "x")


def test_colours_go() -> None:
    assert passing("| decolorize", "x\x1b[31mred\x1b[0m y", "plain") == ["xred y", "plain"]
