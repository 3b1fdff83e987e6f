r"""Series are written as in tests of rules: labels, then values at equal distances.

    requests{job="api"} 1+2x3 _ stale {{count:4 buckets:[1 3]}}x1

    requests{job="api"}   1 3 5 7   (nothing)   stale   a histogram, twice

`a+bxN` is N + 1 values, `axN` is a N + 1 times, `_xN` is nothing N times. Hexadecimal numbers are none here:
`0x8` is zero, nine times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.histogram.arithmetic import add, sub
from lakerunner_query.histogram.model import CUSTOM, Buckets, Hint, Histogram, buckets_at
from lakerunner_query.vectors.vector import NAME, Labels

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:.]*+")
_QUOTED = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`[^`]*+`"
_PAIR = re.compile(rf"\s*+(?:([a-zA-Z_][a-zA-Z0-9_]*+)|({_QUOTED}))\s*+(?:=\s*+({_QUOTED}))?\s*+(,|(?=\}}))")
_CLOSING = re.compile(r"\s*+\}")
_NUMBER = r"(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|[iI][nN][fF]|[nN][aA][nN])"
_ITEM = re.compile(rf"(stale|[+-]?{_NUMBER})(?:([+-]{_NUMBER})?x(\d++))?(?=\s|$)")
BLANK = re.compile(r"_(?:x(\d++))?(?=\s|$)")
_BRACED = r"\{\{((?:[^}]|\}(?!\}))*+)\}\}"
_HISTOGRAM = re.compile(rf"{_BRACED}(?:([+-]){_BRACED})?(?:x(\d++))?(?=\s|$)")
_FIELD = re.compile(r"\s*+(\w++)\s*+:\s*+(\[[^\]]*+\]|[^\s\]]++)")
_HINTS = {"unknown": Hint.UNKNOWN, "reset": Hint.RESET, "not_reset": Hint.NO_RESET, "gauge": Hint.GAUGE}
_HINT_NAMES = {hint: name for name, hint in _HINTS.items() if hint != Hint.UNKNOWN}


class NotationError(ValueError):
    """The line is none of a series."""


@dataclass(frozen=True, slots=True)
class Value:
    """One place in a sequence: a number, the stale marker, a histogram, or nothing."""

    number: float | None = None
    is_stale: bool = False
    histogram: Histogram | None = None
    says_hint: bool = False
    """The text names the histogram's hint, so the hint counts in comparisons."""

    @property
    def is_nothing(self) -> bool:
        return self.number is None and not self.is_stale and self.histogram is None


NOTHING = Value()


@dataclass(frozen=True, slots=True)
class SeriesLine:
    labels: Labels
    values: tuple[Value, ...]


def series_line(line: str) -> SeriesLine:
    labels, rest = read_labels(line)
    return SeriesLine(labels, tuple(_values(rest, line)))


def read_labels(line: str) -> tuple[Labels, str]:
    """Read the name and labels at the start of a line; return them and the rest."""
    found: dict[str, str] = {}
    name = _NAME.match(line)
    at = 0
    if name:
        found[NAME], at = name[0], name.end()
    if line[at : at + 1] == "{" and line[at : at + 2] != "{{":
        pairs, at = _pairs(line, at + 1)
        found |= pairs
    elif not name:
        raise NotationError(f"{line!r}: expected a metric name or labels at the start")
    return tuple(sorted((key, value) for key, value in found.items() if value)), line[at:]


def _pairs(line: str, at: int) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    while not (closing := _CLOSING.match(line, at)):
        pair = _PAIR.match(line, at)
        if not pair:
            raise NotationError(f"{line!r}: expected a label at column {at + 1}")
        key = pair[1] or PROMQL.unquote(pair[2])
        if pair[3]:
            found[key] = PROMQL.unquote(pair[3])
        else:
            found[NAME] = key
        at = pair.end()
    return found, closing.end()


