"""Splits a template into tokens: actions between braces are taken apart, all else is text.

    a {{- .b | upper -}} c   →   text("a"), {{, field(.b), space, |, space, identifier(upper), }}, text("c")

Spaces between words are tokens, because `.a .b` are two operands and `.a.b` is one. A fault is a token too:
the parser reports it together with the action it happened in.
"""

from __future__ import annotations

import re
import unicodedata

from lakerunner_query.gotext.strconv import quote
from lakerunner_query.gotext.template.ast import (
    ASSIGN,
    BOOL,
    CHAR,
    CHARACTER,
    CLOSE,
    COMPLEX,
    DECLARE,
    DOT,
    END,
    ERROR,
    FIELD,
    IDENTIFIER,
    KEYWORDS,
    LEFT,
    NUMBER,
    OPEN,
    PIPE,
    RAW_STRING,
    RIGHT,
    SPACE,
    STRING,
    TEXT,
    VARIABLE,
    Token,
)

_BLANK = " \t\r\n"
_RIGHT = re.compile(r"[ \t\r\n]-\}\}|\}\}")
_BLANKS = re.compile(r"[ \t\r\n]+")
_QUOTED = {
    '"': (STRING, re.compile(r'"(?:[^"\\\n]|\\[^\n])*"'), "unterminated quoted string"),
    "`": (RAW_STRING, re.compile(r"`[^`]*`"), "unterminated raw quoted string"),
    "'": (CHARACTER, re.compile(r"'(?:[^'\\\n]|\\[^\n])*'"), "unterminated character constant"),
}
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*(?:\.[0-7_]*)?"
    r"|0[bB][01_]*(?:\.[01_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)
_MARKS = {"=": ASSIGN, "|": PIPE, "(": OPEN, ")": CLOSE}


