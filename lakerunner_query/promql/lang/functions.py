"""One row per function and per aggregation operator: everything but the arithmetic.

The parser, the planner and the printer read these rows, so this module imports neither numpy nor kernels.
`promql/functions/registry.py` and `promql/aggregation.py` bind an implementation to each name.

    round(v instant-vector, to_nearest=1 scalar)

    Signature((VECTOR, SCALAR), VECTOR, variadic=1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import NamedTuple

from lakerunner_query.promql.lang.ast import DurationOp, Reach, Type

SCALAR, VECTOR, MATRIX, STRING = Type.SCALAR, Type.VECTOR, Type.MATRIX, Type.STRING


@dataclass(frozen=True, slots=True)
class Signature:
    arguments: tuple[Type, ...]
    returns: Type
    variadic: int
    """Uses of the last argument: 0 exactly one, n at most n, -1 any number."""

    def type_of_argument(self, index: int) -> Type | None:
        """Return the type expected at `index`; None where no argument may stand."""
        if index < len(self.arguments):
            return self.arguments[index]
        return self.arguments[-1] if self.variadic and self.arguments else None


class Sharding(Enum):
    """Conditions under which workers may compute a call for some of the series each."""

    BY_SERIES = "each series on its own"
    BY_ARGUMENT = "once all shards of its arguments are merged"
    NOT_OF_SELECTORS = "reads the samples of a selector argument itself"
    NEVER = "reads series besides those of its arguments"


class ResetHints(IntEnum):
    """Treatment of the counter reset hints of histograms below a call; the strictest one around wins."""

    STORED = 0
    DETECTED = 1
    """Unknown hints are replaced by comparing neighbouring histograms."""
    FINAL = 2
    """Stored hints stay, whatever is called below."""


RESET_CONTEXT_MS = 300_000
"""Time before a histogram in which the one is looked for that it may continue.

