"""What a regular expression demands: examples, and that no match is ever without it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.gotext.regexp_words import required_texts
from resources.lake.tokens import inner_tokens, tokens


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        ("timeout", [("timeout",)]),
        ("a|b", [("a",), ("b",)]),
        ("a|", []),
        ("x(a|b)y", [("x", "y")]),
        ("x(?:ab)+y", [("xab", "aby")]),
        ("x(ab)*y", [("x", "y")]),
        ("x{2,3}y", [("x", "xy")]),
        (r"took \d+ms$", [("took ", "ms ")]),
        (r"\[err\]", [("[err]",)]),
        (r"[ ,;]id[0-9]", [(" id",)]),
        (r"[a-z]id", [("id",)]),
        (r"[^ ]id", [("id",)]),
        (r"(?P<a>x)y(?s:z)", [("xyz",)]),
        ("(?i)abc", []),
        (r"\Qa.b\E", []),
        (r"\x41bc", []),
        (r"\pLbc", [("bc",)]),
        ("a{b", []),
        ("( a){1,x}b ", []),  # braces that hold no count are plain text
        (" a {1,| b ", []),
        ("( a){01}b ", []),
        ("( a){1,2}b ", [(" a", " ab ")]),
        ("", []),
    ],
)
def test_examples(pattern: str, ways: list[tuple[str, ...]]) -> None:
    assert list(required_texts(pattern)) == ways


PIECES = st.recursive(
    st.sampled_from(
        ["a", "bc", "x1", "é", r"\.", " ", "=", ".", r"\d", r"\w", r"\s", "[ =]", "[a-c]", "[^a]", r"[\s,]",
         "^", "$", r"\b", "-", "_", r"[\]a]", "[[:alpha:]]", "[]a]", "[=-]", "[!-/]"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda some: f"(?:{'|'.join(some)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "+?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=10,
)  # fmt: skip
LINES = st.text(alphabet="abcx1é .=-_,d\n]!", max_size=16)


@settings(max_examples=600, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=3).map("|".join), st.lists(LINES, min_size=20, max_size=60))
def test_no_line_that_matches_is_without_the_words(pattern: str, lines: list[str]) -> None:
    ways = [[word for text in way for word in inner_tokens(text)] for way in required_texts(pattern)]
    if not ways:
        return
    matching = pc.match_substring_regex(pa.array(lines, pa.string()), pattern).to_pylist()
    for line, is_match in zip(lines, matching, strict=True):
        if is_match:
            held = set(tokens(line))
            assert any(held.issuperset(way) for way in ways), (pattern, line, ways)
