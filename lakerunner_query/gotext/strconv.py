r"""String literals of Go and of the languages that borrowed them.

A Go string is a run of bytes. Here it is a `str` in which a byte that is not part of valid UTF-8 stands as
the surrogate that `surrogateescape` gives it, so that `"\xff"` survives until the text is written out.

>>> unquote(r'"a\tb\u00e9\x41"'), quote('tab\there "x" \x07'), PROMQL.quote(PROMQL.unquote(r"'it\'s \xff'"))
('a\tbéA', '"tab\\there \\"x\\" \\a"', '"it\'s \\xff"')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LETTERS = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_NAMED = {chr(code): f"\\{letter}" for letter, code in _LETTERS.items()}
_ESCAPE = re.compile(
    r"""\\(?:(?P<simple>[abfnrtv\\'"])|(?P<octal>[0-7]{3})|x(?P<byte>[0-9a-fA-F]{2})"""
    r"""|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8}))"""
)
_PLAIN = re.compile(r"[ !#-\[\]-~]*+")
_FIRST_BYTE, _LAST_BYTE = 0xDC80, 0xDCFF
"""Surrogates that stand for bytes outside UTF-8."""
_LAST_CODE_POINT = 0x10FFFF


class UnquoteError(ValueError):
    """The literal is not one Go would accept."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A language's variations of Go's string literals."""

    errors: str = "surrogateescape"
    """Treatment of bytes that are not UTF-8, as `bytes.decode` names it."""
    is_lexed: bool = False
    """The lexer has refused line ends and the literal's own quotation mark inside."""
    is_terse: bool = True
    """Every fault reads `invalid syntax`, as in Go."""
    has_carriage_returns: bool = False
    """Literals in back quotes keep their carriage returns, which Go drops."""
    escapes_unprintable: bool = True
    escapes_replacement: bool = False
    """U+FFFD is written as an escape, because in source text it marks broken UTF-8."""

    def unquote(self, literal: str) -> str:
        """Return the value of a complete literal, given with its quotation marks."""
        opening, body = literal[0], literal[1:-1]
        if opening == "`":
            return body if self.has_carriage_returns else body.replace("\r", "")
        raw = bytearray()
        at = 0
        while at < len(body):
            end = body.find("\\", at)
            if end == at:
                byte, at = self.unescape(body, at, opening)
                raw += byte
                continue
            plain = body[at : end if end > 0 else len(body)]
            if not self.is_lexed and (opening in plain or "\n" in plain):
                raise self._fault("invalid character")
            raw += plain.encode("utf-8", self.errors)
            at += len(plain)
        try:
            return raw.decode("utf-8", self.errors)
        except UnicodeDecodeError as error:
            raise self._fault("invalid UTF-8 encoding") from error

    def unescape(self, text: str, at: int, opening: str) -> tuple[bytes, int]:
        """Return the bytes of the escape sequence at `at`, and the place behind it."""
        found = _ESCAPE.match(text, at)
        if found is None or (found["simple"] or "") in {"'", '"'} - {opening}:
            raise self._fault("invalid char escape")
        kind, digits = str(found.lastgroup), str(found[str(found.lastgroup)])
        if kind == "simple":
            return bytes([_LETTERS.get(digits, ord(digits))]), found.end()
        number = int(digits, 8 if kind == "octal" else 16)
        if kind in {"octal", "byte"}:
            if number > 0xFF:
                raise self._fault(f"octal escape value {number} > 255")
            return bytes([number]), found.end()
        if number > _LAST_CODE_POINT or 0xD800 <= number <= 0xDFFF:
            raise self._fault("escape is invalid Unicode code point")
        return chr(number).encode(), found.end()

    def quote(self, text: str, quotation: str = '"', *, is_ascii: bool = False) -> str:
        """Write the literal as `%q` does, or as `%+q` if `is_ascii`."""
        if quotation == '"' and _PLAIN.fullmatch(text):
            return f'"{text}"'
        return quotation + "".join(self._escape(char, quotation, is_ascii) for char in text) + quotation

    def _escape(self, char: str, quotation: str, is_ascii: bool) -> str:
        if char == quotation:
            return f"\\{char}"
        if char in _NAMED:
            return _NAMED[char]
        code = ord(char)
        if code < 0x20 or code == 0x7F:
            return f"\\x{code:02x}"
        is_kept = char.isprintable() if self.escapes_unprintable else True
        if (
            is_kept
            and not (is_ascii and code >= 0x80)
            and not (self.escapes_replacement and char == "\ufffd")
        ):
            return char
        if _FIRST_BYTE <= code <= _LAST_BYTE:
            return f"\\x{code & 0xFF:02x}"
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    def _fault(self, reason: str) -> UnquoteError:
        return UnquoteError("invalid syntax" if self.is_terse else reason)


GO = Dialect()
PROMQL = Dialect(is_lexed=True, has_carriage_returns=True, escapes_replacement=True)
LOGQL = Dialect(
    errors="strict", is_lexed=True, is_terse=False, escapes_unprintable=False, escapes_replacement=True
)
"""Byte escapes that spell no UTF-8 are an error: log lines and labels never hold any."""
TRACEQL = Dialect(errors="strict", is_lexed=True, is_terse=False)
"""Byte escapes that spell no UTF-8 are an error: names and values of attributes never hold any."""

quote, unquote = GO.quote, GO.unquote


def unescape(text: str, at: int, opening: str) -> tuple[bytes, int]:
    """Return the bytes of Go's character at `at`, escaped or not, and the place behind it."""
    if text[at] == "\\":
        return GO.unescape(text, at, opening)
    if text[at] in {opening, "\n"}:
        raise UnquoteError("invalid syntax")
    return text[at].encode("utf-8", "surrogateescape"), at + 1


def has_wrong_escape(body: str, quotation: str) -> bool:
    """Tell if a backslash stands where Go knows no escape."""
    wrong = {"'", '"'} - {quotation}
    rest = _ESCAPE.sub(lambda found: found[0] if found["simple"] in wrong else "", body)
    return "\\" in rest


def quote_char(char: str) -> str:
    """Quote one character in single quotes; the end of the text, and bytes outside UTF-8, show as U+FFFD."""
    return quote(char if char and is_utf8(char) else "\ufffd", "'")


def quote_bytes(text: str) -> str:
    r"""Quote as Go's package `time` does: every byte that is not plain ASCII is escaped.

    >>> print(quote_bytes('a"b\u00e9'))
    "a\"b\xc3\xa9"
    """
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    shown = (
        f"\\{byte:c}" if byte in b'"\\' else f"{byte:c}" if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogateescape")
    )
    return f'"{"".join(shown)}"'


def is_utf8(value: str) -> bool:
    """Tell if no escape spelled bytes outside UTF-8."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def label_set(labels: Iterable[tuple[str, str]]) -> str:
    """Write `{a="b", c="d"}`, as error messages name series.

    Names outside of letters, digits and `_` are quoted.
    """
    return "{" + ", ".join(f"{_name(name)}={quote(value)}" for name, value in labels) + "}"


def _name(name: str) -> str:
    is_plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if is_plain else quote(name)
