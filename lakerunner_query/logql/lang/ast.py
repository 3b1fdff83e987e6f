"""The syntax tree of LogQL: frozen values, positions kept out of equality.

Two queries that differ only in spacing or in how a string is quoted have equal trees; the printer and
its property test rely on that. A stage is one element of the pipeline behind the selector; an expression
with samples is one of `SampleExpr`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from lakerunner_query.errors import Position
from lakerunner_query.syntax import START, Matcher

ERROR, ERROR_DETAILS, PRESERVE_ERROR = "__error__", "__error_details__", "__preserve_error__"
SPECIAL = frozenset({ERROR, ERROR_DETAILS, PRESERVE_ERROR})
"""Labels that only stages make."""
EXTRACTED = "_extracted"
"""Suffix of a parsed label whose own name is taken."""


def _quotient(left: float, right: float) -> float:
    return left / right if right else math.nan


def _remainder(left: float, right: float) -> float:
    """Return the remainder with the sign of the left side, as C and Go have it."""
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        is_negative = base < 0 and math.fmod(exponent, 2) != 0
        return -math.inf if is_negative else math.inf
    except ValueError:
        # a pole (0 to a negative power) has its sign, a root of a negative number is none
        if base:
            return math.nan
        is_odd = math.fmod(exponent, 2) != 0 and exponent.is_integer()
        return math.copysign(math.inf, base) if is_odd else math.inf


_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
    "^": _power,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def fold(op: str, left: float, right: float) -> float:
    """Compute an operation of two literals while parsing: `1 + 1` is a literal.

    Comparisons give 1 or 0, with `bool` or without; division by zero gives NaN, as in Loki.

    >>> fold("%", -7, 3), fold("^", -2, 2), fold(">", 2, 1), fold("/", 1, 0)
    (-1.0, 4.0, 1.0, nan)
    """
    value = float(_OPERATIONS[op](left, right))
    return math.nan if math.isnan(value) else value  # the one NaN that equals itself in a tree


class FilterOp(StrEnum):
    CONTAINS = "|="
    NOT_CONTAINS = "!="
    REGEX = "|~"
    NOT_REGEX = "!~"
    PATTERN = "|>"
    NOT_PATTERN = "!>"

    @property
    def is_regex(self) -> bool:
        return self in {FilterOp.REGEX, FilterOp.NOT_REGEX}

    @property
    def is_pattern(self) -> bool:
        return self in {FilterOp.PATTERN, FilterOp.NOT_PATTERN}

    @property
    def is_negative(self) -> bool:
        return self in {FilterOp.NOT_CONTAINS, FilterOp.NOT_REGEX, FilterOp.NOT_PATTERN}


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Line filter; several values are an `or` chain and share the operator.

    Positive operators keep a line that matches any value or holds an address of any of `ips`, negative ones
    drop it. `ips` are the texts inside `ip("…")`: an address, a range or a prefix.
    """

    op: FilterOp
    values: tuple[str, ...]
    ips: tuple[str, ...] = ()
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Extraction:
    """Label of `json` and `logfmt` and the place of its value: `name="a.b[0]"`."""

    name: str
    expression: str
    path: tuple[str | int, ...]
    """Steps of `expression`; a single key for logfmt."""
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Json:
    extractions: tuple[Extraction, ...] = ()
    """Fields that become labels; every field if there are none."""
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Logfmt:
    extractions: tuple[Extraction, ...] = ()
    strict: bool = False
    keep_empty: bool = False
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Regexp:
    pattern: str
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Pattern:
    pattern: str
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Unpack:
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Decolorize:
    position: Position = field(default=START, compare=False)


class CompareOp(StrEnum):
    EQUAL = "=="
    NOT_EQUAL = "!="
    GREATER = ">"
    GREATER_EQUAL = ">="
    LESS = "<"
    LESS_EQUAL = "<="


class Unit(Enum):
    """Type of the number that a label's text is converted to for a comparison."""

    NUMBER = "number"
    DURATION = "duration"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class LabelMatch:
    """Filter on the text of any label: `| level=~"err.*"`."""

    matcher: Matcher


