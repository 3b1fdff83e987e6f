"""Pipelines turn the spans of every trace into span sets, all traces at once.

{ kind = server } | by(resource.service.name) | count() > 1

stage                 rows         sets         traces of sets   facts of sets
(all spans)           0 1 2 3 4    0 0 0 1 1    0 1
{ kind = server }     0 1 3 4      0 0 1 1      0 1
by(…)                 0 1 3 4      0 1 2 2      0 0 1            by(…) = web, cart, web
count() > 1           3 4          0 0          1                by(…) = web; count() = 2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.traceql.expressions import evaluate_condition, evaluate_expression
from lakerunner_query.traceql.frame import Frame
from lakerunner_query.traceql.lang.ast import (
    Aggregate,
    AggregateOp,
    Coalesce,
    Combination,
    Group,
    Literal,
    LogicalOp,
    Pipeline,
    ScalarFilter,
    Select,
    SpansetExpr,
    SpansetFilter,
    Stage,
    Structural,
    Type,
)
from lakerunner_query.traceql.lang.printer import print_node
from lakerunner_query.traceql.structure import relate
from lakerunner_query.traceql.values import (
    COMPARISONS,
    NUMBERS,
    Array,
    Column,
    GroupValue,
    Scalar,
    distinct_numbers,
    group_codes,
)
from resources.arrays import Doubles, Flags, Int64s

Fact = tuple[Type, Scalar | tuple[Scalar, ...]]
"""A value of a set; nil is the text `nil`."""


@dataclass(frozen=True, slots=True)
class SpanSets:
    """Sets of spans; no span is in two of them."""

    rows: Int64s
    """Rows of the frame, by set."""
    sets: Int64s
    """Number of the set of each row, ascending."""
    traces: Int64s
    """Trace of each set, ascending."""
    facts: tuple[tuple[str, tuple[Fact, ...]], ...] = ()
    """Values of sets by their name in the answer, in the order of the stages."""

    @property
    def count(self) -> int:
        return len(self.traces)

    def starts(self) -> Int64s:
        """Return the first place of each set in `rows`, and the end."""
        return np.searchsorted(self.sets, np.arange(self.count + 1))

    def keep(self, entries: Flags) -> SpanSets:
        """Keep some spans; sets without any are dropped."""
        rows, sets = self.rows[entries], self.sets[entries]
        kept, numbers = distinct_numbers(sets, self.count)
        return SpanSets(rows, numbers, self.traces[kept], self._facts_of(kept))

    def with_fact(self, name: str, values: Sequence[Fact]) -> SpanSets:
        return replace(self, facts=(*self.facts, (name, tuple(values))))

    def _facts_of(self, sets: Int64s) -> tuple[tuple[str, tuple[Fact, ...]], ...]:
        chosen = sets.tolist()
        return tuple((name, tuple(values[one] for one in chosen)) for name, values in self.facts)

    def split(self, codes: Int64s) -> SpanSets:
        """Split sets by a number of each span."""
        order = np.lexsort((codes, self.sets))
        sets, codes = self.sets[order], codes[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (sets[1:] != sets[:-1]) | (codes[1:] != codes[:-1])
        before = sets[is_new]
        numbers = np.cumsum(is_new) - 1
        return SpanSets(self.rows[order], numbers, self.traces[before], self._facts_of(before))


def all_spans(frame: Frame) -> SpanSets:
    return SpanSets(np.arange(frame.size), frame.trace_of, np.arange(frame.traces))


def evaluate_pipeline(frame: Frame, pipeline: Pipeline, sets: SpanSets | None = None) -> SpanSets:
    """Return the span sets of all traces."""
    found = all_spans(frame) if sets is None else sets
    for stage in pipeline.stages:
        found = _evaluate_stage(frame, stage, found)
    return found


def _evaluate_stage(frame: Frame, stage: Stage, sets: SpanSets) -> SpanSets:
    match stage:
        case Pipeline():
            return evaluate_pipeline(frame, stage, sets)
        case SpansetFilter() | Structural() | Combination():
            return sets.keep(_select(frame, stage, sets))
        case ScalarFilter():
            return _filter_by_scalar(frame, stage, sets)
        case Group():
            return _group(frame, stage, sets)
        case Coalesce():
            return SpanSets(sets.rows, sets.traces[sets.sets], np.arange(frame.traces)).keep(
                np.ones(len(sets.rows), np.bool_)
            )
        case Select():
            return sets


def _select(frame: Frame, expr: SpansetExpr, sets: SpanSets) -> Flags:
    """Flag the entries of the sets that an expression selects."""
    match expr:
        case SpansetFilter():
            return evaluate_condition(frame, expr.condition)[sets.rows]
        case Combination():
            left, right = _select(frame, expr.left, sets), _select(frame, expr.right, sets)
            if expr.op is LogicalOp.OR:
                return left | right
            return (left | right) & (_any(sets, left) & _any(sets, right))[sets.sets]
        case Structural():
            return _relate(frame, expr, sets)
        case Pipeline():
            found = np.zeros(frame.size, np.bool_)
            found[evaluate_pipeline(frame, expr, sets).rows] = True
            return found[sets.rows]


def _any(sets: SpanSets, entries: Flags) -> Flags:
    found = np.zeros(sets.count, np.bool_)
    found[sets.sets[entries]] = True
    return found


def _relate(frame: Frame, expr: Structural, sets: SpanSets) -> Flags:
    by_row = np.full(frame.size, -1, np.int64)
    by_row[sets.rows] = sets.sets
    sides = []
    for side in (expr.left, expr.right):
        flags = np.zeros(frame.size, np.bool_)
        flags[sets.rows[_select(frame, side, sets)]] = True
        sides.append(flags)
    return relate(frame.tree, by_row, expr.op, *sides)[sets.rows]


def _group(frame: Frame, stage: Group, sets: SpanSets) -> SpanSets:
    codes, names = group_codes(evaluate_expression(frame, stage.by))
    codes_of = codes[sets.rows].astype(np.int64)
    found = sets.split(codes_of)
    first = found.rows[found.starts()[:-1]]
    values = [_fact(names[code]) for code in codes[first].tolist()]
    return found.with_fact(print_node(stage), values)


def _fact(named: GroupValue) -> Fact:
    kind, value = named
    return (Type.NIL if kind is None else kind), value


def _filter_by_scalar(frame: Frame, stage: ScalarFilter, sets: SpanSets) -> SpanSets:
    """Keep sets of which the aggregate compares as asked, and note it."""
    aggregate, literal = stage.left, stage.right
    if not isinstance(aggregate, Aggregate) or not isinstance(literal, Literal) or literal.value is None:
        raise EvaluationError(f"{print_node(stage)} is no comparison of an aggregate with a number")
    facts, valid = aggregate_sets(frame, aggregate, sets)
    compare = COMPARISONS[stage.op.value]
    kept = np.array(
        [
            known and bool(compare(value, literal.value))
            for (_, value), known in zip(facts, valid, strict=True)
        ],
        np.bool_,
    )
    found = sets.with_fact(print_node(aggregate), facts)
    return found.keep(kept[sets.sets]) if sets.count else found


def aggregate_sets(frame: Frame, aggregate: Aggregate, sets: SpanSets) -> tuple[list[Fact], list[bool]]:
    """Aggregate each set; a set in which no span has a number has no result."""
    if aggregate.operand is None:
        counts = np.diff(sets.starts()).tolist()
        return [(Type.INTEGER, count) for count in counts], [True] * sets.count
    codes, whole, values, has_value = _numbers(evaluate_expression(frame, aggregate.operand))
    entries = has_value[sets.rows]
    rows, of_set = sets.rows[entries], sets.sets[entries]
    present, first = np.unique(of_set, return_index=True)
    facts: list[Fact] = [(Type.INTEGER, 0)] * sets.count
    valid = [False] * sets.count
    if len(present):
        counts = np.diff(np.append(first, len(of_set)))
        least, most = (one.reduceat(codes[rows], first) for one in (np.minimum, np.maximum))
        reduce = _REDUCTIONS[aggregate.op]
        exact, rounded = (reduce(one[rows], first, counts).tolist() for one in (whole, values))
        for place, number in enumerate(present.tolist()):
            kind = NUMERIC[least[place]] if least[place] == most[place] else Type.FLOAT
            result = rounded[place] if kind is Type.FLOAT else exact[place]
            facts[number], valid[number] = _result(kind, result, aggregate.op), True
    return facts, valid


def _result(kind: Type, value: float, op: AggregateOp) -> Fact:
    if kind is Type.DURATION:
        return kind, int(value)
    return (Type.FLOAT if op is AggregateOp.AVG else kind), value


def _sums(values: Array, first: Int64s, counts: Int64s) -> Array:
    """Add up in the order of the spans, as Tempo does: floats round differently in any other."""
    if values.dtype != np.float64:
        return np.add.reduceat(values, first)
    return np.bincount(np.repeat(np.arange(len(first)), counts), weights=values)


_Reduction = Callable[[Array, Int64s, Int64s], Array]
_REDUCTIONS: dict[AggregateOp, _Reduction] = {
    AggregateOp.MIN: lambda values, first, _: np.minimum.reduceat(values, first),
    AggregateOp.MAX: lambda values, first, _: np.maximum.reduceat(values, first),
    AggregateOp.SUM: _sums,
    AggregateOp.AVG: lambda values, first, counts: _sums(values, first, counts) / counts,
}
"""Reductions of values that stand together by set, from the places where sets begin."""


NUMERIC = tuple(sorted(NUMBERS))


def _numbers(column: Column) -> tuple[Int64s, Int64s, Doubles, Flags]:
    """Return by row: the type as its place in `NUMERIC`, the number, also as a float, and if there is one."""
    codes, whole = np.zeros((2, column.size), np.int64)
    values, known = np.zeros(column.size), np.zeros(column.size, np.bool_)
    for part in column.parts:
        if part.kind in NUMBERS and not part.is_list:
            codes[part.rows], known[part.rows] = NUMERIC.index(part.kind), True
            values[part.rows] = part.values
            if part.kind is not Type.FLOAT:
                whole[part.rows] = part.values
    return codes, whole, values, known
