"""The analysis of a query: what spans a matching trace must have, and what has to be read.

    { status = error && .a = 1 } >> { .b =~ "x.*" || .b = "y" }

    AllOf(SomeSpan(AllOf(status = error, .a = 1)), SomeSpan(AnyOf(.b =~ x.*, .b = y)))

A requirement may be weaker than the query and never stronger: a trace that does not meet it cannot match.
What no single condition expresses, such as a comparison of two attributes, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lakerunner_query.traceql.lang.ast import (
    NIL,
    TRUE,
    Arithmetic,
    Attribute,
    Combination,
    CompareOp,
    Comparison,
    Field,
    FieldExpr,
    Intrinsic,
    Literal,
    Logical,
    LogicalOp,
    MetricsAggregation,
    MetricsCompare,
    Negation,
    Node,
    Not,
    Pipeline,
    Query,
    ScalarFilter,
    Scope,
    Select,
    SpansetExpr,
    SpansetFilter,
    Structural,
    Type,
    Variant,
    walk,
)
from lakerunner_query.traceql.lang.intrinsics import INTRINSICS, Home


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a field with literals: true if it holds for any of them.

    It holds for no span without the field, but for `= nil`, and for one with an array, or with events, if any
    value does. Numbers of all types compare with each other.
    """

    field: Field
    op: CompareOp
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class SomeSpan:
    """A demand on the trace: one of its spans meets the conditions inside."""

    requirement: Requirement


Requirement = Condition | SomeSpan | AllOf | AnyOf
"""Conditions stand inside of `SomeSpan`, which never holds another one."""
ANYTHING, NOTHING = AllOf(()), AnyOf(())


@dataclass(frozen=True, slots=True)
class Analysis:
    is_metrics: bool
    pipelines: tuple[Pipeline, ...]
    """Pipelines that read spans: one, or those of each operand of metrics arithmetic."""
    requirement: Requirement
    """Demand on a trace, met by all that any of the pipelines matches."""
    is_on_one_span: bool
    """Each span can be judged without the others of its trace."""
    reads: frozenset[Field]
    """Fields that conditions, groups, aggregates and metrics read."""
    selects: frozenset[Field]
    """Fields that only the answer shows."""
    homes: frozenset[Home]
    """Places of all intrinsics among `reads` and `selects`."""
    reads_all_fields: bool
    """The query compares every attribute of its spans."""


def analyse(query: Query) -> Analysis:
    """Read off a checked query what it needs.

    >>> from lakerunner_query.traceql.lang.parser import parse
    >>> found = analyse(parse("{ .a = 1 || .a = 2 } | count() > 1 | select(name)"))
    >>> found.is_on_one_span, [literal.value for literal in found.requirement.requirement.values]
    (False, [1, 2])
    """
    nodes = tuple(walk(query.body))
    pipelines = tuple(
        node.pipeline for node in nodes if isinstance(node, MetricsAggregation | MetricsCompare)
    )
    if isinstance(query.body, Pipeline):
        pipelines = (query.body,)
    selected = {field for node in nodes if isinstance(node, Select) for field in node.fields}
    read = _fields_read(nodes)
    homes = frozenset(INTRINSICS[one.name].home for one in read | selected if isinstance(one, Intrinsic))
    return Analysis(
        is_metrics=not isinstance(query.body, Pipeline),
        pipelines=pipelines,
        requirement=any_of(_flow(one, ANYTHING)[0] for one in pipelines),
        is_on_one_span=Home.TREE not in homes and all(map(_is_on_one_span, pipelines)),
        reads=frozenset(read),
        selects=frozenset(selected - read),
        homes=homes,
        reads_all_fields=any(isinstance(node, MetricsCompare) for node in nodes),
    )


def _fields_read(nodes: Iterable[Node]) -> set[Field]:
    """Return the fields of all nodes but those that only `select` names, and of tests for roots."""
    found: set[Field] = set()
    hidden: set[int] = set()
    for node in nodes:
        if isinstance(node, Select):
            hidden |= set(map(id, node.fields))
        elif isinstance(node, Comparison) and is_root_test(node.left, node.op, node.right):
            hidden.add(id(node.left))
        elif isinstance(node, Attribute | Intrinsic) and id(node) not in hidden:
            found.add(node)
    return found


def is_root_test(field: Node, op: CompareOp, value: Node) -> bool:
    """Tell whether a comparison asks for spans that were sent without a parent: no tree has to be known.

    >>> is_root_test(PARENT_NUMBER, CompareOp.LESS, Literal(Type.INTEGER, 0))
    True
    """
    if field != PARENT_NUMBER or not isinstance(value, Literal) or value.type is not Type.INTEGER:
        return False
    return (op, value.value) in {(CompareOp.LESS, 0), (CompareOp.EQUAL, -1)}


PARENT_NUMBER = Intrinsic("nestedSetParent")


def _is_on_one_span(pipeline: Pipeline) -> bool:
    return not any(
        isinstance(node, Structural | ScalarFilter)
        or (isinstance(node, Combination) and node.op == LogicalOp.AND)
        or (isinstance(node, Pipeline) and node is not pipeline)
        for node in walk(pipeline)
    )


def all_of(parts: Iterable[Requirement]) -> Requirement:
    flat = dict.fromkeys(
        inner for part in parts for inner in (part.parts if isinstance(part, AllOf) else (part,))
    )
    if NOTHING in flat:
        return NOTHING
    return next(iter(flat)) if len(flat) == 1 else AllOf(tuple(flat))


