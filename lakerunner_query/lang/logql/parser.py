"""Text to tree, with the mistakes of a text told as Loki tells them.

    sum by (app) (rate({app=~".+"} |= "error" [5m])) / 2

The parser takes tokens only when it needs them and raises the first error; what the grammar allows and the
language does not is refused where it is complete (see `check.py`).
"""

from __future__ import annotations

from functools import lru_cache

from lakerunner_query.errors import InvalidQueryError
from lakerunner_query.lang.logql.ast import Expr, LogQuery
from lakerunner_query.lang.logql.check import check_selectors
from lakerunner_query.lang.logql.check_stages import check_stages
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.limits import bound_depth, bound_length, bound_tasks
from lakerunner_query.lang.logql.parser_metrics import expression
from lakerunner_query.lang.logql.parser_selector import selector
from lakerunner_query.lang.logql.tokens import END
from lakerunner_query.syntax import Matcher, Task, unwind


def parse_expr(text: str) -> Expr:
    """The checked tree of any query.

    >>> parse_expr('count_over_time({app="web"}[5m]) > 2').op
    '>'
    """
    bound_length(text)
    expr: Expr = unwind(_whole(Cursor(text)), bound_tasks)
    check_stages(expr)
    return expr


@lru_cache(32)
def parsed(text: str) -> Expr:
    """The same, remembered: who routes a query and who runs it both look at its tree."""
    return parse_expr(text)


def parse(text: str) -> LogQuery:
    """The tree of a log query: one that gives lines.

    >>> parse('{app="web"} |= "error"').stages[0].values
    ('error',)
    """
    expr = parsed(text)
    if not isinstance(expr, LogQuery):
        raise InvalidQueryError("a query for log lines was expected, this one gives samples", expr.position)
    return expr


def parse_selector(text: str) -> tuple[Matcher, ...]:
    """The matchers of `{…}` with nothing behind, as `match[]` takes them; `{}` is everything."""
    bound_length(text)
    cursor = Cursor(text)
    matchers = selector(cursor)
    cursor.expect(END)
    return matchers


def _whole(cursor: Cursor) -> Task[Expr]:
    expr: Expr = yield expression(cursor)
    if cursor.next.kind != END:
        raise cursor.unexpected()
    bound_depth(expr)
    if cursor.postponed is not None:
        raise cursor.postponed
    check_selectors(expr)
    return expr
