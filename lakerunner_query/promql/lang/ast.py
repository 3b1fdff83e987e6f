"""The syntax tree of PromQL, made of frozen values; equality ignores places in the text.

    rate(errors_total{job="api"}[5m] offset 1h)

    Call("rate", (Matrix(Selector("errors_total", (Matcher(job = api),), shift=Shift(offset=3600 s)), 5 m),))

Durations are milliseconds. A duration *expression* (`[step() * 2]`) stays in its field until `bind.py` knows
the times of the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from lakerunner_query.syntax import Matcher


class Span(NamedTuple):
    """The place `text[start:end]`, in characters."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class Type(StrEnum):
    """The type of an expression, spelled as in error messages."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


class Edge(StrEnum):
    """The times of `@ start()` and `@ end()`."""

    START = "start"
    END = "end"


class Reach(StrEnum):
    """The modifier by which a selector reaches beyond its window."""

    PLAIN = ""
    ANCHORED = "anchored"
    SMOOTHED = "smoothed"


class DurationOp(StrEnum):
    """Operations of a duration expression that no operator sign stands for."""

    STEP = "step"
    RANGE = "range"
    MIN = "min"
    MAX = "max"
    NEGATE = "neg"
    PAREN = "paren"


@dataclass(frozen=True, slots=True)
class DurationCall:
    """An operation on durations: `step() * 2`, `min_of(a, b)`, a sign or parentheses."""

    op: str
    """A `DurationOp`, or one of `+ - * / % ^`."""
    arguments: tuple[DurationExpr, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DurationNumber:
    seconds: float
    """Value in seconds, of a plain number as of a duration."""
    is_duration: bool
    span: Span = field(default=NOWHERE, compare=False)


OPERATIONS = frozenset("+-*/%^")
"""Operators between two durations."""
DurationExpr = DurationCall | DurationNumber
Duration = int | DurationExpr
"""Milliseconds, or an expression that becomes milliseconds with the times of the query."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The modifiers `offset d` and `@ t` of a selector or subquery."""

    offset: Duration = 0
    at: int | Edge | None = None
    """Milliseconds since 1970."""


NO_SHIFT = Shift()


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    is_duration: bool = False
    """Spelling as `5m`, which the printer keeps."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Selector:
    """An instant vector selector; `matchers` includes the one for `__name__`, if any."""

    name: str
    """Metric name in front of the braces, or empty; its matcher is the last one."""
    matchers: tuple[Matcher, ...]
    shift: Shift = NO_SHIFT
    reach: Reach = Reach.PLAIN
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A range selector `selector[range]`; modifiers behind it belong to the selector."""

    selector: Selector
    range: Duration
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A subquery `expr[range:step]`; a step of None is the default."""

    expr: Expr
    range: Duration
    step: Duration | None
    shift: Shift = NO_SHIFT
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Paren:
    expr: Expr
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    """Sign, `-` or `+`."""
    expr: Expr
    span: Span = field(default=NOWHERE, compare=False)


class Cardinality(StrEnum):
    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "many-to-one"
    """Matching by `group_left`."""
    ONE_TO_MANY = "one-to-many"
    """Matching by `group_right`."""
    MANY_TO_MANY = "many-to-many"
    """Matching of set operators."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The vector matching of a binary operator."""

    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    on: bool = False
    """Choice of `on (labels)` over `ignoring (labels)`."""
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    """Labels of `group_left(...)`."""
    fill_left: float | None = None
    """Value of `fill(x)` or `fill_left(x)`, for rows without a match on the left side."""
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary operator; `matching` is set between two vectors only."""

    op: str
    left: Expr
    right: Expr
    matching: Matching | None = None
    return_bool: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregation, `sum by (job) (...)` or `topk(3, ...)`."""

    op: str
    expr: Expr
    parameter: Expr | None = None
    grouping: tuple[str, ...] = ()
    without: bool = False
    span: Span = field(default=NOWHERE, compare=False)


Expr = Number | Text | Selector | Matrix | Subquery | Paren | Unary | Binary | Call | Aggregate


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly below, left to right."""
    match expr:
        case Number() | Text() | Selector():
            return ()
        case Matrix():
            return (expr.selector,)
        case Subquery() | Paren() | Unary():
            return (expr.expr,)
        case Binary():
            return (expr.left, expr.right)
        case Call():
            return expr.arguments
        case Aggregate():
            return (expr.expr,) if expr.parameter is None else (expr.parameter, expr.expr)


def with_children(expr: Expr, below: Sequence[Expr]) -> Expr:
    """Replace the `children` of an expression by as many of the same types."""
    match expr:
        case Matrix():
            (selector,) = below
            if not isinstance(selector, Selector):
                raise TypeError(f"a range selector takes a selector, not {type(selector).__name__}")
            return replace(expr, selector=selector)
        case Subquery() | Paren() | Unary():
            return replace(expr, expr=below[0])
        case Binary():
            return replace(expr, left=below[0], right=below[1])
        case Call():
            return replace(expr, arguments=tuple(below))
        case Aggregate():
            parameter = None if expr.parameter is None else below[0]
            return replace(expr, expr=below[-1], parameter=parameter)
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all below it, parents first."""
    waiting = [expr]
    while waiting:
        yield (one := waiting.pop())
        waiting += reversed(children(one))
