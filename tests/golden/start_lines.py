"""Lines of promqltest scripts with the start times of counters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakerunner_query.gotext.durations import milliseconds
from lakerunner_query.promql.series_notation import BLANK, NotationError, read_labels
from lakerunner_query.vectors.vector import Labels

_DURATION = re.compile(r"[+-]?\d+[a-wyzA-WYZ]*")
_START = re.compile(
    rf"(\*|({_DURATION.pattern})(?:([+-]\d+[a-wyzA-WYZ]*|[+-][+-]\d+[a-wyzA-WYZ]*))?)(?:x(\d+))?"
)


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
    labels = read_labels(metric)[0] if metric else ()
    offsets: list[int | None] = []
    for item in rest.split():
        offsets += _offsets(item, next((one for one in reversed(offsets) if one is not None), 0), line)
    return StartLine(labels, tuple(offsets))


def _offsets(item: str, previous: int, line: str) -> list[int | None]:
    if blank := BLANK.fullmatch(item):
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
