"""A plain evaluation of whole TraceQL searches: span sets, one trace after the other, and what answers show.

A set is a list of places in the trace, in the order in which the spans were sent, with what is known of it:
`by(…)` and the values of aggregates. Answers have the form of `answers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakerunner_query.traceql.lang.ast import (
    Aggregate,
    AggregateOp,
    Attribute,
    Coalesce,
    Combination,
    Comparison,
    Field,
    Group,
    Intrinsic,
    Literal,
    LogicalOp,
    Node,
    Pipeline,
    Query,
    Relation,
    ScalarFilter,
    Scope,
    Select,
    SpansetExpr,
    SpansetFilter,
    Stage,
    Structural,
    Type,
    Variant,
    children,
)
from lakerunner_query.traceql.lang.printer import print_node
from tests.support.query.traceql.answers import FoundSet, FoundSpan, FoundTrace, shown
from tests.support.query.traceql.oracle_fields import (
    COMPARISONS,
    ORDER,
    At,
    Found,
    Trace,
    Typed,
    as_id,
    end_of,
    evaluate,
    holds,
    meets,
    wrapped,
)

NO_ROOT = "<root span not yet received>"
HIDDEN = {"name", "duration", "trace:id", "span:id", "traceDuration", "rootName", "rootServiceName"}
"""Intrinsics that an answer has at other places."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class SpanSet:
    places: tuple[int, ...]
    facts: tuple[tuple[str, Typed | None], ...] = ()


def evaluate_pipeline(
    trace: Trace, pipeline: Pipeline, sets: Sequence[SpanSet] | None = None
) -> list[SpanSet]:
    """Return the sets that come out of a pipeline."""
    found = [SpanSet(tuple(range(len(trace.spans))))] if sets is None else list(sets)
    for stage in pipeline.stages:
        found = [one for one in _after(trace, stage, found) if one.places]
    return found


def _after(trace: Trace, stage: Stage, sets: list[SpanSet]) -> Iterator[SpanSet]:
    match stage:
        case Pipeline():
            yield from evaluate_pipeline(trace, stage, sets)
        case Coalesce():
            yield SpanSet(tuple(sorted(place for one in sets for place in one.places)))
        case Select():
            yield from sets
        case Group():
            for one in sets:
                yield from _grouped(trace, stage, one)
        case ScalarFilter():
            for one in sets:
                yield from _filtered(trace, stage, one)
        case _:
            for one in sets:
                chosen = select(trace, stage, one.places)
                yield SpanSet(tuple(place for place in one.places if place in chosen), one.facts)


def _grouped(trace: Trace, stage: Group, one: SpanSet) -> Iterator[SpanSet]:
    groups: dict[Any, list[int]] = {}
    values: dict[Any, Typed | None] = {}
    for place in one.places:
        value = evaluate(stage.by, At(trace, place)).group()
        key = repr(value)
        groups.setdefault(key, []).append(place)
        values[key] = value
    for key, places in groups.items():
        yield SpanSet(tuple(places), (*one.facts, (print_node(stage), values[key])))


def _filtered(trace: Trace, stage: ScalarFilter, one: SpanSet) -> Iterator[SpanSet]:
    assert isinstance(stage.left, Aggregate)
    assert isinstance(stage.right, Literal)
    value = aggregate(trace, stage.left, one.places)
    if value is not None and COMPARISONS[stage.op.value](value[1], stage.right.value):
        yield SpanSet(one.places, (*one.facts, (print_node(stage.left), value)))


def aggregate(trace: Trace, node: Aggregate, places: Sequence[int]) -> Typed | None:
    """Aggregate the numbers of a set; without any there is no value."""
    if node.operand is None:
        return Type.INTEGER, len(places)
    numbers = [evaluate(node.operand, At(trace, place)).number() for place in places]
    known = [one for one in numbers if one is not None]
    if not known:
        return None
    kinds = {kind for kind, _ in known}
    kind = kinds.pop() if len(kinds) == 1 else Type.FLOAT
    values = [float(value) if kind is Type.FLOAT else value for _, value in known]
    if node.op in {AggregateOp.MIN, AggregateOp.MAX}:
        is_unknown = any(math.isnan(value) for value in values)
        return kind, math.nan if is_unknown else (min if node.op is AggregateOp.MIN else max)(values)
    if node.op is AggregateOp.SUM:
        return kind, _sum(values)
    mean = _sum(values) / len(values)
    return (kind, math.trunc(mean)) if kind is Type.DURATION else (Type.FLOAT, mean)


