"""PromQL expressions are put together from windows of derived metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_query.plan.rewrite import Case
from lakerunner_query.promql.lang.ast import (
    Aggregate,
    Binary,
    Call,
    Cardinality,
    Expr,
    Matching,
    Matrix,
    Number,
    Paren,
    Selector,
    Shift,
    Text,
)
from lakerunner_query.promql.lang.functions import SET_LABEL, TO_VECTOR, MergedWindow
from lakerunner_query.rules.documents import Form
from lakerunner_query.syntax import Matcher, MatchOp
from resources.lake.series import NAME_LABEL
from resources.lake.timecut import SECOND_NS

NS_PER_MS = 1_000_000
SETS = frozenset({"and", "or", "unless"})
_PLAIN_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Formula:
    """Aggregation over series of the same aggregation over time, of one form of a derived metric."""

    merge: MergedWindow
    """Functions over the samples of a window, and over the series of a group."""
    form: Form
    is_per_second: bool = False
    divided_by: Form | None = None
    """Form whose sum the outcome is divided by."""

    def over(self, case: Case, extra: Sequence[Matcher]) -> Expr:
        """Return the expression that gives what the leaf gives."""
        found: Expr = self._grouped(case, self.form, extra)
        if self.divided_by is not None:
            found = operation("/", found, self._grouped(case, self.divided_by, extra))
        if self.is_per_second:
            found = operation("/", found, number(case.leaf.times.range_ns / SECOND_NS))
        return found

    def _grouped(self, case: Case, form: Form, extra: Sequence[Matcher]) -> Expr:
        metric, times = case.metric.series.get(form, case.metric.metric), case.leaf.times
        named = Matcher(NAME_LABEL, MatchOp.EQUAL, metric)
        name = metric if _PLAIN_NAME.fullmatch(metric) else ""
        selector = Selector(name, (*extra, named), Shift(times.offset_ns // NS_PER_MS))
        windowed = Call(self.merge.over_time, (Matrix(selector, times.range_ns // NS_PER_MS),))
        return Aggregate(self.merge.aggregation, windowed, None, case.leaf.by or ())


def operation(op: str, left: Expr, right: Expr, *, return_bool: bool = False) -> Expr:
    """Combine two expressions, in parentheses so that no operator around them binds closer."""
    matching = None
    if not _is_number(left) and not _is_number(right):
        matching = Matching(Cardinality.MANY_TO_MANY if op in SETS else Cardinality.ONE_TO_ONE)
    return Paren(Binary(op, left, right, matching, return_bool))


def number(value: float) -> Expr:
    """Return a number; a sign stands in parentheses, since powers bind closer than signs."""
    return Number(value) if value >= 0 else Paren(Number(value))


def _is_number(expr: Expr) -> bool:
    return isinstance(expr, Number) or (isinstance(expr, Paren) and isinstance(expr.expr, Number))


def labelled(expr: Expr, name: str, value: str) -> Expr:
    """Give all series a label that they do not have."""
    return Call(SET_LABEL, (expr, Text(name), Text(value), Text(name), Text("")))


def vector_of(value: float) -> Expr:
    return Call(TO_VECTOR, (number(value),))
