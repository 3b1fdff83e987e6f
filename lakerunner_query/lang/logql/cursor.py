"""The tokens of a text with one ahead, and the wording of a token that does not fit."""

from __future__ import annotations

from lakerunner_query.errors import InvalidQueryError, ParseError, Position
from lakerunner_query.lang.logql.lexer import Lexer
from lakerunner_query.lang.logql.tokens import END, Token, shown

_MOST_NAMED = 4
"""Loki says what it expected where that is one of at most four things."""


class Cursor:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self.postponed: ParseError | None = None
        """The first mistake that is told only if there is none in the grammar."""

    @property
    def next(self) -> Token:
        """Read only when needed: an error of the parser may come before one of the lexer."""
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
        """The next token, which has to be of one of the kinds; they are named in this order if it is not."""
        if self.next.kind in kinds:
            return self.take()
        raise self.unexpected(*kinds)

    def postpone(self, reason: str, position: Position) -> None:
        """Remembers a complaint, if there is one, for when the grammar has none."""
        if reason and self.postponed is None:
            self.postponed = InvalidQueryError(reason, position)

    def close(self) -> None:
        """A closing parenthesis, behind something that could as well go on."""
        if self.take_if(")") is None:
            raise self.unexpected()

    def unexpected(self, *expected: str) -> ParseError:
        return unexpected(self.next, *expected)


def unexpected(token: Token, *expected: str) -> ParseError:
    named = 0 < len(expected) <= _MOST_NAMED
    tail = f", expecting {' or '.join(map(shown, expected))}" if named else ""
    return ParseError(f"syntax error: unexpected {shown(token.kind)}{tail}", token.position)
