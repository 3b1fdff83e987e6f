r"""Where a value lies in a JSON document: `request.headers["X-Id"][0]` taken apart.

>>> path('request.headers["X-Id"][0]')
('request', 'headers', 'X-Id', 0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakerunner_query.gotext.strconv import InvalidStringError, unquote_logql

_TOKEN = re.compile(
    r"\s*(?:(?P<FIELD>[A-Za-z_][A-Za-z0-9_]*)|(?P<DOT>\.)|(?P<LSB>\[)|(?P<RSB>\])|(?P<INDEX>[0-9]{1,18}(?=\s*\]))"
    r'|(?P<STRING>"(?:[^"\\]|\\.)*"))\s*'
)
_UNKNOWN = "unknown"
"""A character of no token; where something has to come, Loki takes it for the end."""
_AT_START = ("LSB", "FIELD")
_AFTER = {"DOT": ("FIELD",), "LSB": ("STRING", "INDEX"), "STRING": ("RSB",), "INDEX": ("RSB",)}
_GOING_ON = ("DOT", "LSB", "$end")
"""What follows a field or a closing bracket."""
_KEY = re.compile(r'\s*(?:(?P<KEY>[A-Za-z_][A-Za-z0-9_]*)|(?P<STRING>"(?:[^"\\]|\\.)*"))\s*')


class InvalidPathError(ValueError):
    """The message quotes the expression and says what does not belong there."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"cannot parse expression [{expression}]: {reason}")


def path(expression: str) -> tuple[str | int, ...]:
    """The steps from the top of a document down."""
    steps: list[str | int] = []
    allowed: tuple[str, ...] = _AT_START
    for kind, text in _tokens(expression):
        if kind == _UNKNOWN and allowed is _GOING_ON:
            raise InvalidPathError(expression, f"unexpected char {text}")
        if kind not in allowed:
            expected = f", expecting {' or '.join(allowed)}" if allowed is not _GOING_ON else ""
            raise InvalidPathError(
                expression, f"syntax error: unexpected {'$end' if kind == _UNKNOWN else kind}{expected}"
            )
        steps += _step(expression, kind, text)
        allowed = _AFTER.get(kind, _GOING_ON)
    return tuple(steps)


def steps_of(expression: str) -> tuple[str | int, ...]:
    """`path`, or nothing where there is none: the stage is refused later, with all the text known."""
    try:
        return path(expression)
    except InvalidPathError:
        return ()


def key_of(expression: str) -> tuple[str, ...]:
    """The one step of `logfmt`; a key in quotes may hold anything."""
    found = _KEY.fullmatch(expression)
    if found is None or found["STRING"] is None:
        return (expression.strip(),)
    try:
        return (unquote_logql(found["STRING"]),)
    except InvalidStringError:
        return (expression,)


def check_key(expression: str) -> None:
    """Raise unless `logfmt` takes it: one key, quoted or not."""
    found = _KEY.match(expression)
    if found is None:
        raise InvalidPathError(expression, "syntax error: unexpected $end, expecting STRING or KEY")
    rest = expression[found.end() :]
    if rest:
        is_key = _KEY.match(rest)
        raise InvalidPathError(
            expression, "syntax error: unexpected KEY" if is_key else f"unexpected char {rest[0]}"
        )


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(expression):
        token = _TOKEN.match(expression, at)
        if token is None:
            rest = expression[at:].lstrip()
            yield (_UNKNOWN, rest[0]) if rest else ("$end", "")
            return
        kind = str(token.lastgroup)
        yield kind, token[kind]
        at = token.end()
    yield "$end", ""


def _step(expression: str, kind: str, text: str) -> list[str | int]:
    match kind:
        case "FIELD":
            return [text]
        case "INDEX":
            return [int(text)]
        case "STRING":
            try:
                return [unquote_logql(text)]
            except InvalidStringError as error:
                raise InvalidPathError(expression, str(error)) from error
    return []
