"""Texts that every match of a regular expression contains, told from the expression alone.

    status=5\\d\\d .*request_id=7f3a[ ,]   ->   one way to match: "status=5", " ", "request_id=7f3a "

A space stands for whatever certainly ends a word there: a class of separators, the begin or the end of the
text. Whatever this file does not know (flags of case, `\\Q`, unusual classes) makes it say less, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

MOST_WAYS = 64
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SEPARATOR = " "
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ANYTHING = frozenset("dDSwWpPCXx01234567")
"""Escapes of one character (or of several spelled out): nothing is said of it."""
_KNOWN_FLAGS = frozenset("smU")
_QUANTIFIERS = frozenset("*+?{")
_COUNT = re.compile(r"\{(0|[1-9][0-9]*)(?:,(?:0|[1-9][0-9]*)?)?\}")

Way = tuple[str, ...]


@lru_cache(1024)
def required(pattern: str) -> tuple[Way, ...]:
    """Ways to match; all texts of one of them are in every match. None at all: nothing can be said.

    >>> required("took|refused: (card|cash) x"), required("(?i)abc"), required("a?bc+d")
    ((('took',), ('refused: ', ' x')), (), (('bc', 'cd'),))
    """
    try:
        ways = tuple(_texts(node) for node in _Reader(pattern).branches())
    except _UnknownError:
        return ()
    return ways if len(ways) <= MOST_WAYS and all(ways) else ()


class _UnknownError(Exception):
    """Something this file does not know."""


@dataclass(frozen=True, slots=True)
class _Node:
    """What a part matches: exactly one text, or something that begins and ends with these."""

    exact: str | None = None
    begin: str = ""
    end: str = ""
    inside: tuple[str, ...] = field(default=())


_SOMETHING = _Node()


def _texts(node: _Node) -> Way:
    found = (node.exact,) if node.exact is not None else (node.begin, *node.inside, node.end)
    return tuple(dict.fromkeys(text for text in found if text))


def _joined(left: _Node, right: _Node) -> _Node:
    if left.exact is not None and right.exact is not None:
        return _Node(left.exact + right.exact)
    if left.exact is not None:
        return _Node(None, left.exact + right.begin, right.end, right.inside)
    if right.exact is not None:
        return _Node(None, left.begin, left.end + right.exact, left.inside)
    middle = left.end + right.begin
    return _Node(None, left.begin, right.end, (*left.inside, *((middle,) if middle else ()), *right.inside))


def _repeated(node: _Node) -> _Node:
    """Once or more often."""
    if node.exact is None:
        return node
    return _Node(None, node.exact, node.exact) if node.exact else node


class _Reader:
    """Recursive descent over RE2's syntax."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    def branches(self) -> list[_Node]:
        """The alternatives of the whole pattern."""
        found = list(self._alternatives())
        if self._at < len(self._text):
            raise _UnknownError
        return found

    def _alternatives(self) -> Iterator[_Node]:
        yield self._sequence()
        while self._peek() == "|":
            self._at += 1
            yield self._sequence()

    def _sequence(self) -> _Node:
        found = _Node("")
        while self._peek() not in {"", "|", ")"}:
            found = _joined(found, self._quantified())
        return found

    def _quantified(self) -> _Node:
        node = self._atom()
        while (sign := self._peek()) in _QUANTIFIERS and sign:
            least = self._least()
            node = _repeated(node) if least else _SOMETHING
        return node

    def _least(self) -> int:
        """How often at least; a `?` that makes it lazy changes nothing but is read too."""
        if self._peek() != "{":
            return int(self._take() == "+")
        count = _COUNT.match(self._text, self._at)
        if count is None:
            raise _UnknownError  # a brace that is meant literally
        self._at = count.end()
        return int(count[1])

    def _atom(self) -> _Node:
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class()
        if sign == "\\":
            return self._escape()
        if sign == ".":
            return _SOMETHING
        if sign in {"^", "$"}:
            return _Node(_SEPARATOR)
        if sign in _QUANTIFIERS or sign in {")", ""}:
            raise _UnknownError
        return _Node(sign)

    def _group(self) -> _Node:
        if self._peek() == "?":
            self._at += 1
            if self._flags_only():
                return _Node("")
        found = list(self._alternatives())
        if self._take() != ")":
            raise _UnknownError
        return found[0] if len(set(found)) == 1 else _SOMETHING

    def _flags_only(self) -> bool:
        """Behind `(?`: a name, or flags of which those of case are not understood."""
        if self._peek() in {"P", "<"}:
            while self._peek() not in {">", ""}:
                self._at += 1
            self._take()
            return False
        while (sign := self._take()) in _KNOWN_FLAGS:
            continue
        if sign not in {":", ")"}:
            raise _UnknownError
        return sign == ")"

    def _class(self) -> _Node:
        """A separator if all its members are; ranges, negation and names of classes are anything."""
        members = ""
        negated = self._peek() == "^"
        self._at += negated
        while (sign := self._take()) != "]" or not members:
            if sign == "":
                raise _UnknownError
            if sign == "[" and self._peek() == ":":
                self._skip_named()
                sign = "a"
            elif sign == "\\":
                sign = self._member()
            elif sign == "-" and members and self._peek() != "]":
                sign = "a"  # a range: its end is read as the next member
            members += sign
        separates = not negated and all(m.isascii() and m not in _WORD for m in members)
        return _Node(_SEPARATOR) if separates else _SOMETHING

    def _skip_named(self) -> None:
        end = self._text.find(":]", self._at)
        if end < 0:
            raise _UnknownError
        self._at = end + 2

    def _member(self) -> str:
        """What an escape in a class stands for; a letter for all that is not one separator."""
        sign = self._take()
        if sign == "s":
            return " "
        if sign in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[sign]
        if not sign:
            raise _UnknownError
        if sign in {"x", "p", "P"} and self._peek() == "{":
            self._skip_braces()
        return sign if sign not in _WORD else "a"

    def _escape(self) -> _Node:
        sign = self._take()
        if sign in _PLAIN_ESCAPES:
            return _Node(_PLAIN_ESCAPES[sign])
        if sign in {"A", "z"}:
            return _Node(_SEPARATOR)
        if sign in {"b", "B"}:
            return _Node("")
        if sign == "s":
            return _Node(_SEPARATOR)
        if sign in _ANYTHING:
            return self._something_escaped(sign)
        if not sign or sign in _WORD or not sign.isascii():
            raise _UnknownError
        return _Node(sign)

    def _something_escaped(self, sign: str) -> _Node:
        """`\\x41`, `\\x{41}`, `\\pL`, `\\123`: what belongs to the escape is read with it."""
        if sign in {"x", "p", "P"} and self._peek() == "{":
            self._skip_braces()
        elif sign == "x" or sign.isdigit():
            raise _UnknownError
        elif sign in {"p", "P"}:
            self._take()
        return _SOMETHING

    def _skip_braces(self) -> None:
        end = self._text.find("}", self._at)
        if end < 0:
            raise _UnknownError
        self._at = end + 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        sign = self._peek()
        self._at += 1
        return sign
