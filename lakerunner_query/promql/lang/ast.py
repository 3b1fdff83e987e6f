"""The syntax tree of PromQL: frozen values; places in the text are kept out of equality.

    rate(errors_total{job="api"}[5m] offset 1h)

    Call("rate", (Matrix(Selector("errors_total", (Matcher(job = api),), shift=Shift(offset=3600 s)), 5 m),))

Durations are milliseconds. Where the text has a duration *expression* (`[step() * 2]`), the field holds the
expression until `bound.py` knows the query's times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from lakerunner_query.syntax import Matcher


class Span(NamedTuple):
    """`text[start:end]`, in characters."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class Type(StrEnum):
    """What an expression gives; spelled as in error messages."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"
    STRING = "string"


class Edge(StrEnum):
    """`@ start()` and `@ end()`."""

    START = "start"
    END = "end"


class Reach(StrEnum):
    """What a range selector takes beyond its window's samples."""

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
    """`step()`, `range()`, `min_of(a, b)`, `max_of(a, b)`; also `+ - * / % ^`, the sign and parentheses."""

    op: str
    """A `DurationOp`, or one of `+ - * / % ^`."""
    arguments: tuple[DurationExpr, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DurationNumber:
    seconds: float
    """A plain number in a duration expression is seconds, as is a duration."""
    is_duration: bool
    span: Span = field(default=NOWHERE, compare=False)


OPERATIONS = frozenset("+-*/%^")
"""Operators between two durations."""
DurationExpr = DurationCall | DurationNumber
Duration = int | DurationExpr
"""Milliseconds, or what becomes milliseconds once the query's times are known."""


@dataclass(frozen=True, slots=True)
class Shift:
    """`offset d` and `@ t` of a selector or subquery."""

    offset: Duration = 0
    at: int | Edge | None = None
    """Milliseconds since epoch."""


NO_SHIFT = Shift()


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    is_duration: bool = False
    """Written as `5m`; printed so again."""
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Selector:
    """An instant vector selector. `matchers` has the one for `__name__` too, where there is one."""

    name: str
    """The metric name if written in front of the braces, else empty; its matcher is the last one."""
    matchers: tuple[Matcher, ...]
    shift: Shift = NO_SHIFT
    reach: Reach = Reach.PLAIN
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Matrix:
    """`selector[range]`; `@`, `offset`, `anchored` and `smoothed` behind it belong to the selector."""

    selector: Selector
    range: Duration
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Subquery:
    """`expr[range:step]`; a step of None is the default one."""

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
    """`-` or `+`."""
    expr: Expr
    span: Span = field(default=NOWHERE, compare=False)


class Cardinality(StrEnum):
    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "many-to-one"
    """`group_left`."""
    ONE_TO_MANY = "one-to-many"
    """`group_right`."""
    MANY_TO_MANY = "many-to-many"
    """Set operators."""


@dataclass(frozen=True, slots=True)
class Matching:
    """How the sides of a binary operator between vectors find each other."""

    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    on: bool = False
    """`on (labels)`, else `ignoring (labels)`."""
    labels: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    """Labels of `group_left(...)`."""
    fill_left: float | None = None
    """`fill(x)`, `fill_left(x)`: stands in where the left side has no match."""
    fill_right: float | None = None


@dataclass(frozen=True, slots=True)
class Binary:
    """`+ - * / % ^ atan2 == != > < >= <= and or unless >/ </ …`; `matching` between two vectors only."""

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
    """`sum by (job) (...)`, `topk(3, ...)`."""

    op: str
    expr: Expr
    parameter: Expr | None = None
    grouping: tuple[str, ...] = ()
    without: bool = False
    span: Span = field(default=NOWHERE, compare=False)


Expr = Number | Text | Selector | Matrix | Subquery | Paren | Unary | Binary | Call | Aggregate


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below, left to right as written in the tree."""
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
    """The same expression over other `children`, which are as many and of the same types."""
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
    """The expression and all below it, parents first."""
    waiting = [expr]
    while waiting:
        yield (one := waiting.pop())
        waiting += reversed(children(one))
