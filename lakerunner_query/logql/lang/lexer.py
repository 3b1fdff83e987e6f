"""Lexer of LogQL: text to tokens, one at a time, so that the first of two mistakes is reported.

    rate({app="web"} |= "x" [5m])   ->   rate ( { IDENTIFIER = STRING } |= STRING RANGE )

Operators, keywords and the words of calls are their own kind, spelled in lower case. Case does not matter;
keywords are never label names, but calls are words of the language only in front of a parenthesis (or of the
grouping in front of one), so that a label may be called `sum` or `ip`. Comments are `# …`, `// …` and
`/* … */`; any other character is an IDENTIFIER, as in Loki.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.gotext.durations import byte_count, go_nanoseconds, nanoseconds, range_nanoseconds
from lakerunner_query.gotext.numbers import ConversionError, MalformedNumberError, scan_number
from lakerunner_query.gotext.strconv import LOGQL, UnquoteError, has_wrong_escape
from lakerunner_query.logql.lang.aggregations import RANGE_AGGREGATIONS, VECTOR_AGGREGATIONS

CONVERSIONS = frozenset({"duration", "duration_seconds", "bytes"})
CALLS = RANGE_AGGREGATIONS | VECTOR_AGGREGATIONS | CONVERSIONS | {"vector", "label_replace", "ip"}
STAGES = frozenset(
    (
        *("json", "logfmt", "regexp", "pattern", "unpack", "unwrap", "decolorize"),
        *("line_format", "label_format", "drop", "keep"),
    )
)
GROUPINGS = frozenset({"by", "without"})
SET_OPERATORS = frozenset({"and", "or", "unless"})
MATCHINGS = frozenset({"on", "ignoring", "group_left", "group_right", "bool", "offset"})
VARIANTS = frozenset({"variants", "of"})
KEYWORDS = STAGES | GROUPINGS | SET_OPERATORS | MATCHINGS | VARIANTS

IDENTIFIER = "IDENTIFIER"
STRING = "STRING"
NUMBER = "NUMBER"
DURATION = "DURATION"
BYTES = "BYTES"
RANGE = "RANGE"
FLAG = "FUNCTION_FLAG"
END = "$end"

SYMBOLS = (
    *("|=", "|~", "|>", "!>", "!~", "!=", "=~", "==", ">=", "<="),
    *"{}()],.=|><+-*/%^",
)
"""Operators and brackets, the longest first where one is the beginning of another."""
_SHOWN = {
    **{word: word.upper() for word in CALLS - {"ip", "label_replace"}},
    **{word: f"{word.upper()}_CONV" for word in CONVERSIONS},
}


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    """Source text; the value of a string, the inside of a range's brackets."""
    position: Position


def shown(kind: str) -> str:
    """Return the name of a kind in Loki's messages.

    >>> shown("rate"), shown("bytes"), shown("json"), shown("|=")
    ('RATE', 'BYTES_CONV', 'json', '|=')
    """
    return _SHOWN.get(kind, kind)


_OF_DURATION = re.compile(r"[0-9.nuµμmshdwy]*")
_OF_SIZE = re.compile(r"[0-9.BikKMGTPE]*")


def number_token(text: str, at: int) -> tuple[str, int]:
    """Return kind and end of a number, duration or size.

    `5m30s` is one duration, `5MB` one size, `5mb` the duration `5m` and a word.
    """
    end = scan_number(text, at)
    if text[end : end + 1] in _UNIT_STARTS:
        for kind, letters, read in _MEASURES:
            longer = _end(letters, text, end)
            if longer > end and _reads(read, text[at:longer]):
                return kind, longer
    return NUMBER, end


_MEASURES: tuple[tuple[str, re.Pattern[str], Callable[[str], int]], ...] = (
    (DURATION, _OF_DURATION, nanoseconds),
    (BYTES, _OF_SIZE, byte_count),
)
_UNIT_STARTS = frozenset("nuµμmshdwyBikKMGTPE.")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _reads(read: Callable[[str], int], text: str) -> bool:
    try:
        read(text)
    except ConversionError:
        return False
    return True


