"""The lexer of TraceQL turns text into tokens, one at a time.

    { span.http.status_code >= 500 && span:kind = server }

    { ATTRIBUTE >= INTEGER && span: kind = server }

Keywords, operators and scopes with a colon are their own kind. An attribute is one token: behind its scope
everything belongs to the name but spaces, brackets, commas and the operators `= ~ ! < > & | ^`, so `.a+1` is
one name. Comments are `// …` and `/* … */`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.gotext.durations import nanoseconds
from lakerunner_query.gotext.numbers import (
    INT_MAX,
    INT_MIN,
    ConversionError,
    MalformedNumberError,
    read_float,
    scan_number,
)
from lakerunner_query.gotext.strconv import TRACEQL, UnquoteError, has_wrong_escape
from lakerunner_query.traceql.lang.ast import Attribute, Literal, Scope, Type
from lakerunner_query.traceql.lang.functions import AGGREGATES, METRICS_FUNCTIONS, RANKINGS
from lakerunner_query.traceql.lang.intrinsics import SCOPED, WORDS

STATUSES = ("error", "ok", "unset")
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
CONSTANTS: dict[str, tuple[Type, bool | int | str | None]] = {
    "true": (Type.BOOLEAN, True),
    "false": (Type.BOOLEAN, False),
    "nil": (Type.NIL, None),
    "minInt": (Type.INTEGER, INT_MIN),
    "maxInt": (Type.INTEGER, INT_MAX),
    **{word: (Type.STATUS, word) for word in STATUSES},
    **{word: (Type.KIND, word) for word in KINDS},
}
"""Words that are literals."""
STAGES = frozenset({"by", "coalesce", "select"})
KEYWORDS = (
    frozenset({"with", *CONSTANTS, *WORDS, *METRICS_FUNCTIONS, *RANKINGS, *AGGREGATES})
    | STAGES
    | {word for words in SCOPED.values() for word in words}
)

IDENTIFIER, ATTRIBUTE, END = "IDENTIFIER", "ATTRIBUTE", "$end"
STRING, INTEGER, FLOAT, DURATION = "STRING", "INTEGER", "FLOAT", "DURATION"
NUMBERS = (INTEGER, FLOAT, DURATION)
_TYPES = {STRING: Type.STRING, INTEGER: Type.INTEGER, FLOAT: Type.FLOAT, DURATION: Type.DURATION}

SYMBOLS = (
    *("!>>", "!<<", "&>>", "&<<"),
    *("!>", "!<", "!~", "!=", "&>", "&<", "&~", "&&", "||", ">>", "<<", ">=", "<=", "=~"),
    *"{}(),=<>~!|+-*/%^",
)
"""Operators and brackets, the longest first where one is the beginning of another."""


@dataclass(slots=True)
class Token:
    kind: str
    text: str
    """Source text."""
    value: bool | int | float | str | Attribute | None
    """Value of a literal, the attribute itself; None of all others."""
    position: Position

    @property
    def literal(self) -> Literal:
        """Literal that the token stands for: a string, a number or a constant's word."""
        kind = _TYPES[self.kind] if self.kind in _TYPES else CONSTANTS[self.kind][0]
        if isinstance(self.value, Attribute):
            raise TypeError(f"an attribute is no literal: {self.text}")
        return Literal(kind, self.value, self.position)


