"""Patterns taken apart: literals, and captures in angle brackets.

    <ip> - <_> [<time>]  ->  capture ip, " - ", unnamed, " [", capture time, "]"

What looks like a bracket but holds no name is text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.evaluate.logs.kernels.patterns import UNNAMED
from resources.arrays import Bytes, Int32s

_CAPTURE = re.compile(r"<([a-zA-Z_][a-zA-Z0-9_]*)>")
_NAMELESS = "_"


@dataclass(frozen=True, slots=True)
class LinePattern:
    parts: Int32s
    """Numbers of literals; captures are `-3 - number`, unnamed ones `UNNAMED`."""
    literals: Bytes
    literal_offsets: Int32s
    names: tuple[str, ...]


def compiled(text: str, position: Position) -> LinePattern:
    parts: list[int] = []
    literals: list[bytes] = []
    names: list[str] = []
    at = 0
    for found in _CAPTURE.finditer(text):
        if found.start() > at:
            parts.append(len(literals))
            literals.append(text[at : found.start()].encode())
        elif parts:
            raise ParseError(f"found consecutive capture '{found[0]}': invalid pattern", position)
        parts.append(UNNAMED if found[1] == _NAMELESS else -3 - len(names))
        names += [] if found[1] == _NAMELESS else [found[1]]
        at = found.end()
    if at < len(text):
        parts.append(len(literals))
        literals.append(text[at:].encode())
    offsets = np.cumsum([0, *map(len, literals)], dtype=np.int32)
    data = np.frombuffer(b"".join(literals), np.uint8)
    return LinePattern(np.array(parts, np.int32), data, offsets, tuple(names))


def parser_pattern(text: str, position: Position) -> LinePattern:
    """Of `| pattern`: at least one name, none twice."""
    pattern = compiled(text, position)
    if not pattern.names:
        raise ParseError(f"at least one capture is required: invalid pattern '{text}'", position)
    if len(set(pattern.names)) < len(pattern.names):
        raise ParseError(f"duplicate capture name in pattern '{text}'", position)
    return pattern


def filter_pattern(text: str, position: Position) -> LinePattern:
    """Of `|>` and `!>`: no names."""
    pattern = compiled(text, position)
    if pattern.names:
        raise ParseError(f"named captures are not allowed: invalid pattern '{text}'", position)
    return pattern
