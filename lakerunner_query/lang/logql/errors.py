"""A query that the grammar allows and the language does not: said without a place, as Loki says it.

The place is known all the same, for those who mark it in the text.
"""

from __future__ import annotations

from lakerunner_query.errors import ParseError, Position, QueryError


class InvalidQueryError(ParseError):
    """`parse error : …`; `position` is where the construct stands."""

    def __init__(self, reason: str, position: Position | None = None) -> None:
        QueryError.__init__(self, f"parse error : {reason}", position)
