"""`{app="web", pod=~"a.+"}`, and the matchers inside it."""

from __future__ import annotations

from lakerunner_query.errors import InvalidQueryError
from lakerunner_query.gotext.regexp import complaint
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.tokens import IDENTIFIER, STRING, Token
from lakerunner_query.syntax import Matcher, MatchOp

MATCH_OPS = ("=", "=~", "!~", "!=")


def selector(cursor: Cursor) -> tuple[Matcher, ...]:
    """May be empty as far as the grammar goes."""
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
    """What stands behind the name of a label."""
    op = MatchOp(cursor.expect(*MATCH_OPS).kind)
    value = cursor.expect(STRING)
    if op.is_regex:
        check_regex(value)
    return Matcher(name.text, op, value.text, name.position)


def check_regex(pattern: Token) -> None:
    reason = complaint(pattern.text)
    if reason:
        raise InvalidQueryError(reason, pattern.position)
