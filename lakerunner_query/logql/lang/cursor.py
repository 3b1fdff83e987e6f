"""Tokens of a text with one ahead, and the parsers of literals and selectors."""

from __future__ import annotations

import math

from lakerunner_query.errors import InvalidQueryError, ParseError, Position
from lakerunner_query.gotext.numbers import ConversionError, read_float
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.logql.lang.ast import Literal
from lakerunner_query.logql.lang.lexer import END, IDENTIFIER, NUMBER, STRING, Lexer, Token, shown
from lakerunner_query.syntax import Matcher, MatchOp

_MOST_NAMED = 4
"""Loki names the tokens it expected if there are at most four."""


class Cursor:
    """Reader of tokens that raises the first mistake."""

    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self.postponed: ParseError | None = None
        """First mistake that counts only if the grammar has none."""

    @property
    def next(self) -> Token:
        """Next token, read only when needed: an error of the parser may precede one of the lexer."""
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def take(self) -> Token:
        token = self.next
        if token.kind != END:
            self._ahead = None
        return token

    def take_if(self, *kinds: str) -> Token | None:
        return self.take() if self.next.kind in kinds else None

    def expect(self, *kinds: str) -> Token:
        """Take a token of one of the kinds; the message names them in this order."""
        if self.next.kind in kinds:
            return self.take()
        raise self.unexpected(*kinds)

    def postpone(self, reason: str, position: Position) -> None:
        """Keep a complaint, if there is one, for when the grammar has none."""
        if reason and self.postponed is None:
            self.postponed = InvalidQueryError(reason, position)

    def close(self) -> None:
        """Take a closing parenthesis behind something that could as well go on."""
        if self.take_if(")") is None:
            raise self.unexpected()

    def unexpected(self, *expected: str) -> ParseError:
        return unexpected(self.next, *expected)


def unexpected(token: Token, *expected: str) -> ParseError:
    named = 0 < len(expected) <= _MOST_NAMED
    tail = f", expecting {' or '.join(map(shown, expected))}" if named else ""
    return ParseError(f"syntax error: unexpected {shown(token.kind)}{tail}", token.position)


_COMPLAINT = "unable to parse literal as a float"


def literal(cursor: Cursor) -> Literal:
    """Parse `5`, `+5` or `-.5e3`; the sign belongs to the number: `-2 ^ 2` is 4."""
    sign = cursor.take_if("+", "-")
    token = cursor.expect(NUMBER)
    value = number_of(cursor, token)
    start = sign or token
    return Literal(-value if sign and sign.kind == "-" else value, start.position)


def number_of(cursor: Cursor, token: Token, complaint: str = _COMPLAINT) -> float:
    """Read a number; a text that is none is a mistake beyond the grammar."""
    try:
        return read_float(token.text)
    except ConversionError as error:
        cursor.postpone(f"{complaint}: {error}", token.position)
        return math.nan


MATCH_OPS = ("=", "=~", "!~", "!=")


def selector(cursor: Cursor) -> tuple[Matcher, ...]:
    """Parse `{app="web", pod=~"a.+"}`; the grammar allows it to be empty."""
    cursor.expect("{")
    if cursor.take_if("}"):
        return ()
    if cursor.next.kind != IDENTIFIER:
        raise cursor.unexpected(IDENTIFIER, "}")
    matchers = [matcher(cursor)]
    while cursor.expect("}", ",").kind == ",":
        matchers.append(matcher(cursor))
    return tuple(matchers)


def matcher(cursor: Cursor) -> Matcher:
    return matcher_of(cursor, cursor.expect(IDENTIFIER))


def matcher_of(cursor: Cursor, name: Token) -> Matcher:
    """Parse the operator and the value behind the name of a label."""
    op = MatchOp(cursor.expect(*MATCH_OPS).kind)
    value = cursor.expect(STRING)
    if op.is_regex:
        check_regex(value)
    return Matcher(name.text, op, value.text, name.position)


def check_regex(pattern: Token) -> None:
    reason = complaint(pattern.text)
    if reason:
        raise InvalidQueryError(reason, pattern.position)
