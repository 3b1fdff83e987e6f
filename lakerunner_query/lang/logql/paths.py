r"""Where a value lies in a JSON document: `request.headers["X-Id"][0]` taken apart.

>>> path('request.headers["X-Id"][0]')
('request', 'headers', 'X-Id', 0)
"""

from __future__ import annotations

import re

from lakerunner_query.lang.logql.strings import InvalidStringError, unquote

_STEP = re.compile(
    r'\s*(?:(?P<field>\.?[A-Za-z_][A-Za-z0-9_]*)|\[\s*(?:(?P<index>[0-9]{1,18})|(?P<key>"(?:[^"\\]|\\.)*"))\s*\])\s*'
)


class InvalidPathError(ValueError):
    """The message says what does not belong there."""


def path(expression: str) -> tuple[str | int, ...]:
    found: list[str | int] = []
    at = 0
    while at < len(expression):
        step = _STEP.match(expression, at)
        if step is None or not _may_follow(step, is_first=not found):
            raise InvalidPathError(f"invalid json expression {expression!r} at character {at + 1}")
        found.append(_value(step))
        at = step.end()
    return tuple(found)


def _may_follow(step: re.Match[str], is_first: bool) -> bool:
    """Fields are separated by points, the first has none."""
    return step["field"] is None or step["field"].startswith(".") != is_first


def _value(step: re.Match[str]) -> str | int:
    if step["field"] is not None:
        return step["field"].removeprefix(".")
    if step["index"] is not None:
        return int(step["index"])
    try:
        return unquote(step["key"])
    except InvalidStringError as error:
        raise InvalidPathError(str(error)) from error
