"""The kernels agree with plain Python on lines that are nearly, or not at all, what they should be."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.query.logql import oracle
from tests.support.query.logql.frames import Texts, applied, frame_of, labels_of

PIECES = [
    *'{}[]:,"\\= \n',
    '"a"',
    '"b":',
    '{"a":',
    "null",
    "true",
    "12",
    "-1.5e3",
    '"x"',
    '"\\"',
    "\\u00e9",
    "\\ud83d",
    "\\ude00",
    "\\n",
    "\\q",
    "\ufffd",
    "é",
    "a",
    "b",
    "a=1",
    'b="x',
    'c="y z"',
    "'",
    "\\'",
    "tru",
]
LINES = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=5).map(json.dumps)
WORDS = st.lists(st.text("ab- ", max_size=8), min_size=1, max_size=20)
LITERALS = st.lists(st.text("ab- ", min_size=1, max_size=3), min_size=1, max_size=3)
FEW = settings(max_examples=150, deadline=None)


def checked(query: str, lines: list[str], wanted: list[tuple[dict[str, str], str]], kind: str) -> None:
    found = labels_of(applied(frame_of(lines), query))
    for row, (labels, details) in enumerate(wanted):
        error = {"__error__": kind, "__error_details__": details} if details else {}
        named: Texts = {name: text for name, text in labels.items() if name}
        assert found[row] == named | error, lines[row]


@FEW
@given(st.lists(LINES | OBJECTS, min_size=1, max_size=20))
@example(['{"a":{"b":[{]}}', '{"a":"\\ud83d\\ude00"}', '{"a":1}x', '{"a":{"":1},"":{"1":2}}'])
def test_json_finds_what_plain_python_finds(lines: list[str]) -> None:
    checked("| json", lines, [oracle.json_labels(line) for line in lines], "JSONParserErr")


@FEW
@given(st.lists(LINES, min_size=1, max_size=20), st.booleans(), st.booleans())
@example(['a="x\\ud83d\\ude00\\ud800z" b=2', "=x a=1", 'a="x"y=2', "a\ufffd=1 b=2"], True, True)
def test_logfmt_finds_what_plain_python_finds(lines: list[str], strict: bool, keep_empty: bool) -> None:
    query = "| logfmt" + " --strict" * strict + " --keep-empty" * keep_empty
    wanted = [oracle.logfmt_labels(line, strict=strict, keep_empty=keep_empty) for line in lines]
    checked(query, lines, wanted, "LogfmtParserErr")


@FEW
@given(WORDS, LITERALS, st.booleans(), st.booleans())
def test_patterns_capture_what_plain_python_finds(
    lines: list[str], literals: list[str], begins: bool, ends: bool
) -> None:
    parts: list[str | None] = [None] if begins else []
    for literal in literals:
        parts += [literal, None]
    if not ends and len(parts) > 2:
        parts.pop()
    names = iter("pqrst")
    text = "".join(f"<{next(names)}>" if part is None else part for part in parts)
    wanted = [(dict(zip("pqrst", oracle.captures(parts, line), strict=False)), "") for line in lines]
    checked(f"| pattern `{text}`", lines, wanted, "")


ADDRESSES = st.lists(
    st.sampled_from(
        [
            "1.2.3.4",
            "1.2.3",
            "::1",
            "2001:db8::",
            "ff:",
            ":",
            ".",
            " ",
            "x",
            "9",
            "01",
            "256",
            "a:b",
            "fe80::1:2",
        ]
    ),
    max_size=6,
).map("".join)


BOUNDS = st.sampled_from(
    [("1.2.3.0", "1.2.3.99"), ("0.0.0.1", "255.0.0.0"), ("::", "2001:db8::ffff"), ("2001:db8::1", "ffff::")]
)


@FEW
@given(st.lists(ADDRESSES, min_size=1, max_size=20), BOUNDS)
def test_addresses_are_found_where_plain_python_finds_them(lines: list[str], bounds: tuple[str, str]) -> None:
    kept = applied(frame_of(lines), f'|= ip("{bounds[0]}-{bounds[1]}")').tsns.tolist()
    assert kept == [row for row, line in enumerate(lines) if oracle.holds_address(line, *bounds)]