_SKIPPED = re.compile(r"(?s:[ \t\n\r]++|//[^\n]*+|/\*.*?\*/)*+")
_SCOPES = "|".join(filter(None, Scope))
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<comment>/\*)",
            rf"(?P<attribute>(?:{_SCOPES}|parent\.(?:span|resource)|parent)\.|\.(?![0-9]))",
            rf"(?P<scope>(?:{'|'.join(SCOPED)}):)",
            r"(?P<word>[^\W\d]\w*+)",
            r'(?P<string>"(?:[^"\\\n]|\\[^\n])*"|`[^`]*`)',
            r"(?P<number>\.?[0-9])",
            r"(?P<symbol>" + "|".join(map(re.escape, SYMBOLS)) + ")",
        )
    )
)
_NAME = re.compile(r'(?:"(?:[^"\\]|\\["\\])*+"|[^\s{}()=~!<>&|^,"])*+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*+)"')
_OPEN_QUOTES = re.compile(r'"(?:[^"\\]|\\["\\])*+')
_OF_DURATION = re.compile(r"[0-9.nsuµmhdwy]*+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def attribute_name(written: str) -> str:
    r"""Return the name behind a scope without its quotes.

    >>> attribute_name('"team \\"x\\""'), attribute_name('a."b c".d')
    ('team "x"', 'a.b c.d')
    """
    return _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1]), written)


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

    def _comment(self, _: str) -> Token:
        raise self._failure("comment not terminated")

    def _attribute(self, before: str) -> Token:
        found = _NAME.match(self._text, self._at + len(before))
        end = found.end() if found else self._at
        if self._text[end : end + 1] == '"':
            unclosed = _OPEN_QUOTES.match(self._text, end)
            at_end = unclosed is not None and unclosed.end() == len(self._text)
            raise self._failure('unexpected EOF, expecting "' if at_end else "invalid escape sequence")
        written = self._text[self._at + len(before) : end]
        if not written:
            raise self._failure("syntax error: unexpected END_ATTRIBUTE, expecting IDENTIFIER")
        of_parent = before.startswith("parent.")
        scope = Scope(before.removeprefix("parent.").removesuffix("."))
        attribute = Attribute(attribute_name(written), scope, of_parent, self._position())
        return self._emit(ATTRIBUTE, end, attribute)

    def _scope(self, scope: str) -> Token:
        return self._emit(scope, self._at + len(scope))

    def _symbol(self, symbol: str) -> Token:
        return self._emit(symbol, self._at + len(symbol))

    def _word(self, word: str) -> Token:
        _, value = CONSTANTS.get(word, (None, None))
        return self._emit(word if word in KEYWORDS else IDENTIFIER, self._at + len(word), value)

    def _string(self, literal: str) -> Token:
        if _SURROGATE.search(literal):
            raise self._failure("invalid UTF-8 encoding")
        if "\0" in literal:
            raise self._failure("invalid character NUL")
        try:
            value = TRACEQL.unquote(literal)
        except UnquoteError as error:
            raise self._failure(str(error)) from error
        return self._emit(STRING, self._at + len(literal), value)

    def _number(self, _: str) -> Token:
        try:
            end = scan_number(self._text, self._at)
        except MalformedNumberError as error:
            raise self._failure(str(error)) from error
        longer = _OF_DURATION.match(self._text, end)
        if longer is not None and longer.end() > end:
            try:
                value = nanoseconds(self._text[self._at : longer.end()])
            except ConversionError:
                pass  # a number with a word behind, which the parser reports
            else:
                return self._emit(DURATION, longer.end(), value)
        return self._plain_number(end)

    def _plain_number(self, end: int) -> Token:
        text = self._text[self._at : end]
        is_hexadecimal = text[:2] in {"0x", "0X"}
        if any(mark in text for mark in ("pP" if is_hexadecimal else ".eE")):
            try:
                return self._emit(FLOAT, end, read_float(text))
            except ConversionError as error:
                raise self._failure(str(error)) from error
        if not text.isdigit():
            raise self._failure(f'strconv.Atoi: parsing "{text}": invalid syntax')
        digits = text.lstrip("0") or "0"
        if len(digits) > len(str(INT_MAX)) or int(digits) > INT_MAX:
            raise self._failure(f'strconv.Atoi: parsing "{text}": value out of range')
        return self._emit(INTEGER, end, int(digits))

    def _other(self) -> Token:
        char = self._text[self._at]
        if char in '"`':
            rest = self._text[self._at + 1 :].partition("\n")[0]
            is_escape = char == '"' and has_wrong_escape(rest, char)
            raise self._failure("invalid char escape" if is_escape else "literal not terminated")
        if char == "\0" or _SURROGATE.match(char):
            raise self._failure("invalid character NUL" if char == "\0" else "invalid UTF-8 encoding")
        return self._emit(IDENTIFIER, self._at + 1)

    def _emit(self, kind: str, end: int, value: bool | float | str | Attribute | None = None) -> Token:
        token = Token(kind, self._text[self._at : end], value, self._position())
        self._at = end
        return token

    def _position(self) -> Position:
        line = bisect_right(self._starts, self._at)
        return Position(line, self._at - self._starts[line - 1] + 1)

    def _failure(self, reason: str) -> ParseError:
        return ParseError(reason, self._position())

    _READERS: ClassVar[dict[str, Callable[[Lexer, str], Token]]] = {
        "comment": _comment,
        "attribute": _attribute,
        "scope": _scope,
        "word": _word,
        "string": _string,
        "number": _number,
        "symbol": _symbol,
    }
    """Readers by group of the pattern."""
