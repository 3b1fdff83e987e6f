"""The PromQL lexer reads one token at a time, because brackets change its rules.

    rate(up{job="a"}[5m])

Outside brackets a word may be a keyword, inside braces it never is, and inside square brackets only
numbers, arithmetic and `step`, `range`, `max_of`, `min_of` stand. An error is raised when the parser asks for
the token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakerunner_query.errors import Position, PromParseError
from lakerunner_query.gotext.strconv import PROMQL, quote_char
from lakerunner_query.promql.lang.ast import Span
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS


def position_of(text: str, span: Span) -> Position:
    """Return line and column of the start of the span; the column counts bytes.

    >>> position_of('sum(\\nup)', Span(5, 7))
    Position(line=2, column=1)
    """
    before = text[: span.start]
    return Position(before.count("\n") + 1, len(_last_line(before).encode(errors="surrogateescape")) + 1)


def failure(text: str, reason: str, span: Span) -> PromParseError:
    """Build the error about a place in `text`.

    Its message counts bytes of the line, as Prometheus does; its `Position` counts characters, for editors.
    """
    before = text[: span.start]
    place = position_of(text, span)
    return PromParseError(
        reason,
        f"{place.line}:{place.column}" if text else "unknown position",
        span,
        Position(place.line, len(_last_line(before)) + 1),
    )


def byte_span(text: str, span: Span) -> Span:
    """Convert a place from characters to UTF-8 bytes of the text."""
    return Span(*(len(text[:at].encode(errors="surrogateescape")) for at in span))


def _last_line(before: str) -> str:
    return before[before.rfind("\n") + 1 :]


IDENTIFIER = "identifier"
METRIC_IDENTIFIER = "metric identifier"
"""Kind of a name with a colon."""
STRING = "string"
NUMBER = "number"
DURATION = "duration"
END = "end of input"

SET_OPERATORS = frozenset({"and", "or", "unless"})
COMPARISONS = frozenset({"==", "!=", "<=", "<", ">=", ">"})
OPERATORS = SET_OPERATORS | COMPARISONS | frozenset("+-*/%^@") | {"</", ">/", "=~", "!~", "atan2"}
FILLS = frozenset({"fill", "fill_left", "fill_right"})
MODIFIERS = FILLS | frozenset(
    ["offset", "smoothed", "anchored", "by", "without", "on", "ignoring", "group_left", "group_right", "bool"]
)
DURATION_CALLS = frozenset(name for name, one in FUNCTIONS.items() if one.syntax.duration_op)
"""Functions that may be called in square brackets and after `offset`."""
KEYWORD_CALLS = frozenset(name for name, one in FUNCTIONS.items() if one.syntax.is_keyword)
"""Keywords that are function names in front of a parenthesis."""
WORDS = {"and", "or", "unless", "atan2"} | AGGREGATIONS.keys() | MODIFIERS | KEYWORD_CALLS
SPECIAL_NUMBERS = frozenset({"inf", "nan"})

METRIC_NAMES = (WORDS - {"atan2", "bool", "on", "ignoring", "group_left", "group_right"}) | {
    IDENTIFIER,
    METRIC_IDENTIFIER,
}
"""Kinds of token that may be a metric name outside braces."""
LABEL_NAMES = (WORDS - {"without"}) | {IDENTIFIER, METRIC_IDENTIFIER}
"""Kinds of token that may be a label name in `by (...)` and similar lists."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """Own spelling in lower case for operators, keywords and punctuation."""
    text: str
    """Text as written."""
    span: Span

    def describe(self) -> str:
        """Return the name of the token in error messages.

        >>> Token("by", "BY", Span(0, 2)).describe(), Token(NUMBER, "12", Span(0, 2)).describe()
        ('<BY>', 'number "12"')
        """
        match self.kind:
            case "end of input":
                return self.kind
            case "identifier" | "metric identifier":
                return f"{self.kind} {PROMQL.quote(self.text)}"
            case "string" | "number" | "duration":
                return f"{self.kind} {_shorten(self.text)}"
        if self.kind in MODIFIERS:
            return f"<{self.text}>"
        if self.kind in OPERATORS:
            return f"<op:{self.text}>"
        return f"<aggr:{self.text}>" if self.kind in AGGREGATIONS else _shorten(self.text)


def _shorten(text: str) -> str:
    return (
        f"{PROMQL.quote(text[:10])}..."
        if len(text.encode(errors="surrogateescape")) > 10
        else PROMQL.quote(text)
    )


_DIGITS = "0123456789"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_PREFIX = re.compile(r"0[xX]_?")
_UNITS = re.compile(r"[smhdwy]s?")
_PART = re.compile(r"([0-9]+)([smhdw]s?)?")
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9_]")
_SEPARATORS = "._eE"
_FORBIDDEN_AFTER = {".": "_.", "_": "._eE", "e": "._eE"}


def number_end(text: str, at: int) -> tuple[int, bool]:
    """Return the end of a number and True, or the end of the scan and False.

    The unit of a duration may follow, so the scan of a failed number goes on as a duration: `5m`.
    """
    digits, start = _DIGITS, at
    if prefix := _PREFIX.match(text, at):
        digits, at = _HEX_DIGITS, prefix.end()
    elif text[at : at + 1] == "0":
        at += 1
    at += text[at : at + 1] == "."
    at += _is_in(text, at, digits)
    seen: set[str] = set()
    while _is_in(text, at, digits + _SEPARATORS):
        if text[at] in _SEPARATORS:
            at, is_sound = _separator_end(text, at, seen, digits is _HEX_DIGITS)
            if not is_sound:
                return at, False
            continue
        while _is_in(text, at, digits):
            at += 1
    return at, at > start and not _ALPHANUMERIC.match(text, at)


def _separator_end(text: str, at: int, seen: set[str], is_hex: bool) -> tuple[int, bool]:
    """Return the place behind the point, exponent or underscore, and True if it may stand there."""
    kind = text[at].lower()
    at += 1
    if kind != "_" and kind in seen:
        return at, False
    seen.add(kind)
    if kind == "e":
        at += _is_in(text, at, "+-")
    if _is_in(text, at, _FORBIDDEN_AFTER[kind]):
        return at + 1, False
    return at, not is_hex if kind == "." else at < len(text)


def remaining_duration_end(text: str, at: int) -> tuple[int, bool]:
    """Return the end of a duration after its first digits and True, or of the scan and False."""
    unit = _UNITS.match(text, at)
    if unit is None:
        return at, False
    at = unit.end()
    while part := _PART.match(text, at):
        at = part.end()
        if part[2] is None:
            return at, False
    is_cut = _ALPHANUMERIC.match(text, at)
    return at + bool(is_cut), not is_cut


def string_fault(text: str, at: int, opening: str) -> tuple[int, str]:
    """Return the end of the string literal at `at`, and its fault or an empty text."""
    at += 1
    while at < len(text):
        char = text[at]
        if char == opening:
            return at + 1, ""
        if char == "\ufffd" or "\ud800" <= char <= "\udfff":
            # the marks decoders leave where the bytes were not UTF-8; to search for one, write \ufffd
            return at, "invalid UTF-8 rune"
        if char == "\n" and opening != "`":
            break
        at += 1
        if char == "\\" and opening != "`":
            at, fault = _escape(text, at, opening)
            if fault:
                return at, fault
    return at, "unterminated raw string" if opening == "`" else "unterminated quoted string"


def _escape(text: str, at: int, opening: str) -> tuple[int, str]:
    """Return the end of the escape sequence whose backslash stands before `at`, and its fault."""
    char = text[at : at + 1]
    if not char:
        return at, "escape sequence not terminated"
    if char in "abfnrtv\\" or char == opening:
        return at + 1, ""
    if char in "01234567":
        return _code(text, at, 3, 8, 255)
    lengths = {"x": (2, 255), "u": (4, 0x10FFFF), "U": (8, 0x10FFFF)}
    if char in lengths:
        length, highest = lengths[char]
        return _code(text, at + 1, length, 16, highest)
    return at, f"unknown escape sequence {_unicode(char)}"


def _code(text: str, at: int, length: int, base: int, highest: int) -> tuple[int, str]:
    code = 0
    for char in text[at : at + length]:
        if not _is_in(char, 0, _HEX_DIGITS[:base] if base == 8 else _HEX_DIGITS):
            return at, f"illegal character {_unicode(char)} in escape sequence"
        code = code * base + int(char, 16)
    if at + length > len(text):
        return at, "escape sequence not terminated"
    if code > highest or 0xD800 <= code < 0xE000:
        return at, "escape sequence is an invalid Unicode code point"
    return at + length, ""


def _unicode(char: str) -> str:
    shown = f" '{char}'" if char.isprintable() else ""
    return f"U+{ord(char):04X}{shown}"


def _is_in(text: str, at: int, allowed: str) -> bool:
    return at < len(text) and text[at] in allowed


_SKIPPED = re.compile(r"(?:[ \t\n\r]++|#[^\n\r]*+)*+")
_BLANKS = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LETTERS = re.compile(r"[A-Za-z_]+")
_SYMBOL = re.compile(r"==|!=|<=|</|>=|>/|[-+*/%^,()\[\]{@=<>]")
_SYMBOL_IN_BRACES = re.compile(r"=~|!~|!=|[=,}]")
_SYMBOL_IN_BRACKETS = re.compile(r"[-+*/%^,():\]]")
_CALL = re.compile(r"[ \t\n\r]*\(")


class Lexer:
    """Tokens of a text in order, one for each `next()`; `END` follows the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._parens = 0
        self._in_braces = False
        self._in_brackets = False
        self._before_range = False
        """Place inside square brackets, before their first number."""
        self._seen_number = False
        """A number has occurred in square brackets; without one, no colon may come first."""
        self._seen_colon = False

    def next(self) -> Token:
        if self._before_range:
            self._at = _end(_BLANKS, self._text, self._at)
            return self._in_range()
        self._at = _end(_SKIPPED, self._text, self._at)
        return self._label_side() if self._in_braces else self._plain()

    def _plain(self) -> Token:
        char = self._text[self._at : self._at + 1]
        if not char:
            return self._finish()
        if char == ":" or _is_alpha(char):
            return self._range_word(char) if self._in_brackets else self._word()
        if self._starts_number(char):
            return self._number()
        if char in "\"'`":
            return self._string(char)
        symbol = _SYMBOL.match(self._text, self._at)
        if char == "!" and symbol is None:
            raise self._failure(f"unexpected character after '!': {self._quote_ahead(1)}")
        if char == "=" and self._text[self._at + 1 : self._at + 2] == "~":
            raise self._failure("unexpected character after '=': '~'")
        if symbol is None:
            raise self._failure(f"unexpected character: {quote_char(char)}")
        return self._symbol(symbol[0])

    def _finish(self) -> Token:
        if self._parens:
            raise self._failure("unclosed left parenthesis")
        if self._in_brackets:
            raise self._failure("unclosed left bracket")
        return self._emit(END, self._at)

    def _symbol(self, symbol: str) -> Token:
        if symbol == "[" and self._in_brackets:
            raise self._failure("unexpected left bracket '['")
        if symbol == "]" and not self._in_brackets:
            raise self._failure("unexpected right bracket ']'")
        token = self._emit(symbol, self._at + len(symbol))
        if symbol in "()":
            self._count_parens(symbol)
        elif symbol == "{":
            self._in_braces = True
        elif symbol == "[":
            self._in_brackets = self._before_range = True
            self._seen_colon = False
        elif symbol == "]":
            self._in_brackets = False
        return token

    def _count_parens(self, symbol: str) -> None:
        self._parens += 1 if symbol == "(" else -1
        if self._parens < 0:
            raise self._failure("unexpected right parenthesis ')'")

    def _word(self) -> Token:
        end = _end(_WORD, self._text, self._at)
        word = self._text[self._at : end].lower()
        if word in SPECIAL_NUMBERS:
            return self._emit(NUMBER, end)
        if word in WORDS and (word not in FILLS or _CALL.match(self._text, end)):
            # `fill` came late to the language: it stays a metric name unless a parenthesis follows
            return self._emit(word, end)
        return self._emit(METRIC_IDENTIFIER if ":" in word else IDENTIFIER, end)

    def _range_word(self, char: str) -> Token:
        """Read letters or a colon in square brackets, after the first number."""
        if char == ":":
            if self._seen_colon:
                raise self._failure("unexpected colon ':'")
            self._seen_colon = True
            return self._emit(":", self._at + 1)
        if word := self._duration_word():
            return word
        raise self._failure(f"unexpected character: {quote_char(char)}, expected ':'")

    def _duration_word(self) -> Token | None:
        end = _end(_LETTERS, self._text, self._at)
        word = self._text[self._at : end].lower()
        if word not in DURATION_CALLS:
            return None
        return self._emit(word, end)

    def _in_range(self) -> Token:
        char = self._text[self._at : self._at + 1]
        if not char:
            raise self._failure("unexpected end of input in duration expression")
        if self._starts_number(char):
            self._seen_number = True
            self._before_range = False
            return self._number()
        symbol = _SYMBOL_IN_BRACKETS.match(self._text, self._at)
        if symbol is None:
            if word := self._duration_word():
                return word
            raise self._failure(f"unexpected character in duration expression: {quote_char(char)}")
        token = self._emit(symbol[0], symbol.end())
        if symbol[0] in "()":
            self._count_parens(symbol[0])
        elif symbol[0] == ":":
            self._take_colon()
        elif symbol[0] == "]":
            self._in_brackets = self._before_range = False
        return token

    def _take_colon(self) -> None:
        if not self._seen_number:
            raise self._failure("unexpected colon before duration in duration expression")
        if self._seen_colon:
            raise self._failure("unexpected repeated colon in duration expression")
        self._seen_colon = True

    def _label_side(self) -> Token:
        char = self._text[self._at : self._at + 1]
        if not char:
            raise self._failure("unexpected end of input inside braces")
        if _is_alpha(char):
            return self._emit(IDENTIFIER, _end(_LABEL, self._text, self._at))
        if char in "\"'`":
            return self._string(char)
        symbol = _SYMBOL_IN_BRACES.match(self._text, self._at)
        if symbol is None:
            if char == "!":
                raise self._failure(f"unexpected character after '!' inside braces: {self._quote_ahead(1)}")
            what = "left brace" if char == "{" else "character inside braces:"
            raise self._failure(f"unexpected {what} {quote_char(char)}")
        self._in_braces = symbol[0] != "}"
        return self._emit(symbol[0], symbol.end())

    def _starts_number(self, char: str) -> bool:
        following = self._text[self._at + 1 : self._at + 2]
        return _is_digit(char) or (char == "." and _is_digit(following))

    def _number(self) -> Token:
        end, is_number = number_end(self._text, self._at)
        if is_number:
            return self._emit(NUMBER, end)
        end, is_duration = remaining_duration_end(self._text, end)
        if is_duration:
            return self._emit(DURATION, end)
        raise self._failure(f"bad number or duration syntax: {PROMQL.quote(self._text[self._at : end])}")

    def _string(self, opening: str) -> Token:
        end, fault = string_fault(self._text, self._at, opening)
        if fault:
            raise self._failure(fault)
        return self._emit(STRING, end)

    def _quote_ahead(self, ahead: int) -> str:
        return quote_char(self._text[self._at + ahead : self._at + ahead + 1])

    def _emit(self, kind: str, end: int) -> Token:
        token = Token(kind, self._text[self._at : end], Span(self._at, end))
        self._at = end
        return token

    def _failure(self, reason: str) -> PromParseError:
        return failure(self._text, reason, Span(self._at, len(self._text)))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _is_alpha(char: str) -> bool:
    return char.isascii() and (char.isalpha() or char == "_")


def _is_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()
