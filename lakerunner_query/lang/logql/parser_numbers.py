"""Literals with their sign: `5`, `+5`, `-.5e3`."""

from __future__ import annotations

import math

from lakerunner_query.gotext.durations import InvalidLiteralError, finite_number
from lakerunner_query.lang.logql.ast import Literal
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.tokens import NUMBER, Token

_COMPLAINT = "unable to parse literal as a float"


def literal(cursor: Cursor) -> Literal:
    """The sign belongs to the number: `-2 ^ 2` is 4."""
    sign = cursor.take_if("+", "-")
    token = cursor.expect(NUMBER)
    value = number_of(cursor, token)
    start = sign or token
    return Literal(-value if sign and sign.kind == "-" else value, start.position)


def number_of(cursor: Cursor, token: Token, complaint: str = _COMPLAINT) -> float:
    """What is no number is told when all of the text is known to be an expression."""
    try:
        return finite_number(token.text)
    except InvalidLiteralError as error:
        cursor.postpone(f"{complaint}: {error}", token.position)
        return math.nan