_SKIPPED = re.compile(r"(?s:[ \t\n\r]++|#[^\n]*+|//[^\n]*+|/\*.*?\*/)*+")
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<word>[^\W\d]\w*)",
            r"(?P<comment>/\*)",
            r"(?P<duration>-[0-9.][0-9.nuµμmshdwy]*)",
            r"(?P<char>'(?:[^'\\\n]|\\[^\n])*')",
            r'(?P<string>"(?:[^"\\\n]|\\[^\n])*"|`[^`]*`)',
            r"(?P<number>\.?[0-9])",
            r"(?P<flag>--(?:strict|keep-empty)(?![A-Za-z-]))",
            r"(?P<symbol>" + "|".join(map(re.escape, SYMBOLS)) + ")",
            r"(?P<range>\[)",
        )
    )
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CALLED = re.compile(r"[ \t\n\r]*(?:\(|(?i:by|without)[ \t\n\r]*\()")
_CHAR = re.compile(r"'(?:[^\\]|\\(?:[abfnrtv\\']|[0-7]{3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))'")


class Lexer:
    """Source of tokens; after the last, `next()` returns `$end`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._starts = [0, *(place.end() for place in re.finditer("\n", text))]

    def next(self) -> Token:
        skipped = _SKIPPED.match(self._text, self._at)
        self._at = skipped.end() if skipped else self._at
        if self._at == len(self._text):
            return self._emit(END, self._at)
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            return self._other()
        return self._READERS[str(found.lastgroup)](self, found[0])

    def _symbol(self, symbol: str) -> Token:
        return self._emit(symbol, self._at + len(symbol))

    def _comment(self, _: str) -> Token:
        raise self._failure("comment not terminated")

    def _duration(self, text: str) -> Token:
        """Take the minus into a duration that Go could read: `-5m`, and even `-0`."""
        is_negative = go_nanoseconds(text) is not None
        return self._emit(DURATION, self._at + len(text)) if is_negative else self._symbol("-")

    def _char(self, literal: str) -> Token:
        """Take a character literal of Go, which is a word like any other here."""
        if not _CHAR.fullmatch(literal):
            raise self._failure("invalid char literal")
        return self._emit(IDENTIFIER, self._at + len(literal))

    def _flag(self, flag: str) -> Token:
        return self._emit(FLAG, self._at + len(flag))

    def _word(self, word: str) -> Token:
        end = self._at + len(word)
        lower = word.lower()
        if lower in KEYWORDS or (lower in CALLS and _CALLED.match(self._text, end)):
            return self._emit(lower, end)
        return self._emit(IDENTIFIER, end)

    def _string(self, literal: str) -> Token:
        if "\ufffd" in literal or _SURROGATE.search(literal):
            # the marks that decoders leave where the bytes were not UTF-8; to search for one, write \ufffd
            raise self._failure("invalid UTF-8 encoding")
        if "\0" in literal:
            raise self._failure("invalid character NUL")
        try:
            value = LOGQL.unquote(literal)
        except UnquoteError as error:
            raise self._failure(str(error)) from error
        token = Token(STRING, value, self._position())
        self._at += len(literal)
        return token

    def _number(self, _: str) -> Token:
        try:
            kind, end = number_token(self._text, self._at)
        except MalformedNumberError as error:
            raise self._failure(str(error)) from error
        return self._emit(kind, end)

    def _range(self, _: str) -> Token:
        end = self._text.find("]", self._at)
        if end < 0:
            raise self._failure("missing closing ']' in duration")
        token = Token(RANGE, self._text[self._at + 1 : end], self._position())
        try:
            range_nanoseconds(token.text)
        except ConversionError as error:
            raise self._failure(str(error)) from error
        self._at = end + 1
        return token

    def _other(self) -> Token:
        char = self._text[self._at]
        if char in "\"`'":
            rest = self._text[self._at + 1 :].partition("\n")[0]
            is_escape = char != "`" and has_wrong_escape(rest, char)
            raise self._failure("invalid char escape" if is_escape else "literal not terminated")
        if char in "\0\ufffd":
            raise self._failure("invalid character NUL" if char == "\0" else "invalid UTF-8 encoding")
        return self._emit(IDENTIFIER, self._at + 1)

    def _emit(self, kind: str, end: int) -> Token:
        token = Token(kind, self._text[self._at : end], self._position())
        self._at = end
        return token

    def _position(self) -> Position:
        line = bisect_right(self._starts, self._at)
        return Position(line, self._at - self._starts[line - 1] + 1)

    def _failure(self, reason: str) -> ParseError:
        return ParseError(reason, self._position())

    _READERS: ClassVar[dict[str, Callable[[Lexer, str], Token]]] = {
        "word": _word,
        "comment": _comment,
        "duration": _duration,
        "char": _char,
        "symbol": _symbol,
        "string": _string,
        "number": _number,
        "range": _range,
        "flag": _flag,
    }
    """Readers by group of the pattern."""
