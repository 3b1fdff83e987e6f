"""The tokens of a text with one ahead, and the wording of a token that does not fit.

What a misplaced token is blamed on is the innermost construct around it that has a wording of its own:
`sum(a b)` is "unexpected identifier "b" in aggregation".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from lakerunner_query.errors import PromParseError
from lakerunner_query.lang.promql.ast import NOWHERE, Span
from lakerunner_query.lang.promql.lexer import Lexer
from lakerunner_query.lang.promql.positions import failure
from lakerunner_query.lang.promql.tokens import END, Token


class Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self._lexer = Lexer(text)
        self._ahead: Token | None = None
        self.end = 0
        """Where the last token taken ends."""
        self._surroundings: list[tuple[str, str]] = [("", "")]

    @property
    def next(self) -> Token:
        """Read only when needed: an error of the parser may come before one of the lexer."""
        if self._ahead is None:
            self._ahead = self._lexer.next()
        return self._ahead

    def look_ahead(self) -> None:
        """Reads the next token, which may raise, without taking it."""
        _ = self.next

    def take(self) -> Token:
        token = self.next
        self.end = token.span.end
        if token.kind != END:
            self._ahead = None
        return token

    def take_if(self, *kinds: str) -> Token | None:
        return self.take() if self.next.kind in kinds else None

    def expect(self, kinds: Collection[str], surrounding: str = "", expected: str = "") -> Token:
        """The next token, which has to be of one of the kinds."""
        if self.next.kind in kinds:
            return self.take()
        if surrounding:
            self._surroundings.append((surrounding, expected))
        raise self.unexpected()

    @contextmanager
    def inside(self, surrounding: str, expected: str = "") -> Iterator[None]:
        """What is misplaced meanwhile, is so "in" the surrounding."""
        self._surroundings.append((surrounding, expected))
        yield
        self._surroundings.pop()

    def unexpected(self) -> PromParseError:
        surrounding, expected = self._surroundings[-1]
        message = f"unexpected {self.next.described()}"
        message += f" in {surrounding}" if surrounding else ""
        message += f", expected {expected}" if expected else ""
        return self.failure(message, self.next.span)

    def failure(self, reason: str, span: Span = NOWHERE) -> PromParseError:
        return failure(self.text, reason, span)


def merged(first: Span, last: Span) -> Span:
    return Span(first.start, last.end)
