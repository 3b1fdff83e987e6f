"""Every function of PromQL, by name.

| file | what |
|---|---|
| `simple.py`, `scalars.py`, `dates.py` | one number at a time |
| `rates.py`, `last_two.py`, `events.py`, `summing.py`, `over_time.py` | range vectors, on `ranged.py` |
| `kernels_*.py` | windows of floats, compiled |
| `histograms.py`, `quantiles.py` | native and classic histograms |
| `relabel.py`, `ordering.py`, `presence.py`, `stamps.py`, `info.py` | labels, order, absence, times |
| `messages.py` | the words of annotations |
"""

from __future__ import annotations

from collections.abc import Mapping

from lakerunner_query.errors import EvaluationError
from lakerunner_query.promql.context import Context
from lakerunner_query.promql.functions.edges import counting
from lakerunner_query.promql.functions.histograms import (
    HISTOGRAMS,
    histogram_fraction,
    histogram_quantile,
    histogram_quantiles,
)
from lakerunner_query.promql.functions.info import info
from lakerunner_query.promql.functions.labels import (
    ORDERING,
    absent,
    absent_over_time,
    label_join,
    label_replace,
    start_timestamp,
    timestamp,
)
from lakerunner_query.promql.functions.numbers import DATES, SCALARS, SIMPLE, Implementation
from lakerunner_query.promql.functions.over_time import OVER_TIME
from lakerunner_query.promql.functions.rates import growing, of_last_two
from lakerunner_query.promql.functions.sums import summing
from lakerunner_query.promql.lang.ast import Call, Matrix, Reach
from lakerunner_query.promql.selectors import bare
from lakerunner_query.vectors.vector import Value
from lakerunner_query.windows.functions import Function

# << `anchored` and `smoothed` mean something to some functions only; all others refuse them.

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


_ALL: dict[str, Implementation] = {
    **SIMPLE,
    **SCALARS,
    **DATES,
    **HISTOGRAMS,
    **ORDERING,
    **OVER_TIME,
    "absent": absent,
    "absent_over_time": absent_over_time,
    "avg_over_time": summing(Function.AVG),
    "changes": counting(Function.CHANGES),
    "delta": growing(Function.DELTA),
    "histogram_fraction": histogram_fraction,
    "histogram_quantile": histogram_quantile,
    "histogram_quantiles": histogram_quantiles,
    "idelta": of_last_two(Function.IDELTA),
    "increase": growing(Function.INCREASE),
    "info": info,
    "irate": of_last_two(Function.IRATE),
    "label_join": label_join,
    "label_replace": label_replace,
    "rate": growing(Function.RATE),
    "resets": counting(Function.RESETS),
    "start_timestamp": start_timestamp,
    "sum_over_time": summing(Function.SUM),
    "timestamp": timestamp,
}
FUNCTIONS: Mapping[str, Implementation] = {name: checked(name, function) for name, function in _ALL.items()}
"""`start`, `end`, `step` and `range` are not here: binding a query to its times makes numbers of them."""
