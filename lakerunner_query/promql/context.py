"""Everything an expression is evaluated in: times, samples, options and annotations.

Functions get a `Context` and their `Call`:

    def absolute(context: Context, call: Call) -> Value:
        vector = context.vector(call.arguments[0])
        ...

and for range functions

    window = context.window(call.arguments[0])      # the interval to read
    series = context.samples(call.arguments[0])     # its samples, without stale markers

Samples come from a `Source`. Golden tests, segments of the lake and subqueries are all sources; evaluation
knows nothing of files.
"""

from __future__ import annotations

import math
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


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """A function over windows of floats, computed by the source."""

    labels: list[Labels]
    windows: WindowValues


class Source(Protocol):
    """Samples by matchers and interval."""

    """Samples by matchers and interval."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        """Return the samples in `(from_ms, to_ms]` of all series that match and have any.

        Every series stands once, in the order of labels; stale markers are included.
        """
        ...

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        """Compute the function over each window, or return None if that takes samples.

        None whenever a matching series has histograms in the windows.
        """
        ...


_SeriesCache = dict[tuple[tuple[Matcher, ...], int, int], Series]


@dataclass(frozen=True, slots=True)
class CachedSource:
    """A source that reads the same series once: `x / x` reads x once."""

    """A source that reads the same series once: `x / x` reads x once."""

    source: Source
    series: _SeriesCache = field(default_factory=dict)
    """Series by matchers and interval, for the time of one query."""

    def select(self, matchers: Sequence[Matcher], from_ms: int, to_ms: int) -> Series:
        key = (tuple(matchers), from_ms, to_ms)
        if key not in self.series:
            self.series[key] = self.source.select(matchers, from_ms, to_ms)
        return self.series[key]

    def over_windows(
        self, function: Function, matchers: Sequence[Matcher], grid: Grid
    ) -> SourceAnswer | None:
        return self.source.over_windows(function, matchers, grid)


Kind = Literal["warning", "info"]


@dataclass(frozen=True, slots=True)
class MonotonicityFix:
    """Buckets of classic histograms that were raised to be monotonic, over all steps."""

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
class Extreme:
    """The largest or smallest value of a parameter over all steps of the query, if it is not a valid one."""

    value: float
    is_largest: bool
    behind: str = ""
    """Text after the value."""

    def merge(self, other: Extreme) -> Extreme:
        """Return the more extreme of both; NaN is, as in Go."""
        choose = max if self.is_largest else min
        values = (self.value, other.value)
        return replace(self, value=math.nan if any(map(math.isnan, values)) else choose(values))

    def __str__(self) -> str:
        return f"{format_float(self.value)}{self.behind}"


@dataclass(frozen=True, slots=True)
class Annotation:
    kind: Kind
    message: str
    """Text without `PromQL warning: ` and without the place."""
    span: Span = field(default=NOWHERE)
    fix: MonotonicityFix | None = None
    extreme: Extreme | None = None
    """Value behind the message; slices of a query come to different ones."""

    @property
    def base(self) -> str:
        return f"PromQL {self.kind}: {self.message}"

    def render(self, text: str) -> str:
        """Return the annotation as users see it, with its line and column in the query."""
        line = text.count("\n", 0, self.span.start) + 1
        before = text[text.rfind("\n", 0, self.span.start) + 1 : self.span.start]
        column = len(before.encode("utf-8", "surrogateescape")) + 1  # Prometheus counts bytes
        return f"{self.base}{self.extreme or self.fix or ''} ({line}:{column})"


class Annotations:
    """Annotations of an answer, collected while it is computed.

        PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)

    As in Prometheus, annotations are equal if their texts without the place are; the last place is kept.
    """

    def __init__(self, first: Iterable[Annotation] = ()) -> None:
        self._by_text: dict[str, Annotation] = {}
        self._extremes: dict[tuple[str, Span, bool], Extreme] = {}
        for annotation in first:
            self.add(annotation)

    def add(self, annotation: Annotation) -> None:
        if annotation.extreme is not None:
            key = annotation.base, annotation.span, annotation.extreme.is_largest
            known = self._extremes.get(key, annotation.extreme)
            self._extremes[key] = annotation.extreme.merge(known)
            return
        earlier = self._by_text.get(annotation.base)
        if earlier is not None and earlier.fix is not None and annotation.fix is not None:
            annotation = replace(annotation, fix=annotation.fix.merge(earlier.fix))
        self._by_text[annotation.base] = annotation

    def warn(self, message: str, span: Span) -> None:
        self.add(Annotation("warning", message, span))

    def inform(self, message: str, span: Span) -> None:
        self.add(Annotation("info", message, span))

    def all(self) -> tuple[Annotation, ...]:
        return (*self._extreme_warnings(), *self._by_text.values())

    def _extreme_warnings(self) -> Iterable[Annotation]:
        """Return each text once; where one value is NaN, nothing is known of the others."""
        found: dict[str, Annotation] = {}
        for (base, span, is_largest), extreme in self._extremes.items():
            other = self._extremes.get((base, span, not is_largest))
            if other is None or not math.isnan(other.value):
                message = base.removeprefix("PromQL warning: ")
                found[f"{base}{extreme}"] = Annotation("warning", message, span, extreme=extreme)
        return found.values()


def _format_second(time_ms: int) -> str:
    """Format in RFC 3339; milliseconds are cut towards zero, as Go's division does."""
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
    """Range functions use the start times of counters."""
    type_and_unit_labels: bool = False
    """The label `__type__`, not the name, says that a metric is a counter."""
    max_cells: int = 50_000_000
    """Upper bound of series x steps, or of samples, of one value."""


@dataclass(frozen=True, slots=True)
class KnownVector:
    """A part of an expression that was evaluated elsewhere, with its annotations."""

    vector: Vector
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectorWindow:
    """The windows of a selector, range selector or subquery."""

    grid: Grid
    """A single step if `is_fixed`."""
    is_fixed: bool
    """`@ t` fixes the window: a function is computed once and `spread` repeats the result."""
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
    """Ids of expressions that are the same at every step."""
    known: Mapping[int, KnownVector] = field(default_factory=dict)
    """Values of expressions that need not be evaluated, by their ids."""

    def evaluate(self, expr: Expr) -> Value:
        """Evaluate any argument; a range vector gives what `samples` returns."""
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
        """Return the windows of a selector (its range is the look-back), range selector or subquery."""
        return self.evaluator.window(self, expr)

    def samples(self, expr: Expr) -> Series:
        """Return the samples in the windows of a selector, range selector or subquery, ordered by labels.

        Selectors include stale markers, the others do not. `anchored` and `smoothed` add the samples up to
        one look-back before, and after, the windows.
        """
        return self.evaluator.samples(self, expr)

    def spread(self, vector: Vector) -> Vector:
        """Repeat a vector of one step at every step."""
        return self.evaluator.spread(vector, self.steps)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """The walk over the tree, which imports the functions and is handed to them here."""

    evaluate: Callable[[Context, Expr], Value]
    window: Callable[[Context, Expr], SelectorWindow]
    samples: Callable[[Context, Expr], Series]
    spread: Callable[[Vector, Steps], Vector]


WindowExpr = Selector | Matrix | Subquery
"""Expressions that have windows."""

FunctionBody = Callable[[Context, Call], Value]
"""Implementation of a function."""
