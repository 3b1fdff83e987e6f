"""Functions of labels, order, absence and times: everything but the values of samples.

    label_replace(up{host="db-7"}, "n", "node $1", "host", "db-(.*)")  ->  up{host="db-7", n="node 7"}

`sort` and its variants order an instant query; range queries are always ordered by labels, and an annotation
says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key
from itertools import zip_longest

import numpy as np

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext import regexp
from lakerunner_query.gotext.limits import LabelBudget
from lakerunner_query.gotext.regexp import InvalidRegexError, replace_labels
from lakerunner_query.promql.context import Context, FunctionBody
from lakerunner_query.promql.functions.messages import ArgumentAnnotations
from lakerunner_query.promql.functions.over_time import sample_window_function
from lakerunner_query.promql.functions.windows import texts_of, vector_of, without_names
from lakerunner_query.promql.lang.ast import Call, Expr, Matrix, Selector, Shift
from lakerunner_query.promql.selectors import is_stale, strip_parens
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.labels import set_label, value_of
from lakerunner_query.vectors.rows import drop_empty_rows, has_float, merge_rows
from lakerunner_query.vectors.vector import NAME, Labels, Series, Value, Vector
from lakerunner_query.windows.extremes_kernels import newest
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.grid import absent as absent_at
from resources.arrays import Doubles, Flags

_PIECES = re.compile(r"\d+|\D+", re.ASCII)
_LARGEST = 2**63
_MOST_DIGITS = 19


def is_before(one: str, other: str) -> bool:
    """Compare names in natural order: runs of digits compare as numbers.

    >>> is_before("node2", "node10"), is_before("4m5", "4m600"), is_before("a", "a1")
    (True, True, True)

    Numbers come before texts; of equal numbers the one with more leading zeros comes first.
    """
    for mine, others in zip_longest(_PIECES.findall(one), _PIECES.findall(other)):
        if mine is None or others is None:
            return mine is None
        if mine == others:
            continue
        if _is_number(mine) and _is_number(others):
            numbers = int(mine.lstrip("0") or 0), int(others.lstrip("0") or 0)
            return len(mine) > len(others) if numbers[0] == numbers[1] else numbers[0] < numbers[1]
        return bool(mine < others)
    return False


def _is_number(piece: str) -> bool:
    """Tell if Go reads the piece as an `int`; Python would refuse to read thousands of digits at all."""
    if not piece[0].isdigit() or not piece.isascii():
        return False
    digits = piece.lstrip("0")
    return len(digits) <= _MOST_DIGITS and int(digits or 0) < _LARGEST


def label_replace(context: Context, call: Call) -> Value:
    target, replacement, source, pattern = texts_of(context, call, 1)
    vector = vector_of(context, call)
    sources = [value_of(labels, source) for labels in vector.labels]
    try:
        values = replace_labels(pattern, replacement, sources)
    except (InvalidRegexError, UnicodeEncodeError):
        raise EvaluationError(f"invalid regular expression in label_replace(): {pattern}") from None
    _check_name(target, "destination", call)
    return _relabel(vector, target, values)


def label_join(context: Context, call: Call) -> Value:
    target, separator, *sources = texts_of(context, call, 1)
    for source in sources:
        _check_name(source, "source", call)
    _check_name(target, "destination", call)
    vector = vector_of(context, call)
    budget, joined = LabelBudget(call.function), []
    for labels in vector.labels:
        parts = []
        for source in sources:
            parts.append(value_of(labels, source))
            budget.add(len(parts[-1]) + len(separator))
        joined.append(separator.join(parts))
    return _relabel(vector, target, [*joined])


def _relabel(vector: Vector, target: str, values: list[str | None]) -> Vector:
    """Set a label, except where the value is None; a metric name set here stays."""
    labels: list[Labels] = [
        one if value is None else set_label(one, target, value)
        for one, value in zip(vector.labels, values, strict=True)
    ]
    drop_name = vector.drop_name
    if target == NAME and drop_name is not None:
        drop_name = drop_name & np.array([value is None for value in values], np.bool_)
    return merge_rows(Vector(labels, vector.values, vector.present, vector.histograms, drop_name))


def _check_name(name: str, role: str, call: Call) -> None:
    """Raise for an empty name or one that is not UTF-8, whose bytes come as lone surrogates."""
    if not name or any("\ud800" <= one <= "\udfff" for one in name):
        shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise EvaluationError(f"invalid {role} label name in {call.function}(): {shown}")


def timestamp(context: Context, call: Call) -> Value:
    """Return the times of a selector's samples; computed values have the time of evaluation."""
    argument = strip_parens(call.arguments[0])
    if not isinstance(argument, Selector):
        vector = vector_of(context, call)
        times = np.broadcast_to(context.steps.times_ms / 1000, vector.present.shape)
        return without_names(vector.labels, times, vector.present)
    if argument.shift.at is not None and argument.shift.offset:
        # Prometheus reads what the offset says and then looks at the time of `@`, as if there were none
        moved = replace(argument, shift=Shift(0, argument.shift.at))
        series = context.samples(argument)
        return _newest_values(context, moved, series, series.time_ms / 1000)
    where = context.window(argument)
    found = context.source.over_windows(Function.TIMESTAMP, argument.matchers, where.grid)
    if found is None:
        series = context.samples(argument)
        return _newest_values(context, argument, series, series.time_ms / 1000)
    vector = without_names(found.labels, found.windows.values, found.windows.present)
    return context.spread(vector) if where.is_fixed else vector


