"""Plan of a PromQL query: what each selector reads, which rollups may serve it, what shards can compute.

rate(errors_total{job="api"}[5m] offset 1h)  at 12:00, 12:01 … 13:00

samples of errors_total{job="api"} in (10:55, 12:00], segments with the terms of that name and that job
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lakerunner_query.plan.rules.matchers import MAX_TERMS, MAX_VALUES, demanded_values
from lakerunner_query.promql.lang.ast import (
    NO_SHIFT,
    Aggregate,
    Call,
    Expr,
    Matrix,
    Number,
    Paren,
    Reach,
    Selector,
    Shift,
    Subquery,
    Unary,
    children,
)
from lakerunner_query.promql.lang.bind import lookup_shift
from lakerunner_query.promql.lang.functions import FUNCTIONS, RESET_CONTEXT_MS, ResetHints, Sharding
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Steps
from lakerunner_query.windows.grid import Grid
from lakerunner_query.windows.rollup_choice import fitting_rollups
from resources.lake.frequency import HOUR, ROLLUPS, TEN_SECONDS
from resources.lake.series import NAME_FIELD, NAME_LABEL
from resources.lake.terms import alternatives

NS_PER_MS = 1_000_000


def rollups_for(expr: Expr, steps: Steps, lookback_ms: int) -> tuple[int, ...]:
    """Return rollups (frequencies in ms) that may serve a query, by its text and times.

        sum by (job) (increase(errors_total[1h])), step 1 h, at whole hours  ->  1h, 5m, 1m, 10s
        rate(errors_total[5m]), step 15 s                                    ->  none: windows cut buckets

    These are the frequencies that divide the windows of some selector, with all that they are built from;
    `windows/rollup_choice.py` and the kernels decide whether they give the same as samples.
    """
    widest = max(
        (_coarsest(grid, look_back) for grid, look_back in _grids(expr, steps, lookback_ms)), default=0
    )
    return tuple(rollup.frequency_ms for rollup in ROLLUPS if rollup.frequency_ms <= widest)


def _coarsest(grid: Grid, look_back: bool) -> int:
    if grid.steps == 1 and grid.range_ms < HOUR:
        return 0  # a handful of samples is read faster than the index is asked
    serving = [
        rollup.frequency_ms
        for rollup in fitting_rollups(grid, look_back=look_back)
        if grid.range_ms >= rollup.frequency_ms
    ]
    return max(serving, default=0)


def _grids(expr: Expr, steps: Steps, lookback_ms: int) -> Iterator[tuple[Grid, bool]]:
    match expr:
        case Selector() if expr.reach is Reach.PLAIN:
            yield _grid(expr.shift, steps, lookback_ms), True
        case Matrix(selector=selector) if selector.reach is Reach.PLAIN and isinstance(expr.range, int):
            yield _grid(selector.shift, steps, expr.range), False
        case Subquery():
            # the grid inside is an absolute one; samples are read at its own steps
            yield Grid(0, TEN_SECONDS, 1, lookback_ms), True
        case _:
            for child in children(expr):
                yield from _grids(child, steps, lookback_ms)


def _grid(shift: Shift, steps: Steps, range_ms: int) -> Grid:
    offset = shift.offset if isinstance(shift.offset, int) else 0
    if isinstance(shift.at, int):
        return Grid(shift.at, 0, 1, max(1, range_ms), offset)
    return Grid(steps.start_ms, steps.step_ms, steps.count, max(1, range_ms), offset)


def per_series(expr: Expr) -> tuple[Expr, ...] | None:
    """Return the parts that shards of the series can compute, in order of the text.

        sum by (job) (rate(errors_total[5m])) / on (job) group_left max by (job) (up)

        parts: rate(errors_total[5m]), up

    A worker computes the parts for its shard of the series, and one computes the rest when all shards are
    there. A part is a function of single series, so that shards only have to be put in order of labels again.
    None where something is read outside of parts, or where a part is not aggregated: all of its series would
    travel, and nothing is gained.
    """
    found: list[Expr] = []
    waiting: list[tuple[Expr, bool]] = [(expr, False)]
    while waiting:
        one, is_aggregated = waiting.pop()
        if _is_part(one):
            if not is_aggregated:
                return None
            found.append(one)
        elif isinstance(one, Selector | Matrix | Subquery) or _looks_at_samples(one):
            return None
        else:
            is_aggregated = is_aggregated or isinstance(one, Aggregate)
            waiting += [(child, is_aggregated) for child in reversed(children(one))]
    return tuple(found) or None


def _is_part(expr: Expr) -> bool:
    match expr:
        case Selector(reach=reach):
            return reach is Reach.PLAIN
        case Call(function=name, arguments=arguments) if FUNCTIONS[name].sharding is Sharding.BY_SERIES:
            bare = [_bare(argument) for argument in arguments]
            windows = [one for one in bare if isinstance(one, Matrix)]
            are_known = all(isinstance(one, Matrix) or _is_literal(one) for one in bare)
            return are_known and len(windows) == 1 and windows[0].selector.reach is Reach.PLAIN
        case _:
            return False


def _looks_at_samples(expr: Expr) -> bool:
    match expr:
        case Call(function=name, arguments=arguments):
            sharding = FUNCTIONS[name].sharding
            if sharding is Sharding.NOT_OF_SELECTORS:
                return any(isinstance(_bare(one), Selector) for one in arguments)
            return sharding is Sharding.NEVER
        case _:
            return False


def _is_literal(expr: Expr) -> bool:
    if isinstance(expr, Unary):
        return _is_literal(_bare(expr.expr))
    return isinstance(expr, Number)


def _bare(expr: Expr) -> Expr:
    while isinstance(expr, Paren):
        expr = expr.expr
    return expr


TARGET_INFO = "target_info"


@dataclass(frozen=True, slots=True)
class Reads:
    """Samples in `(from_ms, to_ms]` of the series that match."""

    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int
    before_ms: int = 0
    """Time before it in which the histograms are found that its first ones continue."""

    @property
    def interval_ns(self) -> tuple[int, int]:
        """Bounds of all nanoseconds in these milliseconds, the first exclusive."""
        return self.from_ms * NS_PER_MS, (self.to_ms + 1) * NS_PER_MS - 1

    @property
    def terms(self) -> tuple[tuple[int, ...], ...]:
        """Conjunction of alternatives that a segment with such samples carries."""
        found = [
            tuple(alternatives(NAME_FIELD if matcher.name == NAME_LABEL else matcher.name, values))
            for matcher in self.matchers
            if 0 < len(values := demanded_values(matcher)) <= MAX_VALUES and all(map(_is_text, values))
        ]
        return tuple(found[:MAX_TERMS])


def reads(expr: Expr, steps: Steps, lookback_ms: int, default_step_ms: int) -> tuple[Reads, ...]:
    """Return what a bound expression reads, one interval per selector."""
    found: dict[tuple[Matcher, ...], Reads] = {}
    for each in _reads(expr, _Around(steps.start_ms, steps.end_ms, lookback_ms, default_step_ms)):
        known = found.get(each.matchers)
        found[each.matchers] = each if known is None else Reads(
            each.matchers, min(known.from_ms, each.from_ms), max(known.to_ms, each.to_ms),
            max(known.before_ms, each.before_ms),
        )  # fmt: skip
    return tuple(found.values())


class _Around(NamedTuple):
    """Everything around an expression that decides what it reads."""

    first: int
    last: int
    """Evaluation times in milliseconds."""
    lookback: int
    default_step: int
    hints: ResetHints = ResetHints.STORED

    def shifted(self, shift: Shift) -> _Around:
        offset = _bound(shift.offset)
        if isinstance(shift.at, int):
            return self._replace(first=shift.at - offset, last=shift.at - offset)
        return self._replace(first=self.first - offset, last=self.last - offset)


def _reads(expr: Expr, around: _Around) -> Iterator[Reads]:
    match expr:
        case Selector():
            yield _select(expr, around, 0)
        case Matrix():
            yield _select(expr.selector, around, _bound(expr.range))
        case Subquery():
            inner = around.shifted(expr.shift)
            step = around.default_step if expr.step is None else _bound(expr.step)
            first = inner.first - _bound(expr.range) - step
            yield from _reads(expr.expr, inner._replace(first=first, hints=ResetHints.FINAL))
        case Call(function=name):
            below = around._replace(hints=max(around.hints, FUNCTIONS[name].hints_below))
            if FUNCTIONS[name].syntax.label_selector is not None:
                yield from _of_info(expr, below)
                return
            for argument in expr.arguments:
                yield from _reads(argument, below)
        case _:
            for child in children(expr):
                yield from _reads(child, around)


def _select(selector: Selector, around: _Around, width: int) -> Reads:
    """Return what the windows of a selector read; without a range they are the look-back."""
    times, lookback = around.shifted(selector.shift), around.lookback
    is_extended = bool(width) and selector.reach is not Reach.PLAIN
    return Reads(
        selector.matchers,
        times.first - (width or lookback) - (lookback if is_extended else 0),
        times.last + (lookback if selector.reach is Reach.SMOOTHED else 0),
        RESET_CONTEXT_MS if around.hints is ResetHints.DETECTED else 0,
    )


def _of_info(call: Call, around: _Around) -> Iterator[Reads]:
    """Yield the reads of `info`: its second argument names series that are looked up beside the first."""
    yield from _reads(call.arguments[0], around)
    own = next((a.matchers for a in call.arguments[1:] if isinstance(a, Selector)), ())
    names = tuple(m for m in own if m.name == NAME_LABEL)
    wanted = names or (Matcher(NAME_LABEL, MatchOp.EQUAL, TARGET_INFO),)
    times = around.shifted(lookup_shift(call.arguments[0]) or NO_SHIFT)
    yield Reads(wanted, times.first - around.lookback, times.last)


def _is_text(value: str) -> bool:
    """Tell whether a value is UTF-8; other bytes are lone surrogates, and no segment has a term of those."""
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)


def _bound(duration: object) -> int:
    if not isinstance(duration, int):
        raise TypeError(f"{duration!r}: the expression is not bound to the times of its query yet")
    return duration
