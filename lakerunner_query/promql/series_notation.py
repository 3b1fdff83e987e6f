r"""The lines of promqltest scripts that say a series and its values.

    requests{job="api"} 1+2x3 _ stale {{count:4 buckets:[1 3]}}x1

    requests{job="api"}   1 3 5 7   (nothing)   stale   a histogram, twice

`a+bxN` is N + 1 values, `axN` is a N + 1 times, `_xN` is nothing N times. Hexadecimal numbers are none here:
`0x8` is zero, nine times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakerunner_query.gotext.durations import milliseconds
from lakerunner_query.gotext.strconv import PROMQL
from lakerunner_query.histogram.arithmetic import add, sub
from lakerunner_query.histogram.model import CUSTOM, Hint, Histogram, buckets_at
from lakerunner_query.vectors.vector import NAME, Labels

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:.]*")
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`"
_PAIR = re.compile(rf"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|({_QUOTED}))\s*(?:=\s*({_QUOTED}))?\s*(,|(?=\}}))")
_NUMBER = r"(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[iI][nN][fF]|[nN][aA][nN])"
_ITEM = re.compile(rf"(stale|[+-]?{_NUMBER})(?:([+-]{_NUMBER})?x(\d+))?(?=\s|$)")
_BLANK = re.compile(r"_(?:x(\d+))?(?=\s|$)")
_HISTOGRAM = re.compile(r"\{\{(.*?)\}\}(?:([+-])\{\{(.*?)\}\})?(?:x(\d+))?(?=\s|$)")
_FIELD = re.compile(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^\s\]]+)")
_HINTS = {"unknown": Hint.UNKNOWN, "reset": Hint.RESET, "not_reset": Hint.NO_RESET, "gauge": Hint.GAUGE}
_DURATION = re.compile(r"[+-]?\d+[a-wyzA-WYZ]*")
_START = re.compile(
    rf"(\*|({_DURATION.pattern})(?:([+-]\d+[a-wyzA-WYZ]*|[+-][+-]\d+[a-wyzA-WYZ]*))?)(?:x(\d+))?"
)


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
    labels, rest = _labels(line)
    return SeriesLine(labels, tuple(_values(rest, line)))


def _labels(line: str) -> tuple[Labels, str]:
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
    while not (closing := re.compile(r"\s*\}").match(line, at)):
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
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        if blank := _BLANK.match(text, at):
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


def _histogram(text: str, line: str) -> tuple[Histogram, bool]:
    """The histogram, and whether the text says its hint."""
    fields = {match[1]: match[2] for match in _FIELD.finditer(text)}
    unknown = set(fields) - {
        "schema", "sum", "count", "z_bucket", "z_bucket_w", "custom_values", "buckets", "offset",
        "n_buckets", "n_offset", "counter_reset_hint",
    }  # fmt: skip
    if unknown or _FIELD.sub("", text).strip():
        raise NotationError(f"{line!r}: expected fields of a histogram, found {text!r}")

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


@dataclass(frozen=True, slots=True)
class StartLine:
    """`metric{…}@st _ -1m+5sx3`: when counting began, as offsets from the samples' times."""

    labels: Labels
    """Empty: for all series that have no line of their own."""
    offsets_ms: tuple[int | None, ...]


def is_start_line(line: str) -> bool:
    first = line.split(maxsplit=1)
    return len(first) == 2 and first[0].endswith("@st")


def start_line(line: str) -> StartLine:
    name, rest = line.split(maxsplit=1)
    metric = name.removesuffix("@st")
    labels = _labels(metric)[0] if metric else ()
    offsets: list[int | None] = []
    for item in rest.split():
        offsets += _offsets(item, next((one for one in reversed(offsets) if one is not None), 0), line)
    return StartLine(labels, tuple(offsets))


def _offsets(item: str, previous: int, line: str) -> list[int | None]:
    if blank := _BLANK.fullmatch(item):
        return [None] * (int(blank[1]) if blank[1] else 1)
    match = _START.fullmatch(item)
    if not match:
        raise NotationError(f"{line!r}: expected an offset of a start time, found {item!r}")
    whole, base, step, times = match.groups()
    first = previous if whole == "*" else _signed(base)
    grows = _signed(step[1:]) * (-1 if step[0] == "-" else 1) if step else 0
    return [first + grows * i for i in range(int(times) + 1 if times else 1)]


def _signed(text: str) -> int:
    return milliseconds(text.lstrip("+-")) * (-1 if text.startswith("-") else 1)