def start_timestamp(context: Context, call: Call) -> Value:
    """Return the start times of a selector's samples, 0 where unknown; empty unless they are enabled."""
    argument = strip_parens(call.arguments[0])
    if not context.options.start_timestamps or not isinstance(argument, Selector):
        shape = (0, context.steps.count)
        return Vector([], np.zeros(shape), np.zeros(shape, np.bool_))
    series = context.samples(argument)
    starts = np.zeros(len(series.time_ms)) if series.start_ms is None else series.start_ms / 1000
    return _newest_values(context, argument, series, starts)


def _newest_values(context: Context, selector: Selector, series: Series, answers: Doubles) -> Vector:
    where = context.window(selector)
    shape = (series.count, where.grid.steps)
    values, states = np.full(shape, np.nan), np.zeros(shape, np.int8)
    newest(
        series.offsets,
        series.time_ms,
        answers,
        series.time_ms,
        ~is_stale(series),
        where.grid.windows,
        values,
        states,
    )
    vector = without_names(series.labels, values, states != 0)
    return context.spread(vector) if where.is_fixed else vector


_count = sample_window_function(Function.PRESENT)


def absent(context: Context, call: Call) -> Value:
    return _absence(call, vector_of(context, call).present)


def absent_over_time(context: Context, call: Call) -> Value:
    found = _count(context, call)
    if not isinstance(found, Vector):
        raise TypeError(f"expected an instant vector, found {type(found).__name__} for {call}")
    return _absence(call, found.present)


def _absence(call: Call, present: Flags) -> Value:
    missing = absent_at(present).reshape(1, -1)
    labels = labels_of_selector(strip_parens(call.arguments[0]))
    return drop_empty_rows(Vector([labels], np.ones(missing.shape), missing))


def labels_of_selector(expr: Expr) -> Labels:
    """Return labels that a selector requires to equal a value and no later matcher contradicts.

    absent(up{job="a", env=~"x|y", dc="1", dc="2"})  ->  {job="a"}
    """
    if isinstance(expr, Matrix):
        expr = expr.selector
    if not isinstance(expr, Selector):
        return ()
    told: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in _storage_order(expr.matchers):
        if matcher.op == MatchOp.EQUAL and matcher.name not in seen:
            seen.add(matcher.name)
            told[matcher.name] = matcher.value
        else:
            told.pop(matcher.name, None)
    return tuple(sorted((name, value) for name, value in told.items() if value and name != NAME))


def _storage_order(matchers: Sequence[Matcher]) -> list[Matcher]:
    """Order matchers as Prometheus' storage does: those that only exclude series come last."""
    demanded = {matcher.name for matcher in matchers if not _matches_empty(matcher)}

    def takes_away(matcher: Matcher) -> bool:
        return matcher.name not in demanded or (matcher.op.is_negative and _matches_empty(matcher))

    return sorted(matchers, key=takes_away)


def _matches_empty(matcher: Matcher) -> bool:
    """Check that a series without the label matches."""
    hits = regexp.full_matches(matcher.value, [""])[0] if matcher.op.is_regex else matcher.value == ""
    return hits != matcher.op.is_negative


def value_order_function(*, descending: bool) -> FunctionBody:
    """Build `sort` or `sort_desc`; NaN comes last either way, histograms drop out."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        vector = drop_empty_rows(
            Vector(vector.labels, vector.values, has_float(vector), None, vector.drop_name)
        )
        if _is_range(context, call):
            return vector
        values = vector.values[:, 0]
        order = np.lexsort((-values if descending else values, np.isnan(values)))
        return vector.take(order)

    return apply


def label_order_function(*, descending: bool) -> FunctionBody:
    """Build `sort_by_label` or `sort_by_label_desc`, in natural order; all labels break ties."""

    def apply(context: Context, call: Call) -> Value:
        vector = vector_of(context, call)
        if _is_range(context, call):
            return vector
        names = texts_of(context, call, 1)

        def compare(one: int, other: int) -> int:
            return _compare(vector.labels[one], vector.labels[other], names)

        order = sorted(range(len(vector.labels)), key=cmp_to_key(compare), reverse=descending)
        return vector.take(np.array(order, np.intp))

    return apply


def _compare(one: Labels, other: Labels, names: tuple[str, ...]) -> int:
    for name in names:
        mine, others = value_of(one, name), value_of(other, name)
        if mine != others:
            return -1 if is_before(mine, others) else 1
    return (one > other) - (one < other)


def _is_range(context: Context, call: Call) -> bool:
    if context.steps.count == 1:
        return False
    ArgumentAnnotations(context.annotations, call.span).useless_sort()
    return True
