"""Windows that the source can answer about by itself (from rollups), without handing out samples."""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.lang.promql.ast import Call, Matrix, Reach
from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import Vector
from lakerunner_query.windows.functions import Function


def answered(context: Context, call: Call, function: Function, *, keeps_name: bool = False) -> Vector | None:
    """None: the samples have to be looked at."""
    argument = bare(call.arguments[0])
    if not isinstance(argument, Matrix) or context.options.start_timestamps:
        return None
    window = context.window(argument)
    if window.reach != Reach.PLAIN:
        return None
    found = context.source.over_windows(function, argument.selector.matchers, window.grid)
    if found is None:
        return None
    drop_name = None if keeps_name else np.ones(len(found.labels), np.bool_)
    vector = occupied(Vector(found.labels, found.found.values, found.found.present, None, drop_name))
    return context.spread(vector) if window.is_fixed else vector