class Lexer:
    """Reads tokens in order; behind the last, `next()` returns `EOF` for ever."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0
        self._in_action = False
        self._depth = 0

    def next(self) -> Token:
        return self._action_token() if self._in_action else self._outside()

    def _outside(self) -> Token:
        """Read text up to the next action, or the braces that open it; comments are no token."""
        while True:
            opening = self._text.find("{{", self._at)
            if opening < 0:
                opening = len(self._text)
            if opening > self._at:
                text = self._text[self._at : opening]
                kept = text.rstrip(_BLANK) if self._trims(opening + 2) else text
                if kept:
                    return self._emit(TEXT, self._at + len(kept), opening)
                self._at = opening
            if opening == len(self._text):
                return self._emit(END, opening)
            inside = opening + (4 if self._trims(opening + 2) else 2)
            if not self._text.startswith("/*", inside):
                self._in_action, self._depth = True, 0
                return self._emit(LEFT, opening + 2, inside)
            if fault := self._skip_comment(inside):
                return fault

    def _trims(self, at: int) -> bool:
        return self._text[at : at + 1] == "-" and self._text[at + 1 : at + 2] in tuple(_BLANK)

    def _skip_comment(self, at: int) -> Token | None:
        self._at = at
        end = self._text.find("*/", at + 2)
        if end < 0:
            return self._fault("unclosed comment")
        closing = _RIGHT.match(self._text, end + 2)
        if closing is None:
            return self._fault("comment ends before closing delimiter")
        self._at = self._after(closing)
        return None

    def _after(self, closing: re.Match[str]) -> int:
        """Return the place behind the closing braces and the blanks that a trim marker takes."""
        blanks = _BLANKS.match(self._text, closing.end())
        return blanks.end() if blanks and len(closing[0]) > 2 else closing.end()

    def _action_token(self) -> Token:
        if closing := _RIGHT.match(self._text, self._at):
            return self._close(closing)
        char = self._text[self._at : self._at + 1]
        if not char:
            return self._fault("unclosed action")
        if char in _BLANK:
            return self._space()
        return self._literal(char) if char in _QUOTED else self._word(char)

    def _word(self, char: str) -> Token:
        following = self._text[self._at + 1 : self._at + 2]
        if char == "$" or (char == "." and not ("0" <= following <= "9" and following)):
            return self._name(VARIABLE if char == "$" else FIELD, self._at + 1)
        if char in "+-." or "0" <= char <= "9":
            return self._number()
        if _is_alphanumeric(char):
            return self._name(IDENTIFIER, self._at)
        return self._mark(char, following)

    def _close(self, closing: re.Match[str]) -> Token:
        if self._depth:
            return self._fault("unclosed left paren")
        self._in_action = False
        self._at = closing.end() - 2
        return self._emit(RIGHT, closing.end(), self._after(closing))

    def _space(self) -> Token:
        found = _BLANKS.match(self._text, self._at)
        end = found.end() if found else self._at
        # the last blank belongs to a closing " -}}"
        if self._text.startswith("-}}", end):
            end -= 1
            if end == self._at:
                return self._action_token()
        return self._emit(SPACE, end)

    def _literal(self, opening: str) -> Token:
        kind, pattern, fault = _QUOTED[opening]
        found = pattern.match(self._text, self._at)
        return self._emit(kind, found.end()) if found else self._fault(fault)

    def _name(self, kind: str, end: int) -> Token:
        while end < len(self._text) and _is_alphanumeric(self._text[end]):
            end += 1
        if not self._ends_word(end):
            return self._fault(f"bad character {_code_point(self._text[end])}")
        word = self._text[self._at : end]
        if kind == FIELD and word == ".":
            kind = DOT
        elif kind == IDENTIFIER and word in KEYWORDS:
            kind = word
        elif kind == IDENTIFIER and word in {"true", "false"}:
            kind = BOOL
        return self._emit(kind, end)

    def _ends_word(self, at: int) -> bool:
        return at >= len(self._text) or self._text[at] in " \t\r\n.,|:)(" or self._text.startswith("}}", at)

    def _number(self) -> Token:
        end = self._number_end(self._at)
        kind = NUMBER
        if end is not None and self._text[end : end + 1] in {"+", "-"}:
            kind = COMPLEX
            sign, end = end, self._number_end(end)
            if end is None or self._text[end - 1] != "i":
                return self._fault(f"bad number syntax: {quote(self._text[self._at : end or sign + 1])}")
        if end is None:
            reached = _NUMBER.match(self._text, self._at)
            shown = self._text[self._at : (reached.end() if reached else self._at) + 1]
            return self._fault(f"bad number syntax: {quote(shown)}")
        return self._emit(kind, end)

    def _number_end(self, at: int) -> int | None:
        found = _NUMBER.match(self._text, at)
        end = found.end() if found else at
        return None if end < len(self._text) and _is_alphanumeric(self._text[end]) else end

    def _mark(self, char: str, following: str) -> Token:
        if char == ":":
            return self._emit(DECLARE, self._at + 2) if following == "=" else self._fault("expected :=")
        if char == "(":
            self._depth += 1
        elif char == ")":
            self._depth -= 1
            if self._depth < 0:
                return self._fault("unexpected right paren")
        if char in _MARKS or (char.isascii() and char.isprintable()):
            return self._emit(_MARKS.get(char, CHAR), self._at + 1)
        return self._fault(f"unrecognized character in action: {_code_point(char)}")

    def _emit(self, kind: str, end: int, resume: int | None = None) -> Token:
        text = "EOF" if kind == END else self._text[self._at : end]
        token = Token(kind, text, self._at, self._line_here())
        self._at = end if resume is None else resume
        return token

    def _fault(self, reason: str) -> Token:
        """Return a fault and give up the rest of the text."""
        token = Token(ERROR, reason, self._at, self._line_here())
        self._text, self._in_action = self._text[: self._at], False
        return token

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line


def _is_alphanumeric(char: str) -> bool:
    return char == "_" or char.isalpha() or unicodedata.category(char) == "Nd"


def _code_point(char: str) -> str:
    shown = f" '{char}'" if char.isprintable() else ""
    return f"U+{ord(char):04X}{shown}"
