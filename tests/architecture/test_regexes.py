"""No regular expression of the product takes more than linear time for a hostile text.

Python's `re` backtracks and holds the GIL: `[0-9]+[0-9]*x` needs minutes for a label value of 100,000 digits,
and a worker that reads it answers nobody meanwhile. Patterns with a loop inside a loop, or with two loops in
a row that can share characters, are refused unless the first of the two gives nothing back (`*+`, `(?>…)`).
So are patterns that are searched for and begin with a loop: they fail from each place of a run anew.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from tests.architecture.test_shape import MODULES, ROOT, short

SEARCHES = frozenset({"search", "sub", "subn", "split", "findall", "finditer"})
CALLS = SEARCHES | {"compile", "match", "fullmatch"}
ALLOWED: dict[str, str] = {
    r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d|w|y)": "times in requests have at most 64 characters",
    r"(\d++(?:\.\d*+)?|\.\d++)\s*+(ns|us|µs|μs|ms|s|m|h)\s*+": "durations in files have at most 64",
}
"""Patterns that need not be linear, and why: something bounds their input."""
ANYTHING = frozenset((*range(128), *map(ord, "éµμ٣\u2003€\ufffd\U0001f600"), 0xD800))
"""ASCII, and of all other characters one of each sort that patterns distinguish."""
Chars = frozenset[int]
ASSERTIONS = frozenset({ops.AT, ops.ASSERT, ops.ASSERT_NOT})
GROUPS = frozenset({ops.SUBPATTERN, ops.BRANCH})
REPEATS = frozenset({ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT})


def patterns_in(path: Path) -> Iterator[tuple[int, str, int, bool]]:
    """Yield line, text and flags of each pattern that needs no argument, and if it is searched for."""
    tree = ast.parse(path.read_text())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in CALLS) == ("re", True)
    ]
    if not calls:
        return
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    known = vars(importlib.import_module(name))
    searched = _searched(tree)
    for call in calls:
        found = [_value(part, known) for part in (call.args[0], *_flags(call))]
        yield call.lineno, found[0], reduce(int.__or__, map(int, found[1:]), 0), call in searched


def _searched(tree: ast.AST) -> set[ast.AST]:
    """Return calls of `re` that search at once, or whose pattern is searched for in the same module."""
    places = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in SEARCHES]
    names = {place.value.id for place in places if isinstance(place.value, ast.Name)}
    found: set[ast.AST] = {
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func in places
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found |= {node.value} if node.targets[0].id in names else set()
    return found


def _flags(call: ast.Call) -> list[ast.expr]:
    named = [word.value for word in call.keywords if word.arg == "flags"]
    return [*call.args[1:], *named] if getattr(call.func, "attr", "") == "compile" else named


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), known)  # noqa: S307 -- the product's own text


def faults(pattern: str, flags: int = 0, *, is_searched: bool = False) -> list[str]:
    tree = parser.parse(pattern, flags)
    found: list[str] = []
    _walk(list(tree), [], found, flags=tree.state.flags)
    if is_searched and _begins_with_loop(list(tree), tree.state.flags):
        found.append("a search begins with a loop")
    return found


def _begins_with_loop(items: list[Any], flags: int) -> bool:
    """Tell if a loop comes first and something that may fail behind it."""
    for place, (op, value) in enumerate(items):
        rest = items[place + 1 :]
        parts = ([value[3]] if op is ops.SUBPATTERN else value[1]) if op in GROUPS else []
        if op in REPEATS and value[1] is ops.MAXREPEAT:
            return not _first(rest, flags)[1] or any(one in ASSERTIONS for one, _ in rest)
        if op in REPEATS:
            parts = [value[2]]
        if any(_begins_with_loop([*part, *rest], flags) for part in parts):
            return True
        if op not in REPEATS or value[0] > 0:
            return False
    return False


def _walk(items: list[Any], loops: list[Chars], found: list[str], *, flags: int) -> list[Chars]:
    """Return the loops that may still take characters behind `items`, given those that may in front."""
    for op, value in items:
        if op in REPEATS:
            loops = _repeat(op, *value, loops, found, flags)
        elif op is ops.SUBPATTERN:
            loops = _walk(list(value[3]), loops, found, flags=flags | value[1])
        elif op is ops.ATOMIC_GROUP:
            _walk(list(value), loops, found, flags=flags)
            loops = [loop for loop in loops if loop & _first(value, flags)[0]]
        elif op is ops.BRANCH:
            loops = [one for part in value[1] for one in _walk(list(part), loops, found, flags=flags)]
        elif op in {ops.ASSERT, ops.ASSERT_NOT}:
            _walk(list(value[1]), [], found, flags=flags)
        elif op is not ops.AT:
            loops = [loop for loop in loops if loop & _chars(op, value, flags)]
    return loops


def _repeat(
    op: Any, least: int, most: Any, body: Any, loops: list[Chars], found: list[str], flags: int
) -> list[Chars]:
    if most is not ops.MAXREPEAT:
        behind = _walk(list(body), loops, found, flags=flags)
        return [*behind, *loops] if least == 0 else behind
    first = _first(body, flags)[0]
    if any(loop & first for loop in loops):
        found.append("two loops in a row share characters")
    inner: list[str] = []
    if _has_loop(body) and op is not ops.POSSESSIVE_REPEAT:
        inner.append("a loop inside a loop")
    _walk(list(body), [], inner, flags=flags)
    found += inner
    own = [] if op is ops.POSSESSIVE_REPEAT else [first]
    return [*own, *(loop for loop in loops if least == 0 or loop & first)]


def _has_loop(body: Any) -> bool:
    """Tell if there is a loop that can give characters back."""
    for op, value in body:
        inside: list[Any] = []
        if op in {ops.MAX_REPEAT, ops.MIN_REPEAT}:
            if value[1] is ops.MAXREPEAT:
                return True
            inside = [value[2]]
        elif op is ops.SUBPATTERN:
            inside = [value[3]]
        elif op is ops.BRANCH:
            inside = value[1]
        if any(map(_has_loop, inside)):
            return True
    return False


def _first(items: Any, flags: int) -> tuple[Chars, bool]:
    """Return the characters a sequence may begin with, and if it may be empty."""
    found: Chars = frozenset()
    for op, value in items:
        one, is_empty = _first_of(op, value, flags)
        found |= one
        if not is_empty:
            return found, False
    return found, True


def _first_of(op: Any, value: Any, flags: int) -> tuple[Chars, bool]:
    if op in REPEATS:
        chars, is_empty = _first(value[2], flags)
        return chars, is_empty or value[0] == 0
    if op is ops.SUBPATTERN:
        return _first(value[3], flags | value[1])
    if op is ops.ATOMIC_GROUP:
        return _first(value, flags)
    if op is ops.BRANCH:
        parts = [_first(part, flags) for part in value[1]]
        return frozenset().union(*(chars for chars, _ in parts)), any(empty for _, empty in parts)
    if op in ASSERTIONS:
        return frozenset(), True
    return _chars(op, value, flags), False


def _chars(op: Any, value: Any, flags: int) -> Chars:
    """Return the characters that one item matches; anything where it is not known."""
    if op is ops.LITERAL:
        chars = _sort_of(value)
    elif op is ops.NOT_LITERAL:
        chars = ANYTHING - _sort_of(value)
    elif op is ops.IN:
        is_negated = value[0][0] is ops.NEGATE
        chars = frozenset().union(*(_member(*one) for one in value[is_negated:]))
        chars = ANYTHING - chars if is_negated else chars
    else:
        return ANYTHING if op is not ops.ANY or flags & re.DOTALL else ANYTHING - {ord("\n")}
    if flags & re.IGNORECASE:
        chars |= {ord(one) for code in chars if code < 128 for one in chr(code).swapcase()}
    return chars


def _member(op: Any, value: Any) -> Chars:
    if op is ops.LITERAL:
        return _sort_of(value)
    if op is ops.RANGE:
        return frozenset(code for code in ANYTHING if value[0] <= code <= value[1])
    name = str(value).removeprefix("CATEGORY_").removeprefix("UNI_").removeprefix("NOT_")
    sort = re.compile({"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[name])
    return frozenset(code for code in ANYTHING if bool(sort.match(chr(code))) != ("NOT" in str(value)))


def _sort_of(code: int) -> Chars:
    return frozenset({code if code in ANYTHING else ord("é" if chr(code).isalpha() else "€")})


@pytest.mark.parametrize("path", [path for path in MODULES if "re." in path.read_text()], ids=short)
def test_patterns_are_linear(path: Path) -> None:
    found = {
        f"{short(path)}:{line}": (pattern, wrong)
        for line, pattern, flags, is_searched in patterns_in(path)
        if pattern not in ALLOWED and (wrong := faults(pattern, flags, is_searched=is_searched))
    }
    assert not found


@pytest.mark.parametrize(
    "pattern",
    [
        r"[0-9]+[0-9]*x",
        r"[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?x",
        r"(?:a+)*",
        r"(?:[a-z]*=)*",
        r".*x.*y",
        r"a*(?:b|a+)c",
        r"\s*\s*x",
        r"(?i)a*A*x",
        r"a*a*+b",
    ],
)
def test_such_are_refused(pattern: str) -> None:
    assert faults(pattern)


@pytest.mark.parametrize(
    "pattern", [r"[0-9]*\.[0-9]*", r"a*+a*", r"(?:a++b)*+", r"(?:[^\\]|\\.)*", r"(?>a*)a*", r"\w+\s+\w+"]
)
def test_such_are_not(pattern: str) -> None:
    assert not faults(pattern)


def test_a_search_may_not_begin_with_a_loop() -> None:
    assert faults(r"\s+$", is_searched=True)
    assert faults(r"(?:[0-9]++|x)y", is_searched=True)
    assert not faults(r"\w+(?:\.\w+)?", is_searched=True)


def test_the_allowed_ones_exist_and_need_it() -> None:
    every = {pattern for path in MODULES for _, pattern, *_ in patterns_in(path)}
    assert set(ALLOWED) <= every
    assert all(faults(pattern, is_searched=True) for pattern in ALLOWED)
