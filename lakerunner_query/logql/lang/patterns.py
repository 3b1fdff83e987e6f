r"""Small languages within strings: JSON paths, captures of `pattern`, ranges of addresses.

>>> path('request.headers["X-Id"][0]')
('request', 'headers', 'X-Id', 0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import pairwise

from lakerunner_query.gotext.strconv import LOGQL, UnquoteError

_PREFIX = re.compile(r"/(?:0|[1-9][0-9]{0,2})$")
"""Length of a prefix; Python would also take masks and leading zeros."""
Address = IPv4Address | IPv6Address


class InvalidAddressError(ValueError):
    """Text that is no address, no range of addresses and no prefix."""


def bounds(pattern: str) -> tuple[Address, Address]:
    """Return the first and the last address of what stands in `ip("…")`.

    >>> bounds("10.0.0.0/8")[1], bounds("10.0.0.1-10.0.0.9")[0]
    (IPv4Address('10.255.255.255'), IPv4Address('10.0.0.1'))
    """
    try:
        if "/" in pattern:
            if not _PREFIX.search(pattern):
                raise InvalidAddressError(pattern)
            network = ip_network(pattern, strict=False)
            return network[0], network[-1]
        first, _, last = pattern.partition("-")
        low, high = ip_address(first), ip_address(last or first)
    except ValueError as error:
        raise InvalidAddressError(pattern) from error
    if low.version != high.version or int(low) > int(high) or pattern.endswith("-"):
        raise InvalidAddressError(pattern)
    return low, high


_CAPTURE = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")
UNNAMED = "_"


@dataclass(frozen=True, slots=True)
class Capture:
    name: str
    """Label; `_` makes none."""


class InvalidPatternError(ValueError):
    """Pattern that the language refuses; the message says why."""


def pieces(pattern: str) -> tuple[str | Capture, ...]:
    """Split a pattern into literals and captures; a `<` that begins no capture is text.

    >>> pieces("<ip> - <_>]")
    (Capture(name='ip'), ' - ', Capture(name='_'), ']')
    """
    found: list[str | Capture] = []
    at = 0
    for capture in _CAPTURE.finditer(pattern):
        if capture.start() > at:
            found.append(pattern[at : capture.start()])
        found.append(Capture(capture[1]))
        at = capture.end()
    if at < len(pattern):
        found.append(pattern[at:])
    return tuple(found)


def check_parser(pattern: str) -> None:
    """Raise unless `| pattern` takes it: some name, none twice, no captures side by side."""
    found = pieces(pattern)
    names = [piece.name for piece in found if isinstance(piece, Capture)]
    if not pattern:
        # the parser of patterns has a grammar of its own
        raise InvalidPatternError(
            "parse error at line 1, col 1: syntax error: unexpected $end, expecting IDENTIFIER or LITERAL"
        )
    if not names or all(name == UNNAMED for name in names):
        raise InvalidPatternError("at least one capture is required")
    _check_apart(found)
    seen: set[str] = set()
    for name in names:
        if name != UNNAMED and name in seen:
            raise InvalidPatternError(f"duplicate capture name ({name}): invalid expression")
        seen.add(name)


def check_filter(pattern: str) -> None:
    """Raise unless a line filter takes it: no capture has a name."""
    found = pieces(pattern)
    _check_apart(found)
    named = next((one for one in found if isinstance(one, Capture) and one.name != UNNAMED), None)
    if named is not None:
        raise InvalidPatternError(f"named captures are not allowed: found '<{named.name}>'")


def _check_apart(found: tuple[str | Capture, ...]) -> None:
    for one, following in pairwise(found):
        if isinstance(one, Capture) and isinstance(following, Capture):
            raise InvalidPatternError(
                f"found consecutive capture '<{one.name}><{following.name}>': invalid expression"
            )


_TOKEN = re.compile(
    r"\s*(?:(?P<FIELD>[A-Za-z_][A-Za-z0-9_]*)|(?P<DOT>\.)|(?P<LSB>\[)|(?P<RSB>\])|(?P<INDEX>[0-9]{1,18}(?=\s*\]))"
    r'|(?P<STRING>"(?:[^"\\]|\\.)*"))\s*'
)
_UNKNOWN = "unknown"
"""Kind of a character of no token; Loki takes it for the end where something has to come."""
_AT_START = ("LSB", "FIELD")
_AFTER = {"DOT": ("FIELD",), "LSB": ("STRING", "INDEX"), "STRING": ("RSB",), "INDEX": ("RSB",)}
_GOING_ON = ("DOT", "LSB", "$end")
"""Tokens that may follow a field or a closing bracket."""
_KEY = re.compile(r'\s*(?:(?P<KEY>[A-Za-z_][A-Za-z0-9_]*)|(?P<STRING>"(?:[^"\\]|\\.)*"))\s*')


class InvalidPathError(ValueError):
    """Path that cannot be read; the message quotes it and says what does not belong there."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(f"cannot parse expression [{expression}]: {reason}")


def path(expression: str) -> tuple[str | int, ...]:
    """Parse a path into its steps from the top of a document down."""
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
    """Parse a path; an invalid one gives nothing, and `check_stages` refuses it later."""
    try:
        return path(expression)
    except InvalidPathError:
        return ()


def key_of(expression: str) -> tuple[str, ...]:
    """Parse the one step of `logfmt`; a key in quotes may hold anything."""
    found = _KEY.fullmatch(expression)
    if found is None or found["STRING"] is None:
        return (expression.strip(),)
    try:
        return (LOGQL.unquote(found["STRING"]),)
    except UnquoteError:
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
                return [LOGQL.unquote(text)]
            except UnquoteError as error:
                raise InvalidPathError(expression, str(error)) from error
    return []
