"""What goes wrong while a query is evaluated; wording is Prometheus'."""

from __future__ import annotations

from lakerunner_query.errors import QueryError

SAME_LABELS = "vector cannot contain metrics with the same labelset"


class EvaluationError(QueryError):
    """The query is well formed, but not for this data."""

    status = 422
    code = "execution"
