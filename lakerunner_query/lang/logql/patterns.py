"""Patterns of `| pattern` and of the line filters `|>` and `!>`: texts with captures between them.

>>> pieces("<ip> - <_>]")
(Capture(name='ip'), ' - ', Capture(name='_'), ']')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

_CAPTURE = re.compile(r"<([A-Za-z_][A-Za-z0-9_]*)>")
UNNAMED = "_"


@dataclass(frozen=True, slots=True)
class Capture:
    name: str
    """`_` is not kept."""


class InvalidPatternError(ValueError):
    """The message says why."""


def pieces(pattern: str) -> tuple[str | Capture, ...]:
    """Literal texts and captures in order; a `<` that begins no capture is text."""
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
    """Raise unless `| pattern` takes it: it names something, no name twice, no captures side by side."""
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
    """Raise unless a line filter takes it: nothing is captured by name there."""
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
