"""Matchers in braces and label lists in parentheses.

{job="api", "http.path"=~"/v1/.*"}      by (job, "http.path")
"""

from __future__ import annotations

from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.strconv import is_utf8, quote_promql, unquote_promql
from lakerunner_query.lang.promql.ast import NO_SHIFT, Selector
from lakerunner_query.lang.promql.cursor import Cursor, merged
from lakerunner_query.lang.promql.tokens import IDENTIFIER, LABEL_NAMES, METRIC_NAMES, STRING, Token
from lakerunner_query.syntax import Matcher, MatchOp

NAME = "__name__"
STARTS = METRIC_NAMES | {"{"}
_MATCH_OPS = frozenset(MatchOp)
_LIST = "label matching"
_GROUPING = "grouping opts"


def selector(cursor: Cursor, name: Token) -> Selector:
    """A metric name, matchers in braces, or both; `name` is the first token, one of `STARTS`."""
    if name.kind == "{":
        return _in_braces(cursor, name)
    opening = cursor.take_if("{")
    braces = _in_braces(cursor, opening) if opening else Selector("", (), NO_SHIFT, span=name.span)
    # the name outside comes last: checks that look for a second one rely on it
    named = Matcher(NAME, MatchOp.EQUAL, name.text)
    return Selector(name.text, (*braces.matchers, named), span=merged(name.span, braces.span))


def _in_braces(cursor: Cursor, opening: Token) -> Selector:
    matchers: list[Matcher] = []
    closing = cursor.take_if("}")
    while closing is None:
        matchers.append(_matcher(cursor))
        after = cursor.expect({",", "}"}, _LIST, '"," or "}"')
        closing = after if after.kind == "}" else cursor.take_if("}")
    return Selector("", tuple(matchers), span=merged(opening.span, closing.span))


def _matcher(cursor: Cursor) -> Matcher:
    token = cursor.expect({IDENTIFIER, STRING}, _LIST, 'identifier or "}"')
    name = unquote_promql(token.text) if token.kind == STRING else token.text
    if token.kind == STRING and cursor.next.kind not in _MATCH_OPS:
        return Matcher(NAME, MatchOp.EQUAL, name)
    op = MatchOp(cursor.expect(_MATCH_OPS, _LIST, "label matching operator").kind)
    literal = cursor.expect({STRING}, _LIST, "string")
    value = unquote_promql(literal.text)
    if op.is_regex and (reason := regexp.complaint(value)):
        raise cursor.failure(reason, merged(token.span, literal.span))
    return Matcher(name, op, value)


def labels(cursor: Cursor) -> tuple[str, ...]:
    """`(a, b)`, as after `by`; a comma may end it."""
    cursor.expect({"("}, _GROUPING, '"("')
    names: list[str] = []
    closing = cursor.take_if(")")
    while closing is None:
        names.append(_label(cursor))
        after = cursor.expect({",", ")"}, _GROUPING, '"," or ")"')
        closing = after if after.kind == ")" else cursor.take_if(")")
    return tuple(names)


def _label(cursor: Cursor) -> str:
    token = cursor.expect(LABEL_NAMES | {STRING}, _GROUPING, "label")
    name = unquote_promql(token.text) if token.kind == STRING else token.text
    if not name or not is_utf8(name):
        raise cursor.failure(f"invalid label name for grouping: {quote_promql(name)}", token.span)
    return name
