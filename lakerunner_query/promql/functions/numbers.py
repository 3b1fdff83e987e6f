"""Functions of floats: arithmetic, trigonometry, dates and scalars. Histograms drop out.

    month(vector(1136239445))  ->  1       2006-01-02T22:04:05Z

Dates are UTC in the proleptic Gregorian calendar, from seconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lakerunner_query.gotext.conversions import larger, smaller
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.windows import scalar_of, single_series, vector_of, without_names
from lakerunner_query.promql.lang.ast import Call
from lakerunner_query.vectors.rows import has_float
from lakerunner_query.vectors.vector import Scalar, Value
from resources.arrays import Doubles, Int64s


def float_function(function: Callable[[Doubles], Doubles]) -> FunctionBody:
    """Build a function of one float at a time; infinities, NaN and overflow are results."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        with np.errstate(all="ignore"):
            values = function(vector.values)
        return without_names(vector.labels, values, has_float(vector))

    return apply


def sign(values: Doubles) -> Doubles:
    """Return -1 or 1; NaN and zeros stay as they are, with their sign."""
    found: Doubles = np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))
    return found


def sinh(values: Doubles) -> Doubles:
    return _fix_overflow(np.sinh(values), values, np.copysign(np.inf, values))


def cosh(values: Doubles) -> Doubles:
    return _fix_overflow(np.cosh(values), values, np.full(values.shape, np.inf))


def _fix_overflow(found: Doubles, values: Doubles, infinite: Doubles) -> Doubles:
    """Set infinity where `e^x` is infinite, which Prometheus halves."""
    answers: Doubles = np.where(np.isinf(np.exp(np.abs(values))), infinite, found)
    return answers


def round_to(context: Context, call: Call) -> Value:
    """Round ties up; `to_nearest` is inverted first because that loses fewer digits."""
    vector = vector_of(context, call)
    nearest = scalar_of(context, call, 1) if len(call.arguments) > 1 else np.ones(context.steps.count)
    with np.errstate(all="ignore"):
        inverse = 1.0 / nearest
        values = np.floor(vector.values * inverse + 0.5) / inverse
    return without_names(vector.labels, values, has_float(vector))


def clamp(context: Context, call: Call) -> Value:
    return _clamp(context, call, scalar_of(context, call, 1), scalar_of(context, call, 2))


def clamp_min(context: Context, call: Call) -> Value:
    return _clamp(context, call, scalar_of(context, call, 1), np.full(context.steps.count, np.inf))


def clamp_max(context: Context, call: Call) -> Value:
    return _clamp(context, call, np.full(context.steps.count, -np.inf), scalar_of(context, call, 1))


def _clamp(context: Context, call: Call, lowest: Doubles, highest: Doubles) -> Value:
    """Clamp values; steps whose bounds are swapped have no value."""
    vector = vector_of(context, call)
    values = larger(lowest, smaller(highest, vector.values))
    return without_names(vector.labels, values, has_float(vector) & ~(highest < lowest))


def degrees(values: Doubles) -> Doubles:
    return values * 180 / math.pi


def radians(values: Doubles) -> Doubles:
    return values * math.pi / 180


def time(context: Context, _: Call) -> Value:
    return Scalar(context.steps.times_ms / 1000)


def pi(context: Context, _: Call) -> Value:
    return Scalar(np.full(context.steps.count, math.pi))


def scalar(context: Context, call: Call) -> Value:
    """Return the value at steps with exactly one float, else NaN."""
    vector = vector_of(context, call)
    floats = has_float(vector)
    count = floats.sum(axis=0)
    values = np.full(context.steps.count, np.nan)
    found = np.flatnonzero(count == 1)
    if len(found):
        values[found] = vector.values[floats[:, found].argmax(axis=0), found]
    return Scalar(values)


def vector(context: Context, call: Call) -> Value:
    return single_series(scalar_of(context, call, 0))


def min_of(context: Context, call: Call) -> Value:
    return Scalar(smaller(scalar_of(context, call, 0), scalar_of(context, call, 1)))


def max_of(context: Context, call: Call) -> Value:
    return Scalar(larger(scalar_of(context, call, 0), scalar_of(context, call, 1)))


DAY = 86_400
_THURSDAY = 4
"""Day of the week of 1 January 1970; Sunday is 0."""
_FARTHEST = 2**62
"""Bound in seconds; later times and NaN are all the same time."""
_ERA_YEARS, _ERA = 400, 146_097 * DAY
"""Period of the calendar in years and in seconds, days of the week included."""
_NO_TIME = 2**63 - _ERA
"""Time of NaN: Go's clock wraps around to second 2^63, one era after this."""


def date_function(part: Callable[[Int64s], Int64s]) -> FunctionBody:
    """Build a function of dates; without argument it takes the time of evaluation."""

    def apply(context: Context, call: Call) -> Value:
        if not call.arguments:
            return single_series(part(context.steps.times_ms // 1000).astype(np.float64))
        vector = vector_of(context, call)
        values = part(_seconds(vector.values)).astype(np.float64)
        return without_names(vector.labels, values, has_float(vector))

    return apply


def _seconds(values: Doubles) -> Int64s:
    """Convert to whole seconds, towards zero; values that are no time get what Go's conversion gives."""
    is_time = np.abs(values) < _FARTHEST
    found: Int64s = np.where(is_time, values, 0).astype(np.int64)
    found[~is_time] = _NO_TIME
    return found


def civil(seconds: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Split seconds into year, month and day, counting whole eras of 400 years from a 1 March.

    >>> [part.tolist() for part in civil(np.array([0, 951_782_399, 951_782_400]))]
    [[1970, 2000, 2000], [1, 2, 2], [1, 28, 29]]
    """
    days = seconds // DAY + 719_468
    era = days // 146_097
    of_era = days - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = np.where(month < 10, month + 3, month - 9)
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day


def _is_leap(year: Int64s) -> Int64s:
    found: Int64s = ((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))).astype(np.int64)
    return found


def year(seconds: Int64s) -> Int64s:
    found: Int64s = civil(seconds)[0] + np.where(seconds == _NO_TIME, _ERA_YEARS, 0)
    return found


def month(seconds: Int64s) -> Int64s:
    return civil(seconds)[1]


def day_of_month(seconds: Int64s) -> Int64s:
    return civil(seconds)[2]


def day_of_year(seconds: Int64s) -> Int64s:
    of_year, of_month, day = civil(seconds)
    before = np.array([0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334])
    found: Int64s = before[of_month - 1] + day + ((of_month > 2) & (_is_leap(of_year) == 1))
    return found


def days_in_month(seconds: Int64s) -> Int64s:
    of_year, of_month, _ = civil(seconds)
    days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    found: Int64s = days[of_month - 1] + ((of_month == 2) & (_is_leap(of_year) == 1))
    return found


def day_of_week(seconds: Int64s) -> Int64s:
    return (seconds // DAY + _THURSDAY) % 7


def hour(seconds: Int64s) -> Int64s:
    return seconds % DAY // 3_600


def minute(seconds: Int64s) -> Int64s:
    return seconds % 3_600 // 60
