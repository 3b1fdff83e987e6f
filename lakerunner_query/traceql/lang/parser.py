"""The parser of TraceQL turns text into a checked tree, or raises the first mistake.

    ({ kind = server } > { kind = client } | by(name) | count() > 2) || ({ status = error })
    ({ status = error } | rate()) / ({} | rate()) > 0.1 | topk(5) with (exemplars=true)

Length and depth are bounded, so that hostile texts stay cheap and trees fit recursive readers. `check.py` has
the rules beyond the grammar.
"""

from __future__ import annotations

from functools import lru_cache

from lakerunner_query.errors import InvalidTraceQueryError, ParseError
from lakerunner_query.syntax import Task, unwind
from lakerunner_query.traceql.lang.ast import Field, Hint, MetricsExpr, Node, Pipeline, Query, children
from lakerunner_query.traceql.lang.check import check
from lakerunner_query.traceql.lang.cursor import Cursor, expect_field, unexpected
from lakerunner_query.traceql.lang.lexer import CONSTANTS, END, IDENTIFIER, NUMBERS, STRING
from lakerunner_query.traceql.lang.operands import Filter, Operand, Scalar, Series, Spans
from lakerunner_query.traceql.lang.parser_pipelines import Stages, second_stages, sequence

MAX_LENGTH = 131_072
MAX_DEPTH = 250
"""Levels of the tree; a chain `{…} || {…} || {…}` has one per operator."""
_TASKS_PER_LEVEL = 6
"""Upper bound of the tasks that the parser needs for one level."""


def parse(text: str) -> Query:
    """Parse and check any query.

    >>> parse("{ status = error } | rate() by (name)").body.function
    'rate'
    """
    if len(text) > MAX_LENGTH:
        raise ParseError(f"input size too long ({len(text)} > {MAX_LENGTH})")
    query: Query = unwind(_whole(Cursor(text)), _bound_tasks)
    check(query)
    return query


@lru_cache(32)
def parse_cached(text: str) -> Query:
    """Parse through a cache: routing a query and running it both look at its tree."""
    return parse(text)


def parse_metrics(text: str) -> Query:
    """Parse a query that gives series."""
    query = parse_cached(text)
    if isinstance(query.body, Pipeline):
        raise InvalidTraceQueryError("not a metrics query", query.body.position)
    return query


def parse_field(text: str) -> Field:
    """Parse a single attribute or intrinsic, as the name of a tag.

    >>> parse_field('resource."team name"').name, parse_field("span:kind").name
    ('team name', 'kind')
    """
    cursor = Cursor(text)
    found = expect_field(cursor)
    cursor.expect(END)
    return found


def _whole(cursor: Cursor) -> Task[Query]:
    head: Operand | Stages = yield sequence(cursor, is_inside=False)
    body: Pipeline | MetricsExpr
    match head:
        case Stages(pipeline=pipeline):
            body = pipeline
        case Spans(node=node) | Filter(node=node):
            body = node if isinstance(node, Pipeline) else Pipeline((node,), node.position)
        case Series(node=series):
            body = yield second_stages(cursor, series)
        case Scalar():
            raise unexpected(cursor.next)
    hints: list[Hint] = []
    while cursor.take_if("with"):
        hints += _hints(cursor)
    if cursor.next.kind != END:
        raise unexpected(cursor.next, "with")
    query = Query(body, tuple(hints))
    _bound_depth(query)
    return query


def _hints(cursor: Cursor) -> list[Hint]:
    found: list[Hint] = []
    cursor.expect("(")
    while True:
        name = cursor.expect(IDENTIFIER)
        cursor.expect("=")
        value = cursor.expect(STRING, *NUMBERS, *CONSTANTS).literal
        found.append(Hint(name.text, value, name.position))
        if cursor.expect(",", ")").kind == ")":
            return found


def _bound_tasks(waiting: int) -> None:
    if waiting > MAX_DEPTH * _TASKS_PER_LEVEL:
        raise _too_deep()


def _bound_depth(query: Query) -> None:
    level: list[Node] = [query.body]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> ParseError:
    return ParseError(f"expression is nested more than {MAX_DEPTH} levels deep")
