"""The named groups of `| regexp`, of which each becomes a label.

>>> names(r"(?P<method>\\w+) (\\S+) (?<path>.+)")
('method', 'path')
"""

from __future__ import annotations

import re

from lakerunner_query.lang.promql.go_regex import complaint

_PIECE = re.compile(r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<(?P<name>\w+)>")


class InvalidCapturesError(ValueError):
    """The message says why."""


def names(pattern: str) -> tuple[str, ...]:
    return tuple(piece["name"] for piece in _PIECE.finditer(pattern) if piece["name"] is not None)


def check_captures(pattern: str) -> None:
    """Raise unless the pattern compiles and names something, no name twice."""
    found = names(pattern)
    twice = next((name for at, name in enumerate(found) if name in found[:at]), None)
    if twice is not None:
        raise InvalidCapturesError(f"duplicate extracted label name '{twice}'")
    reason = complaint(pattern)
    if reason:
        raise InvalidCapturesError(reason)
    foreign = next((name for name in found if not name.isascii()), None)
    if foreign is not None:  # RE2 takes it, Go does not
        raise InvalidCapturesError(f"error parsing regexp: invalid named capture: `(?P<{foreign}>`")
    if not found:
        raise InvalidCapturesError("at least one named capture must be supplied")
