"""Log queries, and log queries with a range: what stands inside `rate(…)`.

The range may follow the selector or the pipeline, and parentheses may enclose what precedes it:
`{…}[5m] | json`, `{…} | json [5m]`, `({…} | json)[5m]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.errors import Position
from lakerunner_query.gotext.durations import nanoseconds, range_nanoseconds
from lakerunner_query.lang.logql.ast import Conversion, LabelFilter, LogQuery, LogRange, Stage, Unwrap
from lakerunner_query.lang.logql.cursor import Cursor
from lakerunner_query.lang.logql.parser_filters import LINE_OPS, line_filter
from lakerunner_query.lang.logql.parser_selector import selector
from lakerunner_query.lang.logql.parser_stages import label_filter, stage
from lakerunner_query.lang.logql.tokens import DURATION, IDENTIFIER, RANGE
from lakerunner_query.lang.logql.vocabulary import CONVERSIONS
from lakerunner_query.syntax import Matcher, Task

_UNITS = {
    "duration": Conversion.DURATION,
    "duration_seconds": Conversion.DURATION,
    "bytes": Conversion.BYTES,
}


@dataclass(slots=True)
class _Parts:
    """A log range as far as it has been read."""

    position: Position
    matchers: tuple[Matcher, ...] = ()
    stages: tuple[Stage, ...] = ()
    unwrap: Unwrap | None = None
    range_ns: int | None = None
    offset_ns: int = 0


def log_query(cursor: Cursor) -> Task[LogQuery]:
    start = cursor.next.position
    matchers = selector(cursor)
    stages: list[Stage] = []
    while cursor.next.kind == "|" or cursor.next.kind in LINE_OPS:
        if cursor.next.kind in LINE_OPS:
            stages.append(line_filter(cursor))
        else:
            cursor.take()
            stages.append((yield stage(cursor)))
    return LogQuery(matchers, tuple(stages), start)


def log_range(cursor: Cursor) -> Task[LogRange]:
    if cursor.next.kind not in {"{", "("}:
        raise cursor.unexpected("{", "(")
    parts: _Parts = yield _parts(cursor)
    if parts.range_ns is None:
        raise cursor.unexpected(*_open_end(parts))
    query = LogQuery(parts.matchers, parts.stages, parts.position)
    return LogRange(query, parts.range_ns, parts.offset_ns, parts.unwrap, parts.position)


def _open_end(parts: _Parts) -> tuple[str, ...]:
    """What is named as missing where a range is."""
    return (RANGE, "|") if parts.unwrap else ()


def _parts(cursor: Cursor) -> Task[_Parts]:
    if cursor.next.kind == "(":
        enclosed: _Parts = yield _enclosed(cursor)
        return enclosed
    if cursor.next.kind != "{":
        raise cursor.unexpected("{", "(")
    parts = _Parts(cursor.next.position, selector(cursor))
    yield _pipeline(cursor, parts)
    is_bare = not parts.stages and parts.unwrap is None
    if cursor.next.kind == RANGE:
        _range(cursor, parts)
        if is_bare:
            yield _pipeline(cursor, parts)
    return parts


def _enclosed(cursor: Cursor) -> Task[_Parts]:
    """`(…)` around a whole range, or around the query of one: then it follows, and maybe an `unwrap`."""
    cursor.expect("(")
    parts: _Parts = yield _parts(cursor)
    if cursor.next.kind != ")":
        raise cursor.unexpected(*_open_end_in_parentheses(parts))
    cursor.take()
    if parts.range_ns is not None:
        return parts
    if cursor.next.kind != RANGE:
        raise cursor.unexpected(RANGE)
    _range(cursor, parts)
    if not parts.stages and parts.unwrap is None and cursor.take_if("|"):
        if cursor.next.kind != "unwrap":
            raise cursor.unexpected("unwrap")
        parts.unwrap = yield _unwrap(cursor)
    return parts


def _open_end_in_parentheses(parts: _Parts) -> tuple[str, ...]:
    if parts.range_ns is not None:
        return (")",)
    return (RANGE, ")", "|") if parts.unwrap else ()


def _range(cursor: Cursor, parts: _Parts) -> None:
    """Both durations have been found sound by the lexer."""
    parts.range_ns = range_nanoseconds(cursor.take().text)
    if cursor.take_if("offset"):
        parts.offset_ns = nanoseconds(cursor.expect(DURATION).text)


def _pipeline(cursor: Cursor, parts: _Parts) -> Task[None]:
    stages: list[Stage] = []
    while parts.unwrap is None and (cursor.next.kind == "|" or cursor.next.kind in LINE_OPS):
        if cursor.next.kind in LINE_OPS:
            stages.append(line_filter(cursor))
            continue
        cursor.take()
        if cursor.next.kind == "unwrap":
            parts.unwrap = yield _unwrap(cursor)
        else:
            stages.append((yield stage(cursor)))
    parts.stages = tuple(stages)


def _unwrap(cursor: Cursor) -> Task[Unwrap]:
    word = cursor.take()
    label, conversion = _unwrapped(cursor)
    filters: list[LabelFilter] = []
    while cursor.take_if("|"):
        if cursor.next.kind not in {IDENTIFIER, "("}:
            raise cursor.unexpected(IDENTIFIER, "(")
        filters.append((yield label_filter(cursor)))
    return Unwrap(label, conversion, tuple(filters), word.position)


def _unwrapped(cursor: Cursor) -> tuple[str, Conversion]:
    unit = cursor.take_if(*CONVERSIONS)
    if unit is None:
        return cursor.expect(IDENTIFIER, "bytes", "duration", "duration_seconds").text, Conversion.NONE
    cursor.expect("(")
    label = cursor.expect(IDENTIFIER)
    cursor.expect(")")
    return label.text, _UNITS[unit.kind]
