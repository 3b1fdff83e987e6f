"""Literals with their sign: `5`, `+5`, `-.5e3`."""

from __future__ import annotations

from lakerunner_query.errors import ParseError
from lakerunner_query.lang.logql.ast import Literal
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.literals import InvalidLiteralError, number
from lakerunner_query.lang.logql.tokens import NUMBER, Token


def literal(cursor: Cursor) -> Literal:
    """The sign belongs to the number: `-2 ^ 2` is 4."""
    sign = cursor.take_if("+", "-")
    token = cursor.expect(NUMBER)
    value = number_of(token)
    start = sign or token
    return Literal(-value if sign and sign.kind == "-" else value, start.position)


def number_of(token: Token) -> float:
    try:
        return number(token.text)
    except InvalidLiteralError as error:
        raise ParseError(f"unable to parse literal as a float: {error}") from error
