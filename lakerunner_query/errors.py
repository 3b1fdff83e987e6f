"""Every error of a query, as a type that carries its HTTP answer.

Each error has a status, a stable code and, where the query text is at fault, a position. No other module
guesses a status from a message; the API only renders these errors.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the query text; both numbers are 1-based, columns count characters."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, col {self.column}"


class QueryError(Exception):
    """Base of all errors that a client may see."""

    status = 500
    code = "internal"

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class ParseError(QueryError):
    """The text is not a query of the language; worded as in Loki."""

    status = 400
    code = "parse_error"

    def __init__(self, message: str, position: Position | None = None) -> None:
        where = f"parse error at {position}: " if position else "parse error : "
        super().__init__(where + message, position)


class PromParseError(ParseError):
    """The text is not PromQL; worded as in Prometheus: `1:5: parse error: ...`."""

    def __init__(self, reason: str, place: str, span: tuple[int, int], position: Position) -> None:
        QueryError.__init__(self, f"{place}: parse error: {reason}", position)
        self.reason = reason
        self.span = span
        """Start and end in characters of the text."""


class PromDurationError(ParseError):
    """A duration expression has no usable value at this query's times; worded as in Prometheus."""

    def __init__(self, reason: str, span: tuple[int, int]) -> None:
        QueryError.__init__(self, f"{span[0]}:{span[1]}: {reason}")
        self.reason = reason
        self.span = span


class UnsupportedError(ParseError):
    """The language has the construct, this server does not; it is never skipped silently."""

    code = "unsupported"

    def __init__(self, construct: str, position: Position) -> None:
        super().__init__(f"not supported yet: {construct}", position)


class InvalidRequestError(QueryError):
    """A parameter beside the query text is missing or malformed."""

    status = 400
    code = "invalid_request"


class NotFoundError(QueryError):
    """The thing with this id does not exist."""

    status = 404
    code = "not_found"


class UnauthorizedError(QueryError):
    status = 401
    code = "unauthorized"


class ForbiddenError(QueryError):
    status = 403
    code = "forbidden"


class LimitExceededError(QueryError):
    """The query exceeds a limit of its organisation; the message says what to narrow."""

    status = 422
    code = "limit_exceeded"


class TooLargeError(LimitExceededError):
    """The statement needs more memory than it may have here; Spark may take it over."""

    code = "too_large"


class NotReadyError(QueryError):
    """The result of a query on Spark is not there yet."""

    status = 409
    code = "not_ready"


class CancelledQueryError(QueryError):
    """The query on Spark was cancelled; there will be no result."""

    status = 410
    code = "cancelled"


class TooManyQueriesError(QueryError):
    status = 429
    code = "too_many_queries"


class CannotResumeError(QueryError):
    """A stream cannot go on behind the event that was named; it has to be asked for anew."""

    status = 409
    code = "cannot_resume"


class QueryTimeoutError(QueryError):
    status = 504
    code = "query_timeout"


class IndexUnavailableError(QueryError):
    """The segment index did not answer two requests."""

    status = 503
    code = "index_unavailable"


class StoreUnavailableError(QueryError):
    """The object store did not answer, after every retry."""

    status = 503
    code = "store_unavailable"


class WorkerUnavailableError(QueryError):
    """No query worker finished a unit of work within the allowed attempts."""

    status = 503
    code = "worker_unavailable"


class WorkFailedError(QueryError):
    """A worker cannot do the unit, and neither can any other worker."""

    status = 500
    code = "work_failed"


class SegmentsMissingError(QueryError):
    """Segments could not be read, and the request forbids an answer without them."""

    status = 503
    code = "segments_missing"


SAME_LABELS = "vector cannot contain metrics with the same labelset"


class EvaluationError(QueryError):
    """The query fails for this data; worded as in Prometheus."""

    status = 422
    code = "execution"


class InvalidQueryError(ParseError):
    """The grammar allows the query, the language does not; worded without a place, as in Loki.

    `position` still holds the place of the construct, for clients that mark it in the text.
    """

    def __init__(self, reason: str, position: Position | None = None) -> None:
        QueryError.__init__(self, f"parse error : {reason}", position)


class InvalidTraceQueryError(InvalidQueryError):
    """The grammar of TraceQL allows the query, its types and values do not; worded as in Tempo."""

    def __init__(self, reason: str, position: Position) -> None:
        QueryError.__init__(self, reason, position)


class UnsupportedTraceQueryError(UnsupportedError):
    """TraceQL has the construct, and neither Tempo nor this server evaluates it."""

    def __init__(self, construct: str, position: Position) -> None:
        QueryError.__init__(self, f"{construct} not yet supported", position)


class TemplateSyntaxError(QueryError):
    """The text is not a template; worded as in Go: `template: line:1: unclosed action`."""

    status = 400
    code = "parse_error"

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"template: {name}:{line}: {reason}")
        self.line = line
        self.reason = reason
