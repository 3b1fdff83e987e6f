"""Failures of unit tests are told with promtool's texts.

expr: "up", time: 1m,
    exp: {job="a"} 1E+00
    got: nil
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakerunner_query.gotext.numbers import format_float
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.vectors.vector import Labels

_PLAIN_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_DEPTH = " " * 12


@dataclass(frozen=True, slots=True, order=True)
class ShownAlert:
    """Labels and annotations by which alerts are compared."""

    labels: Labels
    annotations: Labels


@dataclass(frozen=True, slots=True)
class ShownSample:
    labels: Labels
    value: float
    histogram: str = ""
    """The histogram in the notation of series; empty for a float."""

    def __str__(self) -> str:
        return f"{labels_text(self.labels)} {self.histogram or format_float(self.value, 'E')}"


def labels_text(labels: Labels) -> str:
    """Write labels as Prometheus does.

    >>> labels_text((("a", "x"), ("b.c", "y")))
    '{a="x", "b.c"="y"}'
    """
    pairs = (
        f"{name if _PLAIN_NAME.fullmatch(name) else quote(name)}={quote(value)}" for name, value in labels
    )
    return "{" + ", ".join(pairs) + "}"


def alerts_text(alerts: Sequence[ShownAlert]) -> str:
    if not alerts:
        return "[]"
    shown = ",\n".join(
        f"{number}:\n  Labels:{labels_text(one.labels)}\n  Annotations:{labels_text(one.annotations)}"
        for number, one in enumerate(alerts)
    )
    return f"[\n{shown}\n]"


def alerts_failure(
    group: str, alert: str, time: str, expected: Sequence[ShownAlert], found: Sequence[ShownAlert]
) -> str:
    exp, got = (alerts_text(alerts).replace("\n", "\n" + _DEPTH) for alerts in (expected, found))
    return (
        f"{_group_line(group)}    alertname: {alert}, time: {time}, \n        exp:{exp}, \n        got:{got}"
    )


def alerts_difference(
    group: str, alert: str, time: str, expected: Sequence[ShownAlert], found: Sequence[ShownAlert]
) -> str:
    diff = _difference(alerts_text(expected).splitlines(), alerts_text(found).splitlines())
    return f"{_group_line(group)}    alertname: {alert}, time: {time}, \n        diff: {diff}"


def samples_failure(
    expr: str, time: str, expected: Sequence[ShownSample], found: Sequence[ShownSample]
) -> str:
    exp, got = (", ".join(map(str, samples)) or "nil" for samples in (expected, found))
    return f"    expr: {quote(expr)}, time: {time},\n        exp: {exp}\n        got: {got}"


def samples_difference(
    expr: str, time: str, expected: Sequence[ShownSample], found: Sequence[ShownSample]
) -> str:
    diff = _difference(map(str, expected), map(str, found))
    return f"    expr: {quote(expr)}, time: {time},\n        diff: {diff}"


def _group_line(group: str) -> str:
    return f"    name: {group},\n" if group else ""


def _difference(expected: Iterable[str], found: Iterable[str]) -> str:
    """Return a unified diff, indented, without its header."""
    lines = list(difflib.unified_diff(list(expected), list(found), "exp", "got", lineterm="", n=2))
    return ("\n" + _DEPTH).join(lines)
