"""The cursor reads tokens with one ahead and words the errors of the grammar."""

from __future__ import annotations

from lakerunner_query.errors import ParseError
from lakerunner_query.traceql.lang.ast import Attribute, CompareOp, Field, Intrinsic, LogicalOp, MathOp
from lakerunner_query.traceql.lang.intrinsics import SCOPED, WORDS
from lakerunner_query.traceql.lang.lexer import ATTRIBUTE, END, IDENTIFIER, Lexer, Token

_MOST_NAMED = 4
"""Tempo names the tokens it expected if there are at most four."""

LOGICAL, COMPARING, ADDING, NOT, MULTIPLYING, RAISING = range(1, 7)
"""Levels of precedence; only `^` is right-associative."""
LEVELS: dict[str, int] = {
    **dict.fromkeys(LogicalOp, LOGICAL),
    **dict.fromkeys(CompareOp, COMPARING),
    **dict.fromkeys((MathOp.ADD, MathOp.SUBTRACT), ADDING),
    **dict.fromkeys((MathOp.MULTIPLY, MathOp.DIVIDE, MathOp.MODULO), MULTIPLYING),
    MathOp.POWER: RAISING,
}


def level_behind(op: str) -> int:
    """Return the least level of operators inside of the right operand."""
    return RAISING if op == MathOp.POWER else LEVELS[op] + 1


class Cursor:
    """Reader of tokens that raises the first mistake."""

    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._ahead: Token | None = None

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
        raise unexpected(self.next, *kinds)


def unexpected(token: Token, *expected: str) -> ParseError:
    tail = f", expecting {' or '.join(expected)}" if 0 < len(expected) <= _MOST_NAMED else ""
    return ParseError(f"syntax error: unexpected {token.kind}{tail}", token.position)


def take_field(cursor: Cursor) -> Field | None:
    """Take an attribute or intrinsic if one begins here."""
    token = cursor.next
    if token.kind == ATTRIBUTE and isinstance(token.value, Attribute):
        return token.value if cursor.take() else None
    if token.kind in WORDS:
        return Intrinsic(WORDS[cursor.take().kind], token.position)
    words = SCOPED.get(token.kind.removesuffix(":")) if token.kind.endswith(":") else None
    if words is None:
        return None
    cursor.take()
    return Intrinsic(words[cursor.expect(*words).kind], token.position)


def expect_field(cursor: Cursor) -> Field:
    found = take_field(cursor)
    if found is None:
        raise unexpected(cursor.next)
    return found


def unknown(token: Token) -> ParseError:
    """Return the error for a token where a field or a literal should begin."""
    if token.kind == IDENTIFIER:
        return ParseError(f"unknown identifier: {token.text}", token.position)
    return unexpected(token)