def _values(text: str, line: str) -> list[Value]:
    found: list[Value] = []
    at = 0
    while (at := _end_of_space(text, at)) < len(text):
        if blank := BLANK.match(text, at):
            found += [NOTHING] * (int(blank[1]) if blank[1] else 1)
            at = blank.end()
        elif item := _ITEM.match(text, at):
            found += _numbers(item)
            at = item.end()
        elif histogram := _HISTOGRAM.match(text, at):
            found += _histograms(histogram, line)
            at = histogram.end()
        else:
            raise NotationError(f"{line!r}: expected a value at {text[at:]!r}")
    return found


def _end_of_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _numbers(item: re.Match[str]) -> list[Value]:
    base, step, times = item.groups()
    count = int(times) + 1 if times else 1
    if base == "stale":
        return [Value(is_stale=True)] * count
    number, found = float(base), []
    for _ in range(count):
        found.append(Value(number))
        # One addition after the other: the last digits are those of Prometheus.
        number += float(step) if step else 0.0
    return found


def _histograms(item: re.Match[str], line: str) -> list[Value]:
    base, sign, step, times = item.groups()
    current, says_hint = _histogram(base, line)
    found = [Value(histogram=current, says_hint=says_hint)]
    if sign:
        grown, _ = _histogram(step, line)
        for _ in range(int(times)):
            combined = add(current, grown) if sign == "+" else sub(current, grown)
            current = combined.histogram
            found.append(Value(histogram=current, says_hint=says_hint))
        return found
    return found * (int(times) + 1 if times else 1)


def _fields(text: str, line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while field := _FIELD.match(text, at):
        found[field[1]] = field[2]
        at = field.end()
    unknown = set(found) - {
        "schema", "sum", "count", "z_bucket", "z_bucket_w", "custom_values", "buckets", "offset",
        "n_buckets", "n_offset", "counter_reset_hint",
    }  # fmt: skip
    if unknown or text[at:].strip():
        raise NotationError(f"{line!r}: expected fields of a histogram, found {text!r}")
    return found


def _histogram(text: str, line: str) -> tuple[Histogram, bool]:
    """Return the histogram, and true if the text says its hint."""
    fields = _fields(text, line)

    def numbers(name: str) -> list[float]:
        return [float(one) for one in fields.get(name, "[]")[1:-1].split()]

    schema = int(fields.get("schema", 0))
    histogram = Histogram(
        schema,
        float(fields.get("count", 0)),
        float(fields.get("sum", 0)),
        float(fields.get("z_bucket_w", 0)),
        float(fields.get("z_bucket", 0)),
        buckets_at(int(fields.get("offset", 0)), numbers("buckets")),
        buckets_at(int(fields.get("n_offset", 0)), numbers("n_buckets")),
        tuple(numbers("custom_values")) if schema == CUSTOM else (),
        _HINTS[fields.get("counter_reset_hint", "unknown")],
    )
    return histogram, "counter_reset_hint" in fields


def histogram_notation(histogram: Histogram) -> str:
    """Write a histogram as it is read here; zeros and defaults are left out."""
    numbers = {
        "count": histogram.count,
        "sum": histogram.sum,
        "z_bucket": histogram.zero_count,
        "z_bucket_w": histogram.zero_threshold,
    }
    parts = [f"schema:{histogram.schema}"] if histogram.schema else []
    parts += [f"{name}:{format_float(value)}" for name, value in numbers.items() if value != 0]
    if histogram.is_custom:
        parts.append(f"custom_values:[{' '.join(map(format_float, histogram.bounds))}]")
    if histogram.hint in _HINT_NAMES:
        parts.append(f"counter_reset_hint:{_HINT_NAMES[histogram.hint]}")
    parts += _side(histogram.positive, "offset", "buckets")
    parts += _side(histogram.negative, "n_offset", "n_buckets")
    return "{{" + " ".join(parts) + "}}"


def _side(side: Buckets, offset: str, name: str) -> list[str]:
    side = side.populated()
    if not side.size:
        return []
    first = int(side.index[0])
    dense = np.zeros(int(side.index[-1]) - first + 1)
    dense[side.index - first] = side.count
    shift = [f"{offset}:{first}"] if first else []
    return [*shift, f"{name}:[{' '.join(map(format_float, dense.tolist()))}]"]
