"""What a metric query reads: each selector's stretch of time, and the index terms that prune for it.

rate(errors_total{job="api"}[5m] offset 1h)  at 12:00, 12:01 … 13:00

samples of errors_total{job="api"} in (10:55, 12:00], segments with the terms of that name and that job
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakerunner_query.plan.rules.terms import MAX_TERMS, MAX_VALUES, demanded_values
from lakerunner_query.promql.lang.ast import Call, Expr, Matrix, Reach, Selector, Shift, Subquery, children
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.vector import Steps
from resources.lake.series import NAME_FIELD, NAME_LABEL
from resources.lake.terms import alternatives

INFO = "info"
TARGET_INFO = "target_info"


@dataclass(frozen=True, slots=True)
class Reads:
    """Samples in `(from_ms, to_ms]` of the series that match."""

    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int

    @property
    def terms(self) -> tuple[tuple[int, ...], ...]:
        """A conjunction of alternatives that a segment with such samples carries."""
        found = [
            tuple(alternatives(NAME_FIELD if matcher.name == NAME_LABEL else matcher.name, values))
            for matcher in self.matchers
            if 0 < len(values := demanded_values(matcher)) <= MAX_VALUES and all(map(_is_text, values))
        ]
        return tuple(found[:MAX_TERMS])


def reads(expr: Expr, steps: Steps, lookback_ms: int, default_step_ms: int) -> tuple[Reads, ...]:
    """All stretches of a bound expression, those of one selector together."""
    found: dict[tuple[Matcher, ...], Reads] = {}
    for each in _reads(expr, steps.start_ms, steps.end_ms, lookback_ms, default_step_ms):
        known = found.get(each.matchers)
        found[each.matchers] = each if known is None else Reads(
            each.matchers, min(known.from_ms, each.from_ms), max(known.to_ms, each.to_ms)
        )  # fmt: skip
    return tuple(found.values())


def _reads(expr: Expr, first: int, last: int, lookback: int, default_step: int) -> Iterator[Reads]:
    match expr:
        case Selector():
            yield _selected(expr, first, last, lookback, 0)
        case Matrix():
            yield _selected(expr.selector, first, last, lookback, _known(expr.range))
        case Subquery():
            begin, end = _shifted(expr.shift, first, last)
            step = default_step if expr.step is None else _known(expr.step)
            yield from _reads(expr.expr, begin - _known(expr.range) - step, end, lookback, default_step)
        case Call(function=function) if function == INFO:
            yield from _of_info(expr, first, last, lookback, default_step)
        case _:
            for child in children(expr):
                yield from _reads(child, first, last, lookback, default_step)


def _selected(selector: Selector, first: int, last: int, lookback: int, width: int) -> Reads:
    begin, end = _shifted(selector.shift, first, last)
    if not width:
        return Reads(selector.matchers, begin - lookback, end)
    if selector.reach is Reach.PLAIN:
        return Reads(selector.matchers, begin - width, end)
    after = lookback if selector.reach is Reach.SMOOTHED else 0
    return Reads(selector.matchers, begin - width - lookback, end + after)


def _of_info(call: Call, first: int, last: int, lookback: int, default_step: int) -> Iterator[Reads]:
    """The second argument names series that are looked up beside those of the first."""
    yield from _reads(call.arguments[0], first, last, lookback, default_step)
    own = next((a.matchers for a in call.arguments[1:] if isinstance(a, Selector)), ())
    names = tuple(m for m in own if m.name == NAME_LABEL)
    wanted = names or (Matcher(NAME_LABEL, MatchOp.EQUAL, TARGET_INFO),)
    for begin, end in _stretches(call.arguments[0], first, last):
        yield Reads(wanted, begin - lookback, end)


def _stretches(expr: Expr, first: int, last: int) -> Iterable[tuple[int, int]]:
    """Evaluation times of the selectors below, which decide when info series are looked up."""
    yield first, last
    for child in children(expr):
        if isinstance(child, Selector):
            yield _shifted(child.shift, first, last)
        yield from _stretches(child, first, last)
    if isinstance(expr, Selector):
        yield _shifted(expr.shift, first, last)


def _shifted(shift: Shift, first: int, last: int) -> tuple[int, int]:
    offset = _known(shift.offset)
    if isinstance(shift.at, int):
        return shift.at - offset, shift.at - offset
    return first - offset, last - offset


def _is_text(value: str) -> bool:
    """Bytes that are no UTF-8 stand in a query as lone surrogates; no segment has a term of those."""
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)


def _known(duration: object) -> int:
    if not isinstance(duration, int):
        raise TypeError(f"{duration!r}: the expression is not bound to the times of its query yet")
    return duration
