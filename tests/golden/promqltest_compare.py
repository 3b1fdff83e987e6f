"""Whether an answer is what a script expects, by the rules of Prometheus' promqltest.

Floats may differ by a millionth of their sum; times, labels, bucket layouts and annotations may not differ
at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakerunner_query.histogram.model import Buckets, Histogram, compact
from lakerunner_query.promql.series_notation import Value, histogram_notation
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.windows.functions import STALE_BITS
from tests.golden.promqltest_script import Eval, Said, Times

EPSILON = 1e-6
_SMALLEST = 2.2250738585072014e-308
Point = float | Histogram


@dataclass(frozen=True, slots=True)
class Row:
    labels: Labels
    points: tuple[tuple[int, Point], ...]
    """Times and values."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a query gave, in the shape in which Prometheus would say it."""

    rows: tuple[Row, ...] = ()
    is_matrix: bool = False
    scalar: float | None = None
    string: str | None = None
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    failure: str | None = None
    """The message of the error."""

    def at(self, time_ms: int, is_scalar: bool) -> Outcome:
        """One step of a range answer, as an instant query would say it."""
        rows = [
            Row(row.labels, tuple(point for point in row.points if point[0] == time_ms)) for row in self.rows
        ]
        found = tuple(row for row in rows if row.points)
        if is_scalar:
            point = found[0].points[0][1]
            return Outcome(scalar=math.nan if isinstance(point, Histogram) else point)
        return Outcome(rows=found)


class MismatchError(Exception):
    """The answer is not the expected one."""


def check(expected: Eval, outcome: Outcome, times: Times) -> None:
    """Raise `MismatchError` unless the outcome fits; `times` are those at which points may be."""
    fails = expected.words.get("fail")
    if fails is not None or outcome.failure is not None:
        _check_failure(fails, outcome.failure)
        return
    _check_annotations(expected, outcome)
    check_value(expected, outcome, times)


def check_value(expected: Eval, outcome: Outcome, times: Times) -> None:
    """The answer alone, whatever was said beside it."""
    if outcome.string is not None:
        _expect(expected.string == outcome.string, f"string {outcome.string!r}, expected {expected.string!r}")
    elif outcome.scalar is not None:
        _check_scalar(expected, outcome.scalar)
    elif outcome.is_matrix:
        _check_matrix(expected, outcome.rows, times)
    else:
        _check_vector(expected, outcome.rows)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise MismatchError(otherwise)


def _check_failure(fails: list[Said] | None, failure: str | None) -> None:
    _expect(failure is not None, "an answer, expected an error")
    _expect(fails is not None, f"error: {failure}")
    for said in fails or ():
        _expect(said.fits(failure or ""), f"error {failure!r}, expected {said}")


def _check_annotations(expected: Eval, outcome: Outcome) -> None:
    for word, none, found in (("warn", "no_warn", outcome.warnings), ("info", "no_info", outcome.infos)):
        wanted = expected.words.get(word, [])  # type: ignore[call-overload]
        for said in wanted:
            _expect(any(said.fits(one) for one in found), f"{word} {list(found)}, expected {said}")
        for one in found if wanted else ():
            _expect(any(said.fits(one) for said in wanted), f"unexpected {word} {one!r}")
        _expect(none not in expected.words or not found, f"unexpected {word} {list(found)}")


def _check_scalar(expected: Eval, scalar: float) -> None:
    _expect(expected.number is not None, f"scalar {scalar}, expected series")
    _expect(almost(expected.number or 0.0, scalar), f"scalar {scalar}, expected {expected.number}")


def _check_vector(expected: Eval, rows: Sequence[Row]) -> None:
    _expect(expected.number is None, f"a vector, expected the scalar {expected.number}")
    wanted = {one.labels: (place, one.values) for place, one in enumerate(expected.series)}
    found = set()
    for place, row in enumerate(rows):
        _expect(row.labels in wanted, f"unexpected series {row.labels} = {_shown(row)}")
        where, values = wanted[row.labels]
        if "ordered" in expected.words:
            _expect(where == place, f"{row.labels} at place {place + 1}, expected {where + 1}")
        _expect(row.labels not in found, f"{row.labels} comes twice")
        found.add(row.labels)
        _check_point(row.labels, values[0], row.points[0][1])
    _expect(found == set(wanted), f"missing series {sorted(set(wanted) - found)}")


