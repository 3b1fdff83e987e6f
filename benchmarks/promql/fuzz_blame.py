"""Which part of a query two sides disagree about, and whether rounding explains it.

    sum(rate(x[5m])) > 3        parts are asked one by one, inner ones first
      rate(x[5m])               close, not equal in every bit
      sum(rate(x[5m]))          close
      sum(rate(x[5m])) > 3      different: operands differ in their last bits, and `>` jumps

A part whose operands are equal in every bit and whose answer is not even close is a fault of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.promql.fuzz_compare import Answer, Likeness, Tolerance, answer_of, likeness, same_multisets
from benchmarks.promql.fuzz_queries import Question
from lakerunner_query.errors import QueryError
from lakerunner_query.promql.lang.ast import Aggregate, Call, Expr, Matrix, Selector, Subquery, Type, children
from lakerunner_query.promql.lang.check import type_of
from lakerunner_query.promql.lang.parser import parse
from lakerunner_query.promql.lang.printer import to_text

Ask = Callable[[str, int, int, int], dict[str, Any]]
CHOOSING = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
LOOSE = re.compile(r"std(dev|var)|deriv|predict_linear|smoothing|histogram_(std|quantile|fraction)")
"""Sums of squares: the order of adding shows in more digits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    explained: bool
    why: str
    part: str = ""
    """The smallest part of the query that differs."""


class Judge:
    """Compares two sides question by question."""

    def __init__(self, mine: Ask, theirs: Ask, largest: dict[str, float]) -> None:
        self._mine, self._theirs, self._largest = mine, theirs, largest

    def verdict(self, asked: Question) -> Verdict | None:
        """None: both say the same."""
        both = self._both(asked)
        quick = self._compared(both, Tolerance())
        if quick[0] is not Likeness.DIFFERENT:
            return None
        if (
            "internal" in (both[0].get("errorType"), both[1].get("errorType"))
            or both[0]["status"] != both[1]["status"]
        ):
            part = self._smallest_refused(asked)
            return Verdict(False, quick[1], part)
        try:
            expr = parse(asked.text)
        except QueryError as error:
            return Verdict(False, f"{quick[1]}; {error}")
        found = self._blamed(asked, expr)
        if found is not None and (found.explained or not _chooses_below(parse(found.part))):
            return found
        # asked again, a peer chooses others of equal values
        return Verdict(
            True, "ties" if _chooses(expr) else "rounding within what the operands allow", asked.text
        )

    def _both(self, asked: Question) -> tuple[dict[str, Any], dict[str, Any]]:
        at = asked.text, asked.start_ms, asked.end_ms, asked.step_ms
        return self._mine(*at), self._theirs(*at)

    def _compared(
        self, both: tuple[dict[str, Any], dict[str, Any]], tolerance: Tolerance
    ) -> tuple[Likeness, str]:
        mine, theirs = both
        if mine["status"] != theirs["status"] or mine.get("errorType") == "internal":
            said = [f"{each['status']} {each.get('error', '')}".strip() for each in both]
            return Likeness.DIFFERENT, f"{said[0]}\n    expected {said[1]}"
        if mine["status"] == "error":
            return Likeness.EXACT, ""
        return likeness(answer_of(mine), answer_of(theirs), tolerance)

    def _blamed(self, asked: Question, expr: Expr) -> Verdict | None:
        """The first part, inner ones first, that differs."""
        for child in _askable(expr):
            if found := self._blamed(asked, child):
                return found
        part = Question(to_text(expr), asked.start_ms, asked.end_ms, asked.step_ms)
        both = self._both(part)
        operands = [self._both(Question(to_text(c), *_times(asked))) for c in _askable(expr)]
        answers = [answer_of(each) for pair in operands for each in pair if each["status"] == "success"]
        tolerance = self._tolerance(expr, answers)
        alike, why = self._compared(both, tolerance)
        if alike is not Likeness.DIFFERENT:
            return None
        if any(each["status"] != "success" for each in both):
            return Verdict(False, why, part.text)
        if (
            isinstance(expr, Aggregate)
            and str(expr.op) in CHOOSING
            and same_multisets(answer_of(both[0]), answer_of(both[1]), tolerance)
        ):
            return Verdict(True, "ties", part.text)
        bitwise = all(self._compared(pair, tolerance)[0] is Likeness.EXACT for pair in operands)
        inner = [c for c in children(expr) if isinstance(c, Subquery)]
        if operands and not bitwise and not inner:
            return Verdict(True, "operands differ in their last bits", part.text)
        return Verdict(False, why, part.text)

    def _tolerance(self, expr: Expr, operands: list[Answer]) -> Tolerance:
        own = to_text(expr)
        names = [
            m.value
            for part in _walk(expr)
            if isinstance(part, Selector)
            for m in part.matchers
            if m.name == "__name__"
        ]
        samples = max((self._largest.get(name, max(self._largest.values())) for name in names), default=0.0)
        largest = max([each.largest for each in operands if each.largest < 1e250], default=0.0)
        if not operands or any(isinstance(part, Subquery) for part in _walk(expr)):
            largest = max(largest, samples)
        loose = LOOSE.search(own) is not None
        return Tolerance(1e-6, 1e-9 * largest) if loose else Tolerance(1e-9, 1e-12 * largest)

    def _smallest_refused(self, asked: Question) -> str:
        """The smallest part about which the sides disagree whether it is an error."""
        try:
            expr = parse(asked.text)
        except QueryError:
            return asked.text
        for child in _askable(expr):
            part = Question(to_text(child), *_times(asked))
            mine, theirs = self._both(part)
            if mine.get("errorType") == "internal" or mine["status"] != theirs["status"]:
                return self._smallest_refused(part)
        return asked.text


def _times(asked: Question) -> tuple[int, int, int]:
    return asked.start_ms, asked.end_ms, asked.step_ms


def _askable(expr: Expr) -> Iterator[Expr]:
    """Operands that can be asked at the same times."""
    for child in children(expr):
        if isinstance(child, (Matrix, Subquery)):
            continue
        if type_of(child) in {Type.VECTOR, Type.SCALAR} and not (
            isinstance(expr, Call) and expr.function == "info"
        ):
            yield child


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from _walk(child)


def _chooses(expr: Expr) -> bool:
    """Whether some part takes only so many of its series."""
    return any(isinstance(part, Aggregate) and part.op in CHOOSING for part in _walk(expr))


def _chooses_below(expr: Expr) -> bool:
    return any(map(_chooses, children(expr)))
