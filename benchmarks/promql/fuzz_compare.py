"""Whether two answers say the same: label sets and times exactly, numbers nearly.

EXACT      every bit, besides the sign of zero
CLOSE      1e-9 of the number, or 1e-12 of the largest operand
DIFFERENT  anything else
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

RELATIVE, OF_OPERANDS = 1e-9, 1e-12
Key = tuple[tuple[str, str], ...]
Number = float
Point = float | tuple[Any, ...]
"""A float, or a histogram: (count, sum, (rule, low, high, count)...)."""


class Likeness(IntEnum):
    EXACT = 0
    CLOSE = 1
    DIFFERENT = 2


@dataclass(frozen=True, slots=True)
class Tolerance:
    relative: float = RELATIVE
    absolute: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    kind: str
    series: dict[Key, dict[float, Point]]
    order: tuple[Key, ...]
    text: str = ""

    @property
    def largest(self) -> float:
        """The greatest finite number in it, signs aside."""
        return max(
            (abs(n) for points in self.series.values() for p in points.values() for n in _numbers(p)
             if math.isfinite(n)),
            default=0.0,
        )  # fmt: skip


def answer_of(response: dict[str, Any]) -> Answer:
    data = response["data"]
    kind, result = data["resultType"], data["result"]
    if kind == "string":
        return Answer(kind, {}, (), result[1])
    if kind == "scalar":
        return Answer(kind, {(): {float(result[0]): number(result[1])}}, ((),))
    series: dict[Key, dict[float, Point]] = {}
    order: list[Key] = []
    for one in result:
        key = tuple(sorted(one["metric"].items()))
        points: dict[float, Point] = series.setdefault(key, {})
        order.append(key)
        for time, value in one.get("values", [one["value"]] if "value" in one else []):
            points[float(time)] = number(value)
        histograms = one.get("histograms", [one["histogram"]] if "histogram" in one else [])
        for time, histogram in histograms:
            points[float(time)] = _histogram(histogram)
    return Answer(kind, series, tuple(order))


def likeness(mine: Answer, theirs: Answer, tolerance: Tolerance) -> tuple[Likeness, str]:
    """How alike, and the first place where they are not."""
    if mine.kind != theirs.kind or mine.text != theirs.text:
        return Likeness.DIFFERENT, f"{mine.kind} {mine.text!r}, expected {theirs.kind} {theirs.text!r}"
    if len(mine.order) != len(mine.series):
        return Likeness.DIFFERENT, "a label set comes twice"
    if mine.series.keys() != theirs.series.keys():
        only = sorted(mine.series.keys() - theirs.series.keys())
        lacks = sorted(theirs.series.keys() - mine.series.keys())
        return Likeness.DIFFERENT, f"too many series: {only[:2]}, missing: {lacks[:2]}"
    found = Likeness.EXACT
    for key, points in theirs.series.items():
        own = mine.series[key]
        if own.keys() != points.keys():
            times = sorted(own.keys() ^ points.keys())
            return Likeness.DIFFERENT, f"{key}: only one side has a sample at {times[:3]}"
        for time, point in points.items():
            each = _compared(own[time], point, tolerance)
            if each is Likeness.DIFFERENT:
                return each, f"{key} at {time:.3f}: {own[time]!r}, expected {point!r}"
            found = max(found, each)
    return found, ""


def same_multisets(mine: Answer, theirs: Answer, tolerance: Tolerance) -> bool:
    """Whether at every time there are the same values, whoever has them."""

    def by_time(answer: Answer) -> dict[float, list[float]]:
        found: dict[float, list[float]] = {}
        for points in answer.series.values():
            for time, point in points.items():
                found.setdefault(time, []).append(point if isinstance(point, float) else math.nan)
        return {time: sorted(values, key=lambda v: (v != v, v)) for time, values in found.items()}  # noqa: PLR0124

    one, other = by_time(mine), by_time(theirs)
    return one.keys() == other.keys() and all(
        len(one[time]) == len(values)
        and all(
            _close(a, b, tolerance) is not Likeness.DIFFERENT for a, b in zip(one[time], values, strict=True)
        )
        for time, values in other.items()
    )


def other_texts(mine: dict[str, Any], theirs: dict[str, Any]) -> list[tuple[str, str]]:
    """Equal numbers of two answers that are spelled differently: ours and theirs."""
    own, found = _texts(mine), []
    for place, text in _texts(theirs).items():
        spelled = own.get(place, text)
        if spelled != text and number(spelled) == number(text):
            found.append((spelled, text))
    return found


def _texts(response: dict[str, Any]) -> dict[tuple[Key, str], str]:
    """Floats as they are written."""
    result = response["data"]["result"]
    if response["data"]["resultType"] not in {"vector", "matrix"}:
        return {}
    return {
        (tuple(sorted(one["metric"].items())), str(time)): value
        for one in result
        for time, value in one.get("values", [one["value"]] if "value" in one else [])
    }


def number(text: str) -> float:
    return float(text.replace("Inf", "inf"))


def _histogram(found: dict[str, Any]) -> tuple[Any, ...]:
    """Buckets that count NaN are left out: what was empty and listed shows only once divided by NaN."""
    buckets = tuple(
        (rule, number(low), number(high), number(count))
        for rule, low, high, count in found.get("buckets", [])
        if count != "NaN"
    )
    return (number(found["count"]), number(found["sum"]), *buckets)


def _numbers(point: Point) -> tuple[float, ...]:
    return (point,) if isinstance(point, float) else (point[0], point[1])


def _compared(mine: Point, theirs: Point, tolerance: Tolerance) -> Likeness:
    if isinstance(mine, float) and isinstance(theirs, float):
        return _close(mine, theirs, tolerance)
    if isinstance(mine, float) or isinstance(theirs, float) or len(mine) != len(theirs):
        return Likeness.DIFFERENT
    found = max(_close(mine[place], theirs[place], tolerance) for place in (0, 1))
    for one, other in zip(mine[2:], theirs[2:], strict=True):
        if one[0] != other[0]:
            return Likeness.DIFFERENT
        found = max(found, *(_close(a, b, tolerance) for a, b in zip(one[1:], other[1:], strict=True)))
    return found


def _close(mine: float, theirs: float, tolerance: Tolerance) -> Likeness:
    if mine == theirs or (math.isnan(mine) and math.isnan(theirs)):
        return Likeness.EXACT
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        return Likeness.DIFFERENT
    allowed = max(tolerance.relative * max(abs(mine), abs(theirs)), tolerance.absolute)
    return Likeness.CLOSE if abs(mine - theirs) <= allowed else Likeness.DIFFERENT