def _sum(values: Sequence[Any]) -> Any:
    total = values[0]
    for one in values[1:]:
        total = wrapped(total + one)
    return total


def select(trace: Trace, expr: SpansetExpr, places: Sequence[int]) -> set[int]:
    """Return the spans of a set that an expression selects."""
    match expr:
        case SpansetFilter(condition=condition):
            return {place for place in places if holds(condition, At(trace, place))}
        case Combination(op=op):
            left, right = select(trace, expr.left, places), select(trace, expr.right, places)
            return set() if op is LogicalOp.AND and not (left and right) else left | right
        case Structural():
            left, right = select(trace, expr.left, places), select(trace, expr.right, places)
            return _related(trace, expr, left, right)
        case Pipeline():
            return {
                place
                for one in evaluate_pipeline(trace, expr, [SpanSet(tuple(places))])
                for place in one.places
            }


def _related(trace: Trace, expr: Structural, left: set[int], right: set[int]) -> set[int]:
    pairs = {(one, other) for one in left for other in right if _is_so(trace, expr.relation, one, other)}
    found = {other for _, other in pairs}
    if expr.variant is Variant.NOT:
        return right - found
    return found | {one for one, _ in pairs} if expr.variant is Variant.UNION else found


def _is_so(trace: Trace, relation: Relation, one: int, other: int) -> bool:
    """Tell whether the other span has this place, seen from the one."""
    match relation:
        case Relation.CHILD:
            return trace.has_place(other) and trace.parents[other] == one
        case Relation.PARENT:
            return trace.has_place(one) and trace.parents[one] == other
        case Relation.DESCENDANT:
            return one in trace.ancestors(other)
        case Relation.ANCESTOR:
            return other in trace.ancestors(one)
    above = trace.parents[one]
    placed = trace.has_place(one) and trace.has_place(other)
    return one != other and placed and above is not None and above == trace.parents[other]


@dataclass(frozen=True)
class Showing:
    """Conditions on a field, of which a shown value meets one; None: all values are shown."""

    conditions: list[tuple[str, Literal]] | None

    def of(self, asked: Field, found: Found) -> tuple[Typed, ...]:
        if self.conditions is None:
            return found.values
        return tuple(value for value in found.values if self._meets(asked, value, found.is_list))

    def _meets(self, asked: Field, value: Typed, is_list: bool) -> bool:
        for op, literal in self.conditions or ():
            if literal.type is Type.NIL:
                met = op == "!="
            elif literal.type is Type.BOOLEAN and not is_list:
                met = value[0] is Type.BOOLEAN  # Tempo reads the smallest columns whole
            else:
                met = meets(value, op, as_id(op, literal, asked).values[0])
            if met:
                return True
        return False

    @property
    def shows_nil(self) -> bool:
        return any(op == "=" and literal.type is Type.NIL for op, literal in self.conditions or ())


def fields_shown(query: Query) -> dict[Field, Showing]:
    """Return the fields that an answer shows: those that the query names."""
    found: dict[Field, Showing] = {}

    def visit(node: Node) -> None:
        condition = _condition(node) if isinstance(node, Comparison) else None
        if condition is not None:
            for each in _scoped(condition[0]):
                showing = found.setdefault(each, Showing([]))
                if showing.conditions is not None:
                    showing.conditions.append(condition[1:])
            return
        if isinstance(node, Attribute | Intrinsic):
            for each in _scoped(node):
                found[each] = Showing(None)
        for below in children(node):
            visit(below)

    visit(query.body)
    return found


