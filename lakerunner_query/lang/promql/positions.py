"""Places in a query text as Prometheus counts them.

Spans of the tree are characters. Messages name the line and, in it, the byte of the UTF-8 text, as Prometheus
does; `Position` in an error is for editors and counts characters.
"""

from __future__ import annotations

from lakerunner_query.errors import Position, PromParseError
from lakerunner_query.lang.promql.ast import Span


def position_of(text: str, span: Span) -> Position:
    """Line and column of the start of the span; the column counts bytes.

    >>> position_of('sum(\\nup)', Span(5, 7))
    Position(line=2, column=1)
    """
    before = text[: span.start]
    return Position(before.count("\n") + 1, len(_last_line(before).encode(errors="surrogateescape")) + 1)


def failure(text: str, reason: str, span: Span) -> PromParseError:
    """The error to raise about `text`."""
    before = text[: span.start]
    place = position_of(text, span)
    return PromParseError(
        reason,
        f"{place.line}:{place.column}" if text else "unknown position",
        span,
        Position(place.line, len(_last_line(before)) + 1),
    )


def byte_span(text: str, span: Span) -> Span:
    """The same place in the UTF-8 bytes of the text."""
    return Span(*(len(text[:at].encode(errors="surrogateescape")) for at in span))


def _last_line(before: str) -> str:
    return before[before.rfind("\n") + 1 :]
