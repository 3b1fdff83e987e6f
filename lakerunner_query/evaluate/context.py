"""What the parts of an expression are evaluated in: times, samples, options, and where annotations go.

Functions get a `Context` and their `Call`:

    def absolute(context: Context, call: Call) -> Value:
        vector = context.vector(call.arguments[0])
        ...

and for range functions

    window = context.window(call.arguments[0])      # where to look
    series = context.samples(call.arguments[0])     # what is there, without stale markers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from lakerunner_query.evaluate.notes import Annotation, Annotations, Forced
from lakerunner_query.evaluate.source import Source
from lakerunner_query.lang.promql.ast import Expr, Matrix, Reach, Selector, Subquery
from lakerunner_query.vectors.vector import Scalar, Series, Steps, String, Value, Vector
from lakerunner_query.windows.functions import Grid

__all__ = [
    "Annotation",
    "Annotations",
    "Context",
    "Evaluator",
    "Forced",
    "Given",
    "Hints",
    "Options",
    "Window",
]


@dataclass(frozen=True, slots=True)
class Options:
    lookback_ms: int = 300_000
    default_subquery_step_ms: int = 60_000
    start_timestamps: bool = False
    """Range functions look at when counters began to count."""
    type_and_unit_labels: bool = False
    """Whether a metric is a counter is told by its label `__type__` instead of its name."""
    max_cells: int = 50_000_000
    """Series x steps, or samples, that one value may have."""


class Hints(Enum):
    """What histograms of selectors say about resets between them."""

    STORED = 0
    FOUND = 1
    """Unknown ones are found out: below `histogram_count`, `histogram_sum`, `histogram_avg`."""
    KEPT = 2
    """As stored, whatever is below."""


_STATISTICS = frozenset({"histogram_count", "histogram_sum", "histogram_avg"})
_WHOLE_HISTOGRAMS = frozenset({"histogram_quantile", "histogram_quantiles", "histogram_fraction"})


def hints_below(function: str, hints: Hints) -> Hints:
    """What the arguments of a call are evaluated with."""
    if function in _WHOLE_HISTOGRAMS:
        return Hints.KEPT
    return Hints.FOUND if function in _STATISTICS and hints is Hints.STORED else hints


@dataclass(frozen=True, slots=True)
class Given:
    """A part of an expression that was evaluated elsewhere, and what was to be said about it."""

    vector: Vector
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Where a selector, range selector or subquery looks."""

    grid: Grid
    """One step only if `is_fixed`."""
    is_fixed: bool
    """`@ t`: the same window at every step; a function answers once and `spread` repeats it."""
    reach: Reach = Reach.PLAIN


@dataclass(frozen=True, slots=True)
class Context:
    steps: Steps
    source: Source
    options: Options
    annotations: Annotations
    evaluator: Evaluator = field(repr=False)
    hints: Hints = Hints.STORED
    invariant: frozenset[int] = frozenset()
    """The ids of expressions that are the same at every step."""
    given: Mapping[int, Given] = field(default_factory=dict)
    """By the ids of expressions that need not be evaluated."""

    def evaluate(self, expr: Expr) -> Value:
        """Any argument; range vectors as `samples` gives them."""
        return self.evaluator.evaluate(self, expr)

    def vector(self, expr: Expr) -> Vector:
        value = self.evaluate(expr)
        if not isinstance(value, Vector):
            raise TypeError(f"expected an instant vector, found {type(value).__name__} for {expr}")
        return value

    def scalar(self, expr: Expr) -> Scalar:
        value = self.evaluate(expr)
        if not isinstance(value, Scalar):
            raise TypeError(f"expected a scalar, found {type(value).__name__} for {expr}")
        return value

    def text(self, expr: Expr) -> str:
        value = self.evaluate(expr)
        if not isinstance(value, String):
            raise TypeError(f"expected a string, found {type(value).__name__} for {expr}")
        return value.value

    def window(self, expr: Expr) -> Window:
        """Of a selector (its range is the look-back), range selector or subquery, in parentheses or not."""
        return self.evaluator.window(self, expr)

    def samples(self, expr: Expr) -> Series:
        """Samples in the windows of a selector, range selector or subquery, ordered by labels.

        With stale markers for a selector, without for the others. `anchored` and `smoothed` also give what
        lies up to the look-back before, and after, the windows.
        """
        return self.evaluator.samples(self, expr)

    def spread(self, vector: Vector) -> Vector:
        """A vector of one step, at every step."""
        return self.evaluator.spread(vector, self.steps)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The walk over the tree, held here so that functions need not import it (it imports them)."""

    evaluate: Callable[[Context, Expr], Value]
    window: Callable[[Context, Expr], Window]
    samples: Callable[[Context, Expr], Series]
    spread: Callable[[Vector, Steps], Vector]


Ranged = Selector | Matrix | Subquery
"""What has a window."""
