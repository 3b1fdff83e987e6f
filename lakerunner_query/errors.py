"""Everything that can go wrong with a query, as types that already know their HTTP answer.

Each error carries a status, a stable code and, where the query text is at fault, a position. No other
module guesses a status from a message; `api/failures.py` only renders what is said here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the query text, both 1-based, columns counted in characters."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, col {self.column}"


class QueryError(Exception):
    """The base of all errors that a caller may be told about."""

    status = 500
    code = "internal"

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class ParseError(QueryError):
    """The text is not a query of the language; spelled the way Loki spells it."""

    status = 400
    code = "parse_error"

    def __init__(self, message: str, position: Position | None = None) -> None:
        where = f"parse error at {position}: " if position else "parse error : "
        super().__init__(where + message, position)


class PromParseError(ParseError):
    """The text is not PromQL; spelled the way Prometheus spells it: `1:5: parse error: ...`."""

    def __init__(self, reason: str, place: str, span: tuple[int, int], position: Position) -> None:
        QueryError.__init__(self, f"{place}: parse error: {reason}", position)
        self.reason = reason
        self.span = span
        """Characters of the text, from and to."""


class PromDurationError(ParseError):
    """A duration expression has no usable value at this query's times; spelled as Prometheus does."""

    def __init__(self, reason: str, span: tuple[int, int]) -> None:
        QueryError.__init__(self, f"{span[0]}:{span[1]}: {reason}")
        self.reason = reason
        self.span = span


class UnsupportedError(ParseError):
    """Valid in the language, not built yet: said aloud, never skipped."""

    code = "unsupported"

    def __init__(self, construct: str, position: Position) -> None:
        super().__init__(f"not supported yet: {construct}", position)


class InvalidRequestError(QueryError):
    """A parameter beside the query text is missing or malformed."""

    status = 400
    code = "invalid_request"


class UnauthorizedError(QueryError):
    status = 401
    code = "unauthorized"


class ForbiddenError(QueryError):
    status = 403
    code = "forbidden"


class LimitExceededError(QueryError):
    """Asks for more than the organisation may have; the message says what to narrow."""

    status = 422
    code = "limit_exceeded"


class TooManyQueriesError(QueryError):
    status = 429
    code = "too_many_queries"


class QueryTimeoutError(QueryError):
    status = 504
    code = "query_timeout"


class IndexUnavailableError(QueryError):
    """The segment index did not answer, twice."""

    status = 503
    code = "index_unavailable"


class WorkerUnavailableError(QueryError):
    """No query worker finished a unit of work within the allowed attempts."""

    status = 503
    code = "worker_unavailable"


class WorkFailedError(QueryError):
    """A worker answered that the unit itself cannot be done; another worker would say the same."""

    status = 500
    code = "work_failed"


class SegmentsMissingError(QueryError):
    """Segments could not be read, and an answer without them was not wanted."""

    status = 503
    code = "segments_missing"


# << What goes wrong while a query is evaluated; wording is Prometheus'.

SAME_LABELS = "vector cannot contain metrics with the same labelset"


class EvaluationError(QueryError):
    """The query is well formed, but not for this data."""

    status = 422
    code = "execution"


# << A query that the grammar allows and the language does not: said without a place, as Loki says it.
# <<
# << The place is known all the same, for those who mark it in the text.


class InvalidQueryError(ParseError):
    """`parse error : …`; `position` is where the construct stands."""

    def __init__(self, reason: str, position: Position | None = None) -> None:
        QueryError.__init__(self, f"parse error : {reason}", position)


# << What is wrong with a template, spelled as Go spells it: `template: line:1: unclosed action`.


class TemplateSyntaxError(QueryError):
    """The text is not a template; `line` is 1-based and counts inside the template."""

    status = 400
    code = "parse_error"

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"template: {name}:{line}: {reason}")
        self.line = line
        self.reason = reason
