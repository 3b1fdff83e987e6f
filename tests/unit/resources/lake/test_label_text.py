"""The text of a stream's labels: what is read, what is refused and where, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from resources.lake.label_text import LabelTextError, label_text, parse_labels

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, VALUES, max_size=5))
@example({"a": 'quo"te\\ \n\r\t\x00\x7f \u2028 é 🎈'})
def test_what_is_written_is_read_back(labels: dict[str, str]) -> None:
    assert parse_labels(label_text(labels)) == labels


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("{}", {}),
        (' { a = "b" , } ', {"a": "b"}),
        ('{b="1",a="2"}', {"b": "1", "a": "2"}),
        (r'{a="\x41\102\u0043\U0001F388\"\\\t"}', {"a": 'ABC\U0001f388"\\\t'}),
        (r'{a="\xc3\xa9"}', {"a": "é"}),
        (r"{a=`no \escape`}", {"a": "no \\escape"}),
        ('{a="}",b=","}', {"a": "}", "b": ","}),
    ],
)
def test_what_is_read(text: str, labels: dict[str, str]) -> None:
    found = parse_labels(text)
    assert found == labels
    assert list(found) == list(labels)


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "expected '{', found the end"),
        ("a", 0, "expected '{', found 'a'"),
        ("{", 1, "expected a label name, found the end"),
        ("{a", 2, "expected '=', found the end"),
        ("{a=}", 3, "expected a quoted value, found '}'"),
        ("{a='b'}", 3, 'expected a quoted value, found "\'"'),
        ('{a="b}', 3, "expected a quoted value, found '\"'"),
        ('{a="b\nc"}', 3, "expected a quoted value"),
        ('{a="b"', 6, "expected ',' or '}', found the end"),
        ('{a="b" c="d"}', 7, "expected ',' or '}', found 'c'"),
        ('{a="b"},', 7, "expected the end, found ','"),
        ('{a="b",,}', 7, "expected a label name, found ','"),
        ('{é="b"}', 1, "expected a label name"),
        ('{a="1",b="2", a="3"}', 14, "label 'a' for the second time"),
        (r'{ab="x\q"}', 6, "no such escape"),
        (r'{ab="x\uD800"}', 6, "no such escape"),
        (r'{ab="x\400"}', 6, "no such escape"),
        (r'{ab="x\xff"}', 5, "do not make UTF-8"),
    ],
)
def test_what_is_refused_and_where(text: str, position: int, reason: str) -> None:
    with pytest.raises(LabelTextError) as refused:
        parse_labels(text)
    assert refused.value.position == position
    assert reason in refused.value.message
    assert str(refused.value).startswith(f"label text, character {position}: ")


@settings(max_examples=100)
@given(st.text(st.sampled_from('{}a_1="`\\x, \n'), max_size=16))
def test_any_text_is_labels_or_refused_within_its_length(text: str) -> None:
    labels, position = {}, 0
    try:
        labels = parse_labels(text)
    except LabelTextError as error:
        position = error.position
    assert 0 <= position <= len(text)
    assert parse_labels(label_text(labels)) == labels
