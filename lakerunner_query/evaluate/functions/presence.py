"""`absent` and `absent_over_time`: 1 where nothing is, with the labels that the selector tells for sure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakerunner_query.evaluate.context import Context
from lakerunner_query.evaluate.functions.arguments import vector_of
from lakerunner_query.evaluate.functions.over_time import of_all
from lakerunner_query.evaluate.selecting import bare
from lakerunner_query.gotext import regexp
from lakerunner_query.lang.promql.ast import Call, Expr, Matrix, Selector
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.vectors.rows import occupied
from lakerunner_query.vectors.vector import NAME, Labels, Value, Vector
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.functions import absent as absent_at
from resources.arrays import Flags

_count = of_all(Function.PRESENT)


def absent(context: Context, call: Call) -> Value:
    return _missing(call, vector_of(context, call).present)


def absent_over_time(context: Context, call: Call) -> Value:
    found = _count(context, call)
    if not isinstance(found, Vector):
        raise TypeError(f"expected an instant vector, found {type(found).__name__} for {call}")
    return _missing(call, found.present)


def _missing(call: Call, present: Flags) -> Value:
    missing = absent_at(present).reshape(1, -1)
    labels = told_labels(bare(call.arguments[0]))
    return occupied(Vector([labels], np.ones(missing.shape), missing))


def told_labels(expr: Expr) -> Labels:
    """Labels of a selector that have to equal something, unless a later matcher of theirs says otherwise.

    absent(up{job="a", env=~"x|y", dc="1", dc="2"})  ->  {job="a"}
    """
    if isinstance(expr, Matrix):
        expr = expr.selector
    if not isinstance(expr, Selector):
        return ()
    told: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in _in_order(expr.matchers):
        if matcher.op == MatchOp.EQUAL and matcher.name not in seen:
            seen.add(matcher.name)
            told[matcher.name] = matcher.value
        else:
            told.pop(matcher.name, None)
    return tuple(sorted((name, value) for name, value in told.items() if value and name != NAME))


def _in_order(matchers: Sequence[Matcher]) -> list[Matcher]:
    """As Prometheus' storage leaves them: those behind that only take series away."""
    demanded = {matcher.name for matcher in matchers if not _takes_nothing(matcher)}

    def takes_away(matcher: Matcher) -> bool:
        return matcher.name not in demanded or (matcher.op.is_negative and _takes_nothing(matcher))

    return sorted(matchers, key=takes_away)


def _takes_nothing(matcher: Matcher) -> bool:
    """Whether a series without the label matches."""
    hits = regexp.full_matches(matcher.value, [""])[0] if matcher.op.is_regex else matcher.value == ""
    return hits != matcher.op.is_negative
