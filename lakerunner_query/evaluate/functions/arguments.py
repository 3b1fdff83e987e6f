"""Arguments of calls: parentheses off, scalars by step, and where annotations about them are placed."""

from __future__ import annotations

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.messages import Notes
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.lang.promql.ast import NOWHERE, Call, Subquery
from lakerunner_query.vectors.vector import Vector
from resources.arrays import Doubles


def vector_of(context: Context, call: Call, index: int = 0) -> Vector:
    return context.vector(call.arguments[index])


def scalar_of(context: Context, call: Call, index: int) -> Doubles:
    """By step."""
    return context.scalar(call.arguments[index]).values


def texts_of(context: Context, call: Call, begin: int) -> tuple[str, ...]:
    return tuple(context.text(argument) for argument in call.arguments[begin:])


def notes_at(context: Context, call: Call, index: int) -> Notes:
    """Prometheus computes a subquery first and then no longer knows where it stood: (1:1)."""
    argument = bare(call.arguments[index])
    return Notes(context.annotations, NOWHERE if isinstance(argument, Subquery) else argument.span)