def _check_matrix(expected: Eval, rows: Sequence[Row], times: Times) -> None:
    _expect("ordered" not in expected.words, "a matrix, expected an ordered vector")
    _expect(expected.number is None, f"a matrix, expected the scalar {expected.number}")
    _expect(
        [row.labels for row in rows] == sorted(row.labels for row in rows), "series are not sorted by labels"
    )
    wanted = {one.labels: one.values for one in expected.series}
    found = set()
    for row in rows:
        _expect(row.labels in wanted, f"unexpected series {row.labels} = {_shown(row)}")
        _expect(row.labels not in found, f"{row.labels} comes twice")
        found.add(row.labels)
        values = [
            (times.start_ms + i * times.step_ms, value)
            for i, value in enumerate(wanted[row.labels])
            if not value.is_nothing
        ]
        seen = [time for time, _ in row.points]
        _expect(
            seen == [time for time, _ in values],
            f"{row.labels} has points at {seen}, expected {[time for time, _ in values]}: {_shown(row)}",
        )
        for (_, value), (time, point) in zip(values, row.points, strict=True):
            _check_point(row.labels, value, point, f" at {time}")
    _expect(found == set(wanted), f"missing series {sorted(set(wanted) - found)}")


def _check_point(labels: Labels, value: Value, point: Point, when: str = "") -> None:
    if value.histogram is None:
        _expect(not isinstance(point, Histogram), f"{labels}{when}: {shown(point)}, expected a float")
        if value.is_stale:
            _expect(_is_stale(point), f"{labels}{when}: {shown(point)}, expected a stale marker")
            return
        number = value.number or 0.0
        is_close = not isinstance(point, Histogram) and almost(number, point)
        _expect(is_close, f"{labels}{when}: {shown(point)}, expected {number!r}")
        return
    is_close = isinstance(point, Histogram) and same(value.histogram, point, value.says_hint)
    _expect(is_close, f"{labels}{when}: {shown(point)}, expected {histogram_notation(value.histogram)}")


def _is_stale(point: Point) -> bool:
    return not isinstance(point, Histogram) and int(np.float64(point).view(np.uint64)) == STALE_BITS


def shown(point: Point) -> str:
    return histogram_notation(point) if isinstance(point, Histogram) else repr(point)


def _shown(row: Row) -> str:
    return " ".join(f"{shown(point)}@{time}" for time, point in row.points[:20])


def almost(first: float, second: float) -> bool:
    """
    >>> almost(1.0, 1.0000001), almost(1.0, 1.00001), almost(float("nan"), float("nan"))
    (True, False, True)
    """
    if math.isnan(first) and math.isnan(second):
        return True
    if first == second:
        return True
    total, gap = abs(first) + abs(second), abs(first - second)
    if first == 0 or second == 0 or total < _SMALLEST:
        return gap < EPSILON * _SMALLEST
    return gap / min(total, 1.7976931348623157e308) < EPSILON


def same(expected: Histogram, found: Histogram, with_hint: bool) -> bool:
    expected, found = compact(expected), compact(found)
    return (
        expected.schema == found.schema
        and expected.bounds == found.bounds
        and expected.zero_threshold == found.zero_threshold
        and almost(expected.count, found.count)
        and almost(expected.sum, found.sum)
        and almost(expected.zero_count, found.zero_count)
        and _same_buckets(expected.positive, found.positive)
        and _same_buckets(expected.negative, found.negative)
        and (not with_hint or expected.hint == found.hint)
    )


def _same_buckets(expected: Buckets, found: Buckets) -> bool:
    return expected.index.tolist() == found.index.tolist() and all(
        map(almost, expected.count.tolist(), found.count.tolist())
    )
