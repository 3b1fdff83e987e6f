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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal, Protocol

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.promql.lang.ast import NOWHERE, Call, Expr, Matrix, Reach, Selector, Span, Subquery
from lakerunner_query.promql.lang.functions import ResetHints
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.vector import Labels, Scalar, Series, Steps, String, Value, Vector
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import Grid, WindowValues

# << Where samples come from, as evaluation sees it.
# <<
# << Nothing here knows of files: the golden tests, the lake's segments and subqueries are all sources.


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """A function over windows that the source computed itself, from floats only."""

    labels: list[Labels]
    windows: WindowValues


class Source(Protocol):
    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        """Samples in `(from_ms, to_ms]` of the series that match, series without any left out.

        Every series once, ordered by labels; stale markers are there.
        """
        ...

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        """The function over each window, if that can be told exactly without handing out samples, else None.

        None whenever a matching series has histograms in the windows.
        """
        ...


# << A source that is asked the same only once: `x / x` reads x once.

_SeriesCache = dict[tuple[tuple[Matcher, ...], int, int], Series]


@dataclass(frozen=True, slots=True)
class CachedSource:
    source: Source
    series: _SeriesCache = field(default_factory=dict)
    """Of one query, and as long as that is evaluated."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        key = (tuple(matchers), from_ms, to_ms)
        if key not in self.series:
            self.series[key] = self.source.select(matchers, from_ms, to_ms)
        return self.series[key]

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        return self.source.over_windows(function, matchers, grid)


# << Annotations: what an answer wants said about itself, gathered while it is computed.
# <<
# <<     PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)
# <<
# << As in Prometheus the text without its place decides what is the same: of equal ones the last place
# << is kept.

Kind = Literal["warning", "info"]


@dataclass(frozen=True, slots=True)
class MonotonicityFix:
    """Which buckets of classic histograms had to be raised to be monotonic; told together for all steps."""

    lowest: float
    highest: float
    largest_difference: float
    from_ms: int
    to_ms: int
    samples: int = 1

    def merge(self, other: MonotonicityFix) -> MonotonicityFix:
        return MonotonicityFix(
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            max(self.largest_difference, other.largest_difference),
            min(self.from_ms, other.from_ms),
            max(self.to_ms, other.to_ms),
            self.samples + other.samples,
        )

    def __str__(self) -> str:
        return (
            f", from buckets {format_float(self.lowest)} to {format_float(self.highest)}, with a max diff of "
            f"{self.largest_difference:.2g}, over {self.samples} samples from {_format_second(self.from_ms)} "
            f"to {_format_second(self.to_ms)}"
        )


@dataclass(frozen=True, slots=True)
class Annotation:
    kind: Kind
    message: str
    """Without `PromQL warning: ` and without the place."""
    span: Span = field(default=NOWHERE)
    fix: MonotonicityFix | None = None

    @property
    def base(self) -> str:
        return f"PromQL {self.kind}: {self.message}"

    def render(self, text: str) -> str:
        """As people see it, the place told from the text of the query."""
        line = text.count("\n", 0, self.span.start) + 1
        before = text[text.rfind("\n", 0, self.span.start) + 1 : self.span.start]
        column = len(before.encode("utf-8", "surrogateescape")) + 1  # Prometheus counts bytes
        return f"{self.base}{self.fix or ''} ({line}:{column})"


class Annotations:
    """Grows while a query is evaluated; the one thing in evaluation that is not a value."""

    def __init__(self, first: Iterable[Annotation] = ()) -> None:
        self._by_text: dict[str, Annotation] = {}
        for annotation in first:
            self.add(annotation)

    def add(self, annotation: Annotation) -> None:
        earlier = self._by_text.get(annotation.base)
        if earlier is not None and earlier.fix is not None and annotation.fix is not None:
            annotation = replace(annotation, fix=annotation.fix.merge(earlier.fix))
        self._by_text[annotation.base] = annotation

    def warn(self, message: str, span: Span) -> None:
        self.add(Annotation("warning", message, span))

    def inform(self, message: str, span: Span) -> None:
        self.add(Annotation("info", message, span))

    def all(self) -> tuple[Annotation, ...]:
        return tuple(self._by_text.values())


def _format_second(time_ms: int) -> str:
    """RFC 3339; milliseconds are cut towards zero, as Go's division does."""
    second = abs(time_ms) // 1000 * (1 if time_ms >= 0 else -1)
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


__all__ = [
    "Annotation",
    "Annotations",
    "Context",
    "Evaluator",
    "KnownVector",
    "MonotonicityFix",
    "Options",
    "SelectorWindow",
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


@dataclass(frozen=True, slots=True)
class KnownVector:
    """A part of an expression that was evaluated elsewhere, and what was to be said about it."""

    vector: Vector
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectorWindow:
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
    hints: ResetHints = ResetHints.STORED
    invariant: frozenset[int] = frozenset()
    """The ids of expressions that are the same at every step."""
    known: Mapping[int, KnownVector] = field(default_factory=dict)
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

    def window(self, expr: Expr) -> SelectorWindow:
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
    window: Callable[[Context, Expr], SelectorWindow]
    samples: Callable[[Context, Expr], Series]
    spread: Callable[[Vector, Steps], Vector]


WindowExpr = Selector | Matrix | Subquery
"""What has a window."""

FunctionBody = Callable[[Context, Call], Value]
"""Implementation of a function."""