@dataclass(frozen=True, slots=True)
class LabelCompare:
    """Comparison of numbers: `| latency > 1.5s`; durations are seconds, bytes whole numbers."""

    name: str
    op: CompareOp
    value: float
    unit: Unit
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class LabelIp:
    """Filter on addresses: `| addr = ip("10.0.0.0/8")`."""

    name: str
    negative: bool
    pattern: str
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class LabelAnd:
    left: LabelCondition
    right: LabelCondition


@dataclass(frozen=True, slots=True)
class LabelOr:
    left: LabelCondition
    right: LabelCondition


LabelCondition = LabelMatch | LabelCompare | LabelIp | LabelAnd | LabelOr


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """Stage that keeps the rows for which the condition holds."""

    condition: LabelCondition
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class LineFormat:
    template: str
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Rename:
    """Operation `new=old` of `label_format`."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Assign:
    """Operation `new="{{.a}}"` of `label_format`."""

    name: str
    template: str


@dataclass(frozen=True, slots=True)
class LabelFormat:
    operations: tuple[Rename | Assign, ...]
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Keep:
    """Stage that keeps labels: names whatever the value, matchers only where they match."""

    items: tuple[str | Matcher, ...]
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Drop:
    items: tuple[str | Matcher, ...]
    position: Position = field(default=START, compare=False)


Stage = (
    LineFilter
    | Json
    | Logfmt
    | Regexp
    | Pattern
    | Unpack
    | Decolorize
    | LabelFilter
    | LineFormat
    | LabelFormat
    | Keep
    | Drop
)


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Selector and its pipeline: an expression that gives lines."""

    matchers: tuple[Matcher, ...]
    stages: tuple[Stage, ...] = ()
    position: Position = field(default=START, compare=False)


class Conversion(Enum):
    NONE = ""
    DURATION = "duration"
    """Conversion of durations, also written `duration_seconds`."""
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Unwrap:
    """Label that becomes the sample, and filters behind: `| unwrap duration(latency) | __error__=""`."""

    label: str
    conversion: Conversion = Conversion.NONE
    filters: tuple[LabelFilter, ...] = ()
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class LogRange:
    """Range of lines: `{…} | … | unwrap … [5m] offset 1h`; times in nanoseconds."""

    query: LogQuery
    range_ns: int
    offset_ns: int = 0
    unwrap: Unwrap | None = None
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Labels that make groups: `by (a, b)` or `without` them; `by ()` is one group of everything."""

    labels: tuple[str, ...]
    without: bool = False


@dataclass(frozen=True, slots=True)
class RangeAggregation:
    """Aggregation over time: `quantile_over_time(0.99, {…} | unwrap x [5m]) by (app)`."""

    op: str
    range: LogRange
    parameter: float | None = None
    grouping: Grouping | None = None
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class VectorAggregation:
    """Aggregation over series: `sum by (app) (…)`, `topk(5, …)`, `sort(…)`."""

    op: str
    expr: SampleExpr
    parameter: int | None = None
    grouping: Grouping | None = None
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class LabelReplace:
    expr: SampleExpr
    destination: str
    replacement: str
    source: str
    pattern: str
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    value: float
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class VectorOf:
    """Number as a series without labels: `vector(1)`."""

    value: float
    position: Position = field(default=START, compare=False)


class Cardinality(Enum):
    ONE_TO_ONE = "one-to-one"
    MANY_TO_ONE = "many-to-one"
    ONE_TO_MANY = "one-to-many"


@dataclass(frozen=True, slots=True)
class Matching:
    """Labels that series of two sides meet by: `on (a) group_left (b)`; `on=False` is `ignoring`."""

    on: bool = False
    labels: tuple[str, ...] = ()
    cardinality: Cardinality = Cardinality.ONE_TO_ONE
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, comparison or set operation; two literals have been folded by the parser."""

    op: str
    left: SampleExpr
    right: SampleExpr
    return_bool: bool = False
    matching: Matching = Matching()
    position: Position = field(default=START, compare=False)


SampleExpr = RangeAggregation | VectorAggregation | LabelReplace | Literal | VectorOf | Binary
Expr = LogQuery | SampleExpr
