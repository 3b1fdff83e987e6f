"""`anchored` and `smoothed` mean something to some functions only; all others refuse them."""

from __future__ import annotations

from lakerunner_query.errors import EvaluationError
from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.simple import Implementation
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.lang.promql.ast import Call, Matrix, Reach
from lakerunner_query.vectors.vector import Value

USED_WITH = {
    Reach.ANCHORED: ("changes", "delta", "increase", "rate", "resets"),
    Reach.SMOOTHED: ("delta", "increase", "rate"),
}


def checked(name: str, function: Implementation) -> Implementation:
    refused = frozenset(reach for reach, names in USED_WITH.items() if name not in names)

    def apply(context: Context, call: Call) -> Value:
        for argument in map(bare, call.arguments):
            if isinstance(argument, Matrix) and argument.selector.reach in refused:
                reach = argument.selector.reach
                raise EvaluationError(
                    f"{reach} modifier can only be used with: {', '.join(USED_WITH[reach])} - not with {name}"
                )
        return function(context, call)

    return apply