def any_of(parts: Iterable[Requirement]) -> Requirement:
    """Join alternatives; equalities and patterns of one field become one condition."""
    flat: dict[Requirement, None] = {}
    merged: dict[tuple[Field, CompareOp], tuple[Literal, ...]] = {}
    for part in parts:
        for inner in part.parts if isinstance(part, AnyOf) else (part,):
            if isinstance(inner, Condition) and inner.op in _MERGED and inner.values != (NIL,):
                key = inner.field, inner.op
                merged[key] = tuple(dict.fromkeys((*merged.get(key, ()), *inner.values)))
            else:
                flat[inner] = None
    if ANYTHING in flat:
        return ANYTHING
    flat |= dict.fromkeys(Condition(*key, values) for key, values in merged.items())
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


_MERGED = frozenset({CompareOp.EQUAL, CompareOp.REGEX})


def _some_span(requirement: Requirement) -> Requirement:
    return requirement if requirement in {ANYTHING, NOTHING} else SomeSpan(requirement)


def _flow(expr: SpansetExpr, incoming: Requirement) -> tuple[Requirement, Requirement]:
    """Return the demand on the trace, and what each span that comes out meets, of spans that come in."""
    match expr:
        case SpansetFilter(condition=condition):
            outgoing = all_of((incoming, truth(condition)))
            return _some_span(outgoing), outgoing
        case Pipeline(stages=stages):
            demand: Requirement = ANYTHING
            outgoing = incoming
            for stage in stages:
                if isinstance(stage, SpansetFilter | Structural | Combination | Pipeline):
                    further, outgoing = _flow(stage, outgoing)
                    demand = all_of((demand, further))
            return demand, outgoing
    demands, outcomes = zip(_flow(expr.left, incoming), _flow(expr.right, incoming), strict=True)
    if isinstance(expr, Combination):
        join = any_of if expr.op == LogicalOp.OR else all_of
        return join(demands), any_of(outcomes)
    if expr.variant == Variant.UNION:
        return all_of(demands), any_of(outcomes)
    # spans without the relation need no span on the left
    return (all_of(demands) if expr.variant == Variant.PLAIN else demands[1]), outcomes[1]


def truth(expr: FieldExpr) -> Requirement:
    """Return what a span meets if the expression is true of it."""
    match expr:
        case Literal(value=bool(value)):
            return ANYTHING if value else NOTHING
        case Attribute():
            return Condition(expr, CompareOp.EQUAL, (TRUE,))
        case Logical(op=op, operands=operands):
            return (all_of if op == LogicalOp.AND else any_of)(map(truth, operands))
        case Not(operand=operand):
            return falsehood(operand)
        case Comparison():
            return _comparison(expr)
    return ANYTHING


def falsehood(expr: FieldExpr) -> Requirement:
    """Return what a span meets if the expression is false of it."""
    match expr:
        case Literal(value=bool(value)):
            return NOTHING if value else ANYTHING
        case Logical(op=op, operands=operands):
            return (any_of if op == LogicalOp.AND else all_of)(map(falsehood, operands))
        case Not(operand=Attribute() | Intrinsic()):
            return ANYTHING  # `!x` is false, too, where x is missing or no boolean
        case Not(operand=operand):
            return truth(operand)
        case Comparison(op=op, left=left, right=right):
            is_of_nil = _is_nil(left) or _is_nil(right)
            if any(_is_single(one, is_of_nil) for one in (left, right)):
                return _comparison(replace(expr, op=_OPPOSITES[op]))
    return ANYTHING


def _is_single(expr: FieldExpr, is_of_nil: bool) -> bool:
    """Tell if one of two opposite comparisons holds for every span.

    Attributes, instrumentation and ids may be missing, and events and links may be many.
    """
    if isinstance(expr, Attribute):
        return is_of_nil and expr.scope not in {Scope.EVENT, Scope.LINK}
    if not isinstance(expr, Intrinsic) or (expr.name in _IDS and not is_of_nil):
        return False
    return INTRINSICS[expr.name].home in {Home.SPAN, Home.TRACE, Home.TREE}


_IDS = frozenset({"span:id", "span:parentID"})


_OPPOSITES = {
    CompareOp.EQUAL: CompareOp.NOT_EQUAL,
    CompareOp.REGEX: CompareOp.NOT_REGEX,
    CompareOp.LESS: CompareOp.GREATER_EQUAL,
    CompareOp.GREATER: CompareOp.LESS_EQUAL,
}
_OPPOSITES |= {opposite: op for op, opposite in _OPPOSITES.items()}
_MIRRORED = {
    CompareOp.LESS: CompareOp.GREATER,
    CompareOp.LESS_EQUAL: CompareOp.GREATER_EQUAL,
    CompareOp.GREATER: CompareOp.LESS,
    CompareOp.GREATER_EQUAL: CompareOp.LESS_EQUAL,
}
_NEGATIVE = frozenset({CompareOp.NOT_EQUAL, CompareOp.NOT_REGEX})


def _comparison(expr: Comparison) -> Requirement:
    op, left, right = expr.op, expr.left, expr.right
    if isinstance(left, Literal) and not op.is_regex:
        op, left, right = _MIRRORED.get(op, op), right, left
    if isinstance(left, Attribute | Intrinsic) and isinstance(right, Literal):
        return Condition(left, op, (replace(right, position=NIL.position),))
    if op in _NEGATIVE or not (_is_computed(left) and isinstance(right, Literal)) or _is_nil(right):
        return ANYTHING
    # arithmetic with a missing attribute has no value, and compares with no literal
    missing = (one for one in walk(left) if isinstance(one, Attribute))
    return all_of(Condition(one, CompareOp.NOT_EQUAL, (NIL,)) for one in missing)


def _is_computed(expr: FieldExpr) -> bool:
    return all(isinstance(one, Arithmetic | Negation | Attribute | Intrinsic | Literal) for one in walk(expr))


def _is_nil(expr: FieldExpr) -> bool:
    return isinstance(expr, Literal) and expr.type == Type.NIL
