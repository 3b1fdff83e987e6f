"""The implementation of every PromQL function, one row each.

`promql/lang/functions.py` holds all other facts. `start`, `end`, `step` and `range` have no row: binding a
query to its times replaces their calls by numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.histogram.logarithm_kernels import ln, log2, log10
from lakerunner_query.histogram.quantiles import stddev, stdvar
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions import histograms, labels, numbers, over_time
from lakerunner_query.promql.functions.edges import event_count_function
from lakerunner_query.promql.functions.histograms import histogram_function, histogram_total_function
from lakerunner_query.promql.functions.info import info
from lakerunner_query.promql.functions.labels import label_order_function, value_order_function
from lakerunner_query.promql.functions.numbers import date_function, float_function
from lakerunner_query.promql.functions.over_time import (
    extreme_time_function,
    float_window_function,
    sample_time_function,
    sample_window_function,
    selection_function,
)
from lakerunner_query.promql.functions.rates import difference_function, growth_function
from lakerunner_query.promql.functions.sums import sum_function
from lakerunner_query.promql.lang.ast import Call, Matrix, Reach
from lakerunner_query.promql.lang.functions import FUNCTIONS
from lakerunner_query.promql.selectors import strip_parens
from lakerunner_query.vectors.vector import Value
from lakerunner_query.windows.functions import Function


@dataclass(frozen=True, slots=True)
class Implementation:
    body: FunctionBody
    rollup: Function | None
    """Function over windows that the source may answer from rollups; None where samples are always read."""


def _samples(body: FunctionBody) -> Implementation:
    return Implementation(body, rollup=None)


def _rollup(build: Callable[[Function], FunctionBody], function: Function) -> Implementation:
    return Implementation(build(function), function)


IMPLEMENTATIONS: Mapping[str, Implementation] = MappingProxyType(
    {
        "abs": _samples(float_function(np.abs)),
        "absent": _samples(labels.absent),
        "absent_over_time": Implementation(labels.absent_over_time, Function.PRESENT),
        "acos": _samples(float_function(np.arccos)),
        "acosh": _samples(float_function(np.arccosh)),
        "asin": _samples(float_function(np.arcsin)),
        "asinh": _samples(float_function(np.arcsinh)),
        "atan": _samples(float_function(np.arctan)),
        "atanh": _samples(float_function(np.arctanh)),
        "avg_over_time": _rollup(sum_function, Function.AVG),
        "ceil": _samples(float_function(np.ceil)),
        "changes": _rollup(event_count_function, Function.CHANGES),
        "clamp": _samples(numbers.clamp),
        "clamp_max": _samples(numbers.clamp_max),
        "clamp_min": _samples(numbers.clamp_min),
        "cos": _samples(float_function(np.cos)),
        "cosh": _samples(float_function(numbers.cosh)),
        "count_over_time": _rollup(sample_window_function, Function.COUNT),
        "day_of_month": _samples(date_function(numbers.day_of_month)),
        "day_of_week": _samples(date_function(numbers.day_of_week)),
        "day_of_year": _samples(date_function(numbers.day_of_year)),
        "days_in_month": _samples(date_function(numbers.days_in_month)),
        "deg": _samples(float_function(numbers.degrees)),
        "delta": _rollup(growth_function, Function.DELTA),
        "deriv": _samples(over_time.deriv),
        "double_exponential_smoothing": _samples(over_time.double_exponential_smoothing),
        "exp": _samples(float_function(np.exp)),
        "first_over_time": _rollup(selection_function, Function.FIRST),
        "floor": _samples(float_function(np.floor)),
        "histogram_avg": _samples(histogram_total_function(histograms.means)),
        "histogram_count": _samples(histogram_total_function(histograms.counts)),
        "histogram_fraction": _samples(histograms.histogram_fraction),
        "histogram_quantile": _samples(histograms.histogram_quantile),
        "histogram_quantiles": _samples(histograms.histogram_quantiles),
        "histogram_stddev": _samples(histogram_function(stddev)),
        "histogram_stdvar": _samples(histogram_function(stdvar)),
        "histogram_sum": _samples(histogram_total_function(histograms.sums)),
        "hour": _samples(date_function(numbers.hour)),
        "idelta": _rollup(difference_function, Function.IDELTA),
        "increase": _rollup(growth_function, Function.INCREASE),
        "info": _samples(info),
        "irate": _rollup(difference_function, Function.IRATE),
        "label_join": _samples(labels.label_join),
        "label_replace": _samples(labels.label_replace),
        "last_over_time": _rollup(selection_function, Function.LAST),
        "ln": _samples(float_function(ln)),
        "log10": _samples(float_function(log10)),
        "log2": _samples(float_function(log2)),
        "mad_over_time": _samples(over_time.mad_over_time),
        "max_of": _samples(numbers.max_of),
        "max_over_time": _rollup(float_window_function, Function.MAX),
        "min_of": _samples(numbers.min_of),
        "min_over_time": _rollup(float_window_function, Function.MIN),
        "minute": _samples(date_function(numbers.minute)),
        "month": _samples(date_function(numbers.month)),
        "pi": _samples(numbers.pi),
        "predict_linear": _samples(over_time.predict_linear),
        "present_over_time": _rollup(sample_window_function, Function.PRESENT),
        "quantile_over_time": _samples(over_time.quantile_over_time),
        "rad": _samples(float_function(numbers.radians)),
        "rate": _rollup(growth_function, Function.RATE),
        "resets": _rollup(event_count_function, Function.RESETS),
        "round": _samples(numbers.round_to),
        "scalar": _samples(numbers.scalar),
        "sgn": _samples(float_function(numbers.sign)),
        "sin": _samples(float_function(np.sin)),
        "sinh": _samples(float_function(numbers.sinh)),
        "sort": _samples(value_order_function(descending=False)),
        "sort_by_label": _samples(label_order_function(descending=False)),
        "sort_by_label_desc": _samples(label_order_function(descending=True)),
        "sort_desc": _samples(value_order_function(descending=True)),
        "sqrt": _samples(float_function(np.sqrt)),
        "start_timestamp": _samples(labels.start_timestamp),
        "stddev_over_time": _rollup(float_window_function, Function.STDDEV),
        "stdvar_over_time": _rollup(float_window_function, Function.STDVAR),
        "sum_over_time": _rollup(sum_function, Function.SUM),
        "tan": _samples(float_function(np.tan)),
        "tanh": _samples(float_function(np.tanh)),
        "time": _samples(numbers.time),
        "timestamp": Implementation(labels.timestamp, Function.TIMESTAMP),
        "ts_of_first_over_time": _samples(sample_time_function(Function.FIRST)),
        "ts_of_last_over_time": _samples(sample_time_function(Function.LAST)),
        "ts_of_max_over_time": _samples(extreme_time_function(is_maximum=True)),
        "ts_of_min_over_time": _samples(extreme_time_function(is_maximum=False)),
        "vector": _samples(numbers.vector),
        "year": _samples(date_function(numbers.year)),
    }
)


def evaluate_call(context: Context, call: Call) -> Value:
    _check_modifiers(call)
    return IMPLEMENTATIONS[call.function].body(context, call)


def _check_modifiers(call: Call) -> None:
    """Raise for `anchored` or `smoothed` below a function that gives them no meaning."""
    for argument in map(strip_parens, call.arguments):
        if not isinstance(argument, Matrix) or argument.selector.reach is Reach.PLAIN:
            continue
        reach = argument.selector.reach
        if reach not in FUNCTIONS[call.function].modifiers:
            names = ", ".join(name for name, one in FUNCTIONS.items() if reach in one.modifiers)
            raise EvaluationError(
                f"{reach} modifier can only be used with: {names} - not with {call.function}"
            )
