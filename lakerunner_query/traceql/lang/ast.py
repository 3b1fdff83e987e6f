"""The syntax tree of TraceQL, made of frozen values; equality ignores places in the text.

    { span.http.status_code >= 500 && kind = server } | by(resource.service.name) | count() > 2

    SpansetFilter(Logical(&&, (Comparison(">=", Attribute("http.status_code", SPAN), …), …)))
    Group(Attribute("service.name", RESOURCE))
    ScalarFilter(>, Aggregate(COUNT), Literal(INTEGER, 2))

A query that gives series has a `MetricsExpr` as its body. Durations are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from lakerunner_query.errors import Position
from lakerunner_query.syntax import START


class Type(StrEnum):
    """The type of a value; `ATTRIBUTE` stands for one that is known only when a span is read."""

    NIL = "nil"
    BOOLEAN = "bool"
    INTEGER = "int"
    FLOAT = "float"
    STRING = "string"
    DURATION = "duration"
    STATUS = "status"
    KIND = "kind"
    ATTRIBUTE = "attribute"

    @property
    def is_numeric(self) -> bool:
        return self in {Type.INTEGER, Type.FLOAT, Type.DURATION}


class Scope(StrEnum):
    """The place of an attribute; `NONE` is `.name`: the span's attribute, else the resource's."""

    NONE = ""
    SPAN = "span"
    RESOURCE = "resource"
    EVENT = "event"
    LINK = "link"
    INSTRUMENTATION = "instrumentation"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute such as `span.http.method` or `."team name"`; `name` is without scope and quotes."""

    name: str
    scope: Scope = Scope.NONE
    of_parent: bool = False
    """Written `parent.span.x`; the checks refuse it, as Tempo does."""
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A field that every span has, by its row in `intrinsics.INTRINSICS`: `span:kind` is `kind`."""

    name: str
    position: Position = field(default=START, compare=False)


Field = Attribute | Intrinsic


@dataclass(frozen=True, slots=True)
class Literal:
    type: Type
    value: bool | int | float | str | None
    """Nanoseconds of a duration, the word of a status or kind, None of nil."""
    position: Position = field(default=START, compare=False)


TRUE = Literal(Type.BOOLEAN, True)
NIL = Literal(Type.NIL, None)


class CompareOp(StrEnum):
    EQUAL = "="
    NOT_EQUAL = "!="
    REGEX = "=~"
    NOT_REGEX = "!~"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="

    @property
    def is_regex(self) -> bool:
        return self in {CompareOp.REGEX, CompareOp.NOT_REGEX}

    @property
    def is_equality(self) -> bool:
        return self in {CompareOp.EQUAL, CompareOp.NOT_EQUAL}


class MathOp(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"
    POWER = "^"


class LogicalOp(StrEnum):
    AND = "&&"
    OR = "||"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison; with `NIL` on a side it asks if the other one is there."""

    op: CompareOp
    left: FieldExpr
    right: FieldExpr
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    op: MathOp
    left: FieldExpr
    right: FieldExpr
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """A chain `a && b && c` of one operator; both operators have the same precedence.

    `a && b || c` is `Logical(OR, (Logical(AND, (a, b)), c))`; the first operand never has the chain's own
    operator.
    """

    op: LogicalOp
    operands: tuple[FieldExpr, ...]
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    operand: FieldExpr
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """A minus in front of anything but a number: a negative number is a literal."""

    operand: FieldExpr
    position: Position = field(default=START, compare=False)


FieldExpr = Attribute | Intrinsic | Literal | Comparison | Arithmetic | Logical | Not | Negation


@dataclass(frozen=True, slots=True)
class SpansetFilter:
    """Spans for which the condition holds: `{ status = error }`; `{}` has `TRUE`."""

    condition: FieldExpr
    position: Position = field(default=START, compare=False)


class Relation(Enum):
    """The place of the right side's spans, seen from the left side's."""

    CHILD = ">"
    DESCENDANT = ">>"
    PARENT = "<"
    ANCESTOR = "<<"
    SIBLING = "~"


class Variant(Enum):
    PLAIN = ""
    """Spans of the right side that have the relation to one of the left side."""
    NOT = "!"
    """Spans of the right side that have it to none."""
    UNION = "&"
    """Spans of both sides that have it to one of the other."""


@dataclass(frozen=True, slots=True)
class Structural:
    """A structural operator: `{…} >> {…}`, `{…} !> {…}`, `{…} &~ {…}`."""

    relation: Relation
    variant: Variant
    left: SpansetExpr
    right: SpansetExpr
    position: Position = field(default=START, compare=False)

    @property
    def op(self) -> str:
        return self.variant.value + self.relation.value


@dataclass(frozen=True, slots=True)
class Combination:
    """Both spansets if both have spans (`&&`), or all spans of either (`||`)."""

    op: LogicalOp
    left: SpansetExpr
    right: SpansetExpr
    position: Position = field(default=START, compare=False)