The same time for every evaluation, and before the samples that it reads: a query that is cut says what one
that is not cut says. Prometheus looks as far as it happens to have read.
"""


class QueryTimes(NamedTuple):
    start_ms: int
    end_ms: int
    step_ms: int


@dataclass(frozen=True, slots=True)
class Syntax:
    """Peculiarities of a function that the parser has to know."""

    is_keyword: bool
    """Case does not matter, and the name is no identifier outside braces."""
    duration_op: DurationOp | None
    """Operation in a duration expression such as `[step() * 2]`."""
    label_selector: int | None
    """Index of the argument that only selects labels, `{version=~".+"}`."""
    value: Callable[[QueryTimes], float] | None
    """Value known from the times of the query; such a call is a number before evaluation begins."""


@dataclass(frozen=True, slots=True)
class PromFunction:
    signature: Signature
    is_experimental: bool
    sharding: Sharding
    looks_at_time: bool
    """The result depends on the evaluation time even if no argument does."""
    hints_below: ResetHints
    modifiers: frozenset[Reach]
    """Range modifiers that the function gives a meaning to."""
    orders_answer: bool
    """An instant query returns series in the order of the result, not of their labels."""
    syntax: Syntax


@dataclass(frozen=True, slots=True)
class AggregationOperator:
    parameter: Type | None
    is_experimental: bool
    orders_answer: bool


@dataclass(frozen=True, slots=True)
class MergedWindow:
    """Function over the samples of a window, and the aggregation that merges outcomes of several series."""

    aggregation: str
    over_time: str


TOTAL = MergedWindow("sum", "sum_over_time")
NUMBER = MergedWindow("sum", "count_over_time")
LEAST = MergedWindow("min", "min_over_time")
GREATEST = MergedWindow("max", "max_over_time")
TO_VECTOR, SET_LABEL = "vector", "label_replace"
"""Functions that expressions which no person wrote are made of."""

OF_VECTOR = Signature((VECTOR,), VECTOR, 0)
OF_MATRIX = Signature((MATRIX,), VECTOR, 0)
OF_DATE = Signature((VECTOR,), VECTOR, 1)
OF_NOTHING = Signature((), SCALAR, 0)
OF_SCALARS = Signature((SCALAR, SCALAR), SCALAR, 0)
VECTOR_AND_SCALAR = Signature((VECTOR, SCALAR), VECTOR, 0)
VECTOR_AND_LABELS = Signature((VECTOR, STRING), VECTOR, -1)
STABLE, EXPERIMENTAL = False, True
ANY_TIME, OWN_TIME = False, True
STORED, DETECTED, FINAL = ResetHints
BY_SERIES, BY_ARGUMENT, NOT_OF_SELECTORS, NEVER = Sharding
PLAIN: frozenset[Reach] = frozenset()
ANCHORED = frozenset({Reach.ANCHORED})
BOTH = frozenset({Reach.ANCHORED, Reach.SMOOTHED})
UNORDERED, ORDERED = False, True


def _step(times: QueryTimes) -> float:
    """An answer at a single time has no step, whatever the request says."""
    return times.step_ms / 1000 if times.start_ms != times.end_ms else 0.0


CALL = Syntax(is_keyword=False, duration_op=None, label_selector=None, value=None)
START = Syntax(
    is_keyword=True, duration_op=None, label_selector=None, value=lambda times: times.start_ms / 1000
)
END = Syntax(is_keyword=True, duration_op=None, label_selector=None, value=lambda times: times.end_ms / 1000)
RANGE = Syntax(
    is_keyword=True,
    duration_op=DurationOp.RANGE,
    label_selector=None,
    value=lambda times: (times.end_ms - times.start_ms) / 1000,
)
STEP = Syntax(is_keyword=True, duration_op=DurationOp.STEP, label_selector=None, value=_step)
MIN_OF = Syntax(is_keyword=True, duration_op=DurationOp.MIN, label_selector=None, value=None)
MAX_OF = Syntax(is_keyword=True, duration_op=DurationOp.MAX, label_selector=None, value=None)
INFO = Syntax(is_keyword=False, duration_op=None, label_selector=1, value=None)

# fmt: off
FUNCTIONS: Mapping[str, PromFunction] = MappingProxyType({
    "abs": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "absent": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "absent_over_time": PromFunction(
        OF_MATRIX, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "acos": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "acosh": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "asin": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "asinh": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "atan": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "atanh": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "avg_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "ceil": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "changes": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, ANCHORED, UNORDERED, CALL),
    "clamp": PromFunction(
        Signature((VECTOR, SCALAR, SCALAR), VECTOR, 0),
        STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "clamp_max": PromFunction(
        VECTOR_AND_SCALAR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "clamp_min": PromFunction(
        VECTOR_AND_SCALAR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "cos": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "cosh": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "count_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "day_of_month": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "day_of_week": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "day_of_year": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "days_in_month": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "deg": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "delta": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, BOTH, UNORDERED, CALL),
    "deriv": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "double_exponential_smoothing": PromFunction(
        Signature((MATRIX, SCALAR, SCALAR), VECTOR, 0),
        EXPERIMENTAL, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "end": PromFunction(OF_NOTHING, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, END),
    "exp": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "first_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "floor": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "histogram_avg": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, DETECTED, PLAIN, UNORDERED, CALL),
    "histogram_count": PromFunction(
        OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, DETECTED, PLAIN, UNORDERED, CALL,
    ),
    "histogram_fraction": PromFunction(
        Signature((SCALAR, SCALAR, VECTOR), VECTOR, 0),
        STABLE, BY_ARGUMENT, ANY_TIME, FINAL, PLAIN, UNORDERED, CALL,
    ),
    "histogram_quantile": PromFunction(
        Signature((SCALAR, VECTOR), VECTOR, 0), STABLE, BY_ARGUMENT, ANY_TIME, FINAL, PLAIN, UNORDERED, CALL,
    ),
    "histogram_quantiles": PromFunction(
        Signature((VECTOR, STRING, SCALAR, SCALAR), VECTOR, 9),
        EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, FINAL, PLAIN, UNORDERED, CALL,
    ),
    "histogram_stddev": PromFunction(
        OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "histogram_stdvar": PromFunction(
        OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "histogram_sum": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, DETECTED, PLAIN, UNORDERED, CALL),
    "hour": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "idelta": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "increase": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, BOTH, UNORDERED, CALL),
    "info": PromFunction(
        Signature((VECTOR, VECTOR), VECTOR, 1), EXPERIMENTAL, NEVER, ANY_TIME, STORED, PLAIN, UNORDERED, INFO,
    ),
    "irate": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "label_join": PromFunction(
        Signature((VECTOR, STRING, STRING, STRING), VECTOR, -1),
        STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "label_replace": PromFunction(
        Signature((VECTOR, STRING, STRING, STRING, STRING), VECTOR, 0),
        STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "last_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "ln": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "log10": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "log2": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "mad_over_time": PromFunction(
        OF_MATRIX, EXPERIMENTAL, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "max_of": PromFunction(OF_SCALARS, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, MAX_OF),
    "max_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "min_of": PromFunction(OF_SCALARS, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, MIN_OF),
    "min_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "minute": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "month": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "pi": PromFunction(OF_NOTHING, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "predict_linear": PromFunction(
        Signature((MATRIX, SCALAR), VECTOR, 0), STABLE, BY_SERIES, OWN_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "present_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "quantile_over_time": PromFunction(
        Signature((SCALAR, MATRIX), VECTOR, 0), STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "rad": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "range": PromFunction(OF_NOTHING, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, RANGE),
    "rate": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, BOTH, UNORDERED, CALL),
    "resets": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, ANCHORED, UNORDERED, CALL),
    "round": PromFunction(
        Signature((VECTOR, SCALAR), VECTOR, 1), STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "scalar": PromFunction(
        Signature((VECTOR,), SCALAR, 0), STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "sgn": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "sin": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "sinh": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "sort": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, ORDERED, CALL),
    "sort_by_label": PromFunction(
        VECTOR_AND_LABELS, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, ORDERED, CALL,
    ),
    "sort_by_label_desc": PromFunction(
        VECTOR_AND_LABELS, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, ORDERED, CALL,
    ),
    "sort_desc": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, ORDERED, CALL),
    "sqrt": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "start": PromFunction(OF_NOTHING, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, START),
    "start_timestamp": PromFunction(
        OF_VECTOR, EXPERIMENTAL, NOT_OF_SELECTORS, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "stddev_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "stdvar_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "step": PromFunction(OF_NOTHING, EXPERIMENTAL, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, STEP),
    "sum_over_time": PromFunction(OF_MATRIX, STABLE, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "tan": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "tanh": PromFunction(OF_VECTOR, STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL),
    "time": PromFunction(OF_NOTHING, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "timestamp": PromFunction(OF_VECTOR, STABLE, NOT_OF_SELECTORS, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
    "ts_of_first_over_time": PromFunction(
        OF_MATRIX, EXPERIMENTAL, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "ts_of_last_over_time": PromFunction(
        OF_MATRIX, EXPERIMENTAL, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "ts_of_max_over_time": PromFunction(
        OF_MATRIX, EXPERIMENTAL, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "ts_of_min_over_time": PromFunction(
        OF_MATRIX, EXPERIMENTAL, BY_SERIES, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "vector": PromFunction(
        Signature((SCALAR,), VECTOR, 0), STABLE, BY_ARGUMENT, ANY_TIME, STORED, PLAIN, UNORDERED, CALL,
    ),
    "year": PromFunction(OF_DATE, STABLE, BY_ARGUMENT, OWN_TIME, STORED, PLAIN, UNORDERED, CALL),
})
"""Columns: signature, maturity, sharding, own time, hints below, modifiers, orders the answer, syntax."""

AGGREGATIONS: Mapping[str, AggregationOperator] = MappingProxyType({
    "avg": AggregationOperator(None, STABLE, UNORDERED),
    "bottomk": AggregationOperator(SCALAR, STABLE, ORDERED),
    "count": AggregationOperator(None, STABLE, UNORDERED),
    "count_values": AggregationOperator(STRING, STABLE, UNORDERED),
    "group": AggregationOperator(None, STABLE, UNORDERED),
    "limit_ratio": AggregationOperator(SCALAR, EXPERIMENTAL, UNORDERED),
    "limitk": AggregationOperator(SCALAR, EXPERIMENTAL, UNORDERED),
    "max": AggregationOperator(None, STABLE, UNORDERED),
    "min": AggregationOperator(None, STABLE, UNORDERED),
    "quantile": AggregationOperator(SCALAR, STABLE, UNORDERED),
    "stddev": AggregationOperator(None, STABLE, UNORDERED),
    "stdvar": AggregationOperator(None, STABLE, UNORDERED),
    "sum": AggregationOperator(None, STABLE, UNORDERED),
    "topk": AggregationOperator(SCALAR, STABLE, ORDERED),
})
"""Columns: type of the parameter, maturity, orders the answer."""
# fmt: on
