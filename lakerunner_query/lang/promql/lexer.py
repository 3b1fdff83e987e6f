"""Text to tokens, one at a time, because what a character means depends on the bracket around it.

    rate(up{job="a"}[5m])

Outside brackets a word may be a keyword, inside braces it never is, and inside square brackets only
numbers, arithmetic and `step`, `range`, `max_of`, `min_of` stand. An error is raised when the parser asks for
the token.
"""

from __future__ import annotations

import re

from lakerunner_query.errors import PromParseError
from lakerunner_query.gotext.strconv import quote_char, quote_promql
from lakerunner_query.lang.promql.ast import Span
from lakerunner_query.lang.promql.positions import failure
from lakerunner_query.lang.promql.scanning import number_end, remaining_duration_end, string_fault
from lakerunner_query.lang.promql.tokens import (
    DURATION,
    END,
    FILLS,
    IDENTIFIER,
    METRIC_IDENTIFIER,
    NUMBER,
    OF_DURATIONS,
    SPECIAL_NUMBERS,
    STRING,
    WORDS,
    Token,
)

_SKIPPED = re.compile(r"(?:[ \t\n\r]+|#[^\n\r]*)*")
_BLANKS = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LETTERS = re.compile(r"[A-Za-z_]+")
_SYMBOL = re.compile(r"==|!=|<=|</|>=|>/|[-+*/%^,()\[\]{@=<>]")
_SYMBOL_IN_BRACES = re.compile(r"=~|!~|!=|[=,}]")
_SYMBOL_IN_BRACKETS = re.compile(r"[-+*/%^,():\]]")
_CALL = re.compile(r"[ \t\n\r]*\(")


class Lexer:
    """`next()` gives the tokens in order; after the last, `END`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._parens = 0
        self._in_braces = False
        self._in_brackets = False
        self._before_range = False
        """In square brackets and before the first number of them."""
        self._seen_number = False
        """A number stood in some square brackets of this text; without one, no colon may come first."""
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
            raise self._failure(f"unexpected character after '!': {self._quoted(1)}")
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
        """Letters and colons in square brackets, after the first number."""
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
        if word not in OF_DURATIONS:
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
                raise self._failure(f"unexpected character after '!' inside braces: {self._quoted(1)}")
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
        raise self._failure(f"bad number or duration syntax: {quote_promql(self._text[self._at : end])}")

    def _string(self, opening: str) -> Token:
        end, fault = string_fault(self._text, self._at, opening)
        if fault:
            raise self._failure(fault)
        return self._emit(STRING, end)

    def _quoted(self, ahead: int) -> str:
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