def _condition(node: Comparison) -> tuple[Field, str, Literal] | None:
    if isinstance(node.left, Attribute | Intrinsic) and isinstance(node.right, Literal):
        return node.left, node.op.value, node.right
    if isinstance(node.right, Attribute | Intrinsic) and isinstance(node.left, Literal):
        return node.right, MIRRORED.get(node.op.value, node.op.value), node.left
    return None


def _scoped(asked: Field) -> list[Field]:
    if isinstance(asked, Attribute) and asked.scope is Scope.NONE:
        return [Attribute(asked.name, Scope.SPAN), Attribute(asked.name, Scope.RESOURCE)]
    return [asked]


def is_repeated(asked: Field) -> bool:
    if isinstance(asked, Intrinsic):
        return asked.name.startswith(("event:", "link:"))
    return asked.scope in {Scope.EVENT, Scope.LINK}


def search(
    traces: Sequence[Trace], query: Query, start_ns: int, end_ns: int, limit: int, spans_per_set: int
) -> list[FoundTrace]:
    """Return the newest matching traces that overlap the range."""
    assert isinstance(query.body, Pipeline)
    showing = fields_shown(query)
    found = []
    for trace in sorted(traces, key=lambda one: (-one.start_ns, one.ident)):
        if trace.start_ns <= end_ns and trace.end_ns >= start_ns:
            sets = evaluate_pipeline(trace, query.body)
            if sets:
                found.append(_found(trace, sets, showing, spans_per_set))
    return found[:limit]


def _found(trace: Trace, sets: list[SpanSet], showing: dict[Field, Showing], most: int) -> FoundTrace:
    services: dict[str, tuple[int, int]] = {}
    for span in trace.spans:
        name = str(span.resource.get("service.name", ""))
        spans, errors = services.get(name, (0, 0))
        services[name] = spans + 1, errors + (span.status == 2)
    return FoundTrace(
        trace.ident.hex().lstrip("0"), trace.root_text("service") or NO_ROOT, trace.root_text("name"),
        trace.start_ns, (trace.end_ns - trace.start_ns) // 1_000_000, services,
        tuple(sorted((_found_set(trace, one, showing, most) for one in sets), key=repr)),
    )  # fmt: skip


def _found_set(trace: Trace, one: SpanSet, showing: dict[Field, Showing], most: int) -> FoundSet:
    first = sorted(one.places, key=lambda place: trace.spans[place].start_ns)[: most or None]
    facts = tuple((name, shown(value)) for name, value in one.facts)
    return FoundSet(
        len(one.places), tuple(sorted(facts, key=repr)),
        tuple(sorted((_found_span(At(trace, place), showing) for place in first), key=repr)),
    )  # fmt: skip


def _found_span(at: At, showing: dict[Field, Showing]) -> FoundSpan:
    span, name, attributes = at.span, "", list[tuple[str, Any]]()
    for asked, conditions in showing.items():
        found = at.field(asked)
        values = _of_last_type(conditions.of(asked, found))
        if asked == Intrinsic("name") and values:
            name = values[0][1]
        if isinstance(asked, Intrinsic) and asked.name in HIDDEN:
            continue
        if values:
            kind = values[0][0]
            several = tuple(value for _, value in values)
            value = several[-1] if is_repeated(asked) or len(several) == 1 else several
            attributes.append((asked.name, shown((kind, value))))
        elif asked == Intrinsic("span:parentID") and conditions.conditions is None:
            attributes.append((asked.name, shown((Type.STRING, "0" * 16))))
        if conditions.shows_nil and not found.is_there:
            attributes.append((asked.name, shown(None)))
    return FoundSpan(
        span.span.hex().rjust(16, "0"), name, span.start_ns, end_of(span) - span.start_ns,
        tuple(sorted(attributes, key=repr)),
    )  # fmt: skip


def _of_last_type(values: Sequence[Typed]) -> list[Typed]:
    kinds = {kind for kind, _ in values}
    last = max(kinds, key=ORDER.index) if len(kinds) > 1 else None
    return [one for one in values if last is None or one[0] is last]
