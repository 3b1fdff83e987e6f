"""Text to tokens, for the whole of LogQL.

The lexer already knows every operator and literal of the language, so that the parser can name what it
does not support yet. Comments run from `#` to the end of the line, as in Loki.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.lang.logql.strings import InvalidStringError, unquote
from lakerunner_query.lang.logql.tokens import (
    DURATION,
    END,
    FLAG,
    IDENTIFIER,
    NUMBER,
    OPERATORS,
    STRING,
    Token,
)

_UNIT = r"(?:ns|us|µs|μs|ms|[smhdwy]|[kKMGTPE]i?[bB]|[bB])"
_NUMBER = r"(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<skip>\s+|\#[^\n]*)",
            r'(?P<string>"(?:[^"\\\n]|\\[^\n])*"|`[^`]*`)',
            rf"(?P<duration>(?:\d+(?:\.\d+)?{_UNIT})+(?![\w.]))",
            rf"(?P<number>{_NUMBER})",
            r"(?P<identifier>[^\W\d]\w*)",
            r"(?P<flag>--[a-z][a-z-]*)",
            "(?P<operator>" + "|".join(map(re.escape, OPERATORS)) + ")",
        )
    )
)
_KINDS = {"duration": DURATION, "number": NUMBER, "identifier": IDENTIFIER, "flag": FLAG}


def tokenize(text: str) -> Iterator[Token]:
    """Every token of `text`, then `$end`."""
    starts = [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ParseError(_complaint(text, at), _position(starts, at))
        if found.lastgroup != "skip":
            yield _token(found, _position(starts, at))
        at = found.end()
    yield Token(END, "", _position(starts, len(text)))


def _position(line_starts: list[int], at: int) -> Position:
    line = bisect_right(line_starts, at)
    return Position(line, at - line_starts[line - 1] + 1)


def _token(found: re.Match[str], position: Position) -> Token:
    kind, source = str(found.lastgroup), found.group()
    if kind == "operator":
        return Token(source, source, position)
    if kind != "string":
        return Token(_KINDS[kind], source, position)
    if "\ufffd" in source:
        # the mark every decoder leaves where the bytes were not UTF-8; to search for it, write \ufffd
        raise ParseError("invalid UTF-8 encoding", position)
    try:
        return Token(STRING, unquote(source), position)
    except InvalidStringError as error:
        raise ParseError(str(error), position) from error


def _complaint(text: str, at: int) -> str:
    if text[at] in {'"', "`"}:
        return "literal not terminated"
    return "invalid UTF-8 encoding" if text[at] == "\ufffd" else f"syntax error: unexpected {text[at]!r}"
