"""Texts that every match of a regular expression contains, derived from the expression alone.

    status=5\\d\\d .*request_id=7f3a[ ,]   ->   one way to match: "status=5", " ", "request_id=7f3a "

A space stands for whatever certainly ends a word there: a set of separators, the begin or the end of the
text. Syntax unknown here (flags of case, `\\Q`, unusual sets) gives fewer texts, never wrong ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from lakerunner_query.gotext.regexp import tokens

MOST_WAYS = 64
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SEPARATOR = " "
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ANYTHING = frozenset("dDSwWpPCXx01234567")
"""Escapes of one character, or of several spelled out, that may match anything."""
_KNOWN_FLAGS = frozenset("smU")
_MEMBER = re.compile(r"\[:\^?+\w++:\]|\\(?:[pPx]\{[^}]{0,64}+\}|.)|.", re.DOTALL)
_LEAST = {"*": 0, "+": 1, "?": 0}
_DEEPEST = 50
"""Groups in groups that are looked into, each of which takes frames of Python's stack."""

Way = tuple[str, ...]


@lru_cache(1024)
def required_texts(pattern: str) -> tuple[Way, ...]:
    """Return ways to match, each with texts that are all in such a match; none if nothing is certain.

    >>> required_texts("took|refused: (card|cash) x"), required_texts("(?i)abc"), required_texts("a?bc+d")
    ((('took',), ('refused: ', ' x')), (), (('bc', 'cd'),))
    """
    try:
        ways = tuple(_texts(node) for node in _Reader(pattern).branches())
    except _UnknownError:
        return ()
    return ways if len(ways) <= MOST_WAYS and all(ways) else ()


class _UnknownError(Exception):
    """Syntax of which nothing is known here."""


@dataclass(frozen=True, slots=True)
class _Node:
    """The matches of a part: exactly one text, or something that begins and ends with these."""

    exact: str | None = None
    begin: str = ""
    end: str = ""
    inside: tuple[str, ...] = field(default=())


_SOMETHING = _Node()


def _texts(node: _Node) -> Way:
    found = (node.exact,) if node.exact is not None else (node.begin, *node.inside, node.end)
    return tuple(dict.fromkeys(text for text in found if text))


def _join(left: _Node, right: _Node) -> _Node:
    if left.exact is not None and right.exact is not None:
        return _Node(left.exact + right.exact)
    if left.exact is not None:
        return _Node(None, left.exact + right.begin, right.end, right.inside)
    if right.exact is not None:
        return _Node(None, left.begin, left.end + right.exact, left.inside)
    middle = left.end + right.begin
    return _Node(None, left.begin, right.end, (*left.inside, *((middle,) if middle else ()), *right.inside))


def _repeat(node: _Node) -> _Node:
    """Repeat once or more often."""
    if node.exact is None:
        return node
    return _Node(None, node.exact, node.exact) if node.exact else node


class _Reader:
    """Recursive descent over the tokens of a pattern."""

    def __init__(self, pattern: str) -> None:
        self._tokens = list(tokens(pattern))
        self._at = 0
        self._depth = 0

    def branches(self) -> list[_Node]:
        """Return the alternatives of the whole pattern."""
        found = self._alternatives()
        if self._at < len(self._tokens):
            raise _UnknownError
        return found

    def _alternatives(self) -> list[_Node]:
        found = [self._sequence()]
        while self._takes("|"):
            found.append(self._sequence())
        return found

    def _sequence(self) -> _Node:
        found = _Node("")
        while self._at < len(self._tokens) and self._char() not in {"|", ")"}:
            found = _join(found, self._repeats(self._atom()))
        return found

    def _repeats(self, node: _Node) -> _Node:
        """Read the quantifiers of a node, among them the `?` that makes another one lazy."""
        while self._at < len(self._tokens) and self._tokens[self._at].lastgroup == "repeat":
            repeat = self._take()
            least = _LEAST[repeat[0]] if repeat[0] in _LEAST else int(repeat["least"])
            node = _repeat(node) if least else _SOMETHING
        return node

    def _atom(self) -> _Node:
        token = self._take()
        match token.lastgroup:
            case "group":
                return self._group(token)
            case "set":
                return _set(token)
            case "escape":
                return _escape(token[0])
            case "char" if token[0] not in {"{", "\\"}:
                return {".": _SOMETHING, "^": _Node(_SEPARATOR), "$": _Node(_SEPARATOR)}.get(
                    token[0], _Node(token[0])
                )
        raise _UnknownError

    def _group(self, token: re.Match[str]) -> _Node:
        if token["special"] is not None:
            if token["flags"] is None or not _KNOWN_FLAGS.issuperset(token["flags"]):
                raise _UnknownError
            if token["behind"] == ")":
                return _Node("")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownError
        found = self._alternatives()
        self._depth -= 1
        if not self._takes(")"):
            raise _UnknownError
        return found[0] if len(set(found)) == 1 else _SOMETHING

    def _char(self) -> str:
        token = self._tokens[self._at]
        return token["char"] or ""

    def _takes(self, char: str) -> bool:
        is_next = self._at < len(self._tokens) and self._char() == char
        self._at += is_next
        return is_next

    def _take(self) -> re.Match[str]:
        self._at += 1
        return self._tokens[self._at - 1]


def _set(token: re.Match[str]) -> _Node:
    """Return a separator if all members are; ranges, negation and names of classes are anything."""
    if token["unclosed"] is not None:
        raise _UnknownError
    text = token[0][1:-1]
    found = _MEMBER.findall(text.removeprefix("^"))
    members = ""
    for place, member in enumerate(found):
        is_range = member == "-" and 0 < place < len(found) - 1  # its end is read as the next member
        members += "a" if is_range or member.startswith("[:") else _member(member)
    separates = text[:1] != "^" and all(m.isascii() and m not in _WORD for m in members)
    return _Node(_SEPARATOR) if separates else _SOMETHING


def _member(text: str) -> str:
    """Return the character of a set's member; a letter for all that is not one separator."""
    if text[0] != "\\":
        return text
    sign = text[1:2]
    if sign == "s":
        return " "
    if sign in _PLAIN_ESCAPES:
        return _PLAIN_ESCAPES[sign]
    return sign if sign not in _WORD else "a"


def _escape(text: str) -> _Node:
    sign = text[1]
    if sign in _PLAIN_ESCAPES:
        return _Node(_PLAIN_ESCAPES[sign])
    if sign in {"A", "z", "s"}:
        return _Node(_SEPARATOR)
    if sign in {"b", "B"}:
        return _Node("")
    if sign in _ANYTHING:
        if sign.isdigit() or (sign == "x" and len(text) == 2):
            raise _UnknownError
        return _SOMETHING
    if sign in _WORD or not sign.isascii():
        raise _UnknownError
    return _Node(sign)