class AggregateOp(StrEnum):
    COUNT = "count"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class Aggregate:
    op: AggregateOp
    operand: FieldExpr | None = None
    """The values, None for `count()`."""
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class ScalarArithmetic:
    """Arithmetic of scalars; two literals have been folded by the parser."""

    op: MathOp
    left: ScalarExpr
    right: ScalarExpr
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class ScalarPipeline:
    """A pipeline that ends in an aggregate, `({ .a } | count())`; the checks refuse it, as Tempo does."""

    pipeline: Pipeline
    aggregate: Aggregate
    position: Position = field(default=START, compare=False)


ScalarExpr = Aggregate | Literal | ScalarArithmetic | ScalarPipeline


@dataclass(frozen=True, slots=True)
class ScalarFilter:
    """Spansets of which an aggregate compares as asked: `count() > 2`.

    Behind the checks `left` is an `Aggregate` and `right` a `Literal` with a number.
    """

    op: CompareOp
    left: ScalarExpr
    right: ScalarExpr
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Group:
    """Split of each spanset by a value: `by(resource.service.name)`."""

    by: FieldExpr
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Coalesce:
    """Union of the spansets of a trace: `coalesce()`."""

    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """Fields that the answer shows besides those of conditions: `select(name, span.a)`."""

    fields: tuple[Field, ...]
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Stages from left to right; the first gets all spans of the trace as one spanset."""

    stages: tuple[Stage, ...]
    position: Position = field(default=START, compare=False)


SpansetExpr = SpansetFilter | Structural | Combination | Pipeline
"""A pipeline stands inside of another one only as an operand, in parentheses."""
Stage = SpansetFilter | Structural | Combination | Pipeline | ScalarFilter | Group | Coalesce | Select


@dataclass(frozen=True, slots=True)
class MetricsAggregation:
    """A metrics function behind a pipeline: `{…} | quantile_over_time(duration, 0.9) by (name)`."""

    pipeline: Pipeline
    function: str
    """Name of a row in `functions.METRICS_FUNCTIONS`."""
    operand: Field | None = None
    quantiles: tuple[float, ...] = ()
    by: tuple[Field, ...] = ()
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class MetricsCompare:
    """Attributes of selected spans against those of the others: `{…} | compare({ status = error }, 10)`."""

    pipeline: Pipeline
    selection: SpansetFilter
    limit: int = 10
    start_ns: int = 0
    end_ns: int = 0
    """Bounds of the selection, both 0 if there are none."""
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The `topk(k)` or `bottomk(k)` series of each step."""

    expr: MetricsExpr
    op: str
    limit: int
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Samples that compare as asked: `{} | rate() > 10`; a duration counts in seconds."""

    expr: MetricsExpr
    op: CompareOp
    value: Literal
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class MetricsMath:
    """Arithmetic of series, or of series and a number: `({…} | rate()) / ({} | rate())`."""

    op: MathOp
    left: MetricsExpr | Literal
    right: MetricsExpr | Literal
    position: Position = field(default=START, compare=False)


MetricsExpr = MetricsAggregation | MetricsCompare | Ranking | Threshold | MetricsMath


@dataclass(frozen=True, slots=True)
class Hint:
    """A wish of the client, `most_recent=true`; rows are in `functions.HINTS`, others are ignored."""

    name: str
    value: Literal
    position: Position = field(default=START, compare=False)


@dataclass(frozen=True, slots=True)
class Query:
    body: Pipeline | MetricsExpr
    hints: tuple[Hint, ...] = ()


Node = FieldExpr | ScalarExpr | Stage | MetricsExpr


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below, left to right."""
    below: tuple[Node | None, ...] = ()
    match node:
        case (
            Comparison(left=left, right=right)
            | Arithmetic(left=left, right=right)
            | Structural(left=left, right=right)
            | Combination(left=left, right=right)
            | ScalarArithmetic(left=left, right=right)
            | ScalarFilter(left=left, right=right)
            | MetricsMath(left=left, right=right)
        ):
            below = (left, right)
        case Logical(operands=several) | Pipeline(stages=several) | Select(fields=several):
            below = several
        case Not(operand=one) | Negation(operand=one) | SpansetFilter(condition=one) | Group(by=one):
            below = (one,)
        case Aggregate(operand=operand):
            below = (operand,)
        case ScalarPipeline(pipeline=pipeline, aggregate=aggregate):
            below = (pipeline, aggregate)
        case MetricsAggregation(pipeline=pipeline, operand=operand, by=by):
            below = (pipeline, operand, *by)
        case MetricsCompare(pipeline=pipeline, selection=selection):
            below = (pipeline, selection)
        case Ranking(expr=expr) | Threshold(expr=expr):
            below = (expr,)
    return tuple(one for one in below if one is not None)


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all below it, parents first."""
    waiting: list[Node] = [node]
    while waiting:
        yield (one := waiting.pop())
        waiting += reversed(children(one))
