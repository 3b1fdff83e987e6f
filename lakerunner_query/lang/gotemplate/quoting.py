r"""Go's string literals for templates: escapes in and out, bytes that are no UTF-8 kept as surrogates.

A Go string is a run of bytes. Here it is a `str` in which a byte that is no part of valid UTF-8 stands as
the surrogate that `surrogateescape` gives it, so that `"\xff"` survives until the text is written out.

>>> unquote(r'"a\tb\u00e9\x41"'), quote('tab\there "x" \x07')
('a\tbéA', '"tab\\there \\"x\\" \\a"')
"""

from __future__ import annotations

import re
import unicodedata

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92}
_NAMED = {chr(code): "\\" + letter for letter, code in _SIMPLE.items()}
_ESCAPE = re.compile(
    r"""\\(?:(?P<simple>[abfnrtv\\'"])|(?P<octal>[0-7]{3})|x(?P<byte>[0-9a-fA-F]{2})"""
    r"""|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8}))"""
)
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_LAST = 0x10FFFF


class UnquoteError(ValueError):
    def __init__(self) -> None:
        super().__init__("invalid syntax")


def unquote(literal: str) -> str:
    """The value of a complete literal, its quotes included."""
    body = literal[1:-1]
    if literal[0] == "`":
        return body.replace("\r", "")
    raw = bytearray()
    at = 0
    while at < len(body):
        one, at = unescape(body, at, literal[0])
        raw += one
    return raw.decode("utf-8", "surrogateescape")


def unescape(body: str, at: int, opening: str) -> tuple[bytes, int]:
    """The bytes of the character at `at`, and where the next one starts."""
    if body[at] != "\\":
        if body[at] in {opening, "\n"}:
            raise UnquoteError
        return body[at].encode("utf-8", "surrogateescape"), at + 1
    found = _ESCAPE.match(body, at)
    if found is None or (found["simple"] or "") in {"'", '"'} - {opening}:
        raise UnquoteError
    return _bytes_of(str(found.lastgroup), str(found[str(found.lastgroup)])), found.end()


def _bytes_of(kind: str, text: str) -> bytes:
    if kind == "simple":
        return bytes([_SIMPLE.get(text, ord(text))])
    number = int(text, 8 if kind == "octal" else 16)
    if kind in {"octal", "byte"}:
        if number > 255:
            raise UnquoteError
        return bytes([number])
    if number > _LAST or 0xD800 <= number <= 0xDFFF:
        raise UnquoteError
    return chr(number).encode()


def quote(text: str, around: str = '"', *, ascii_only: bool = False) -> str:
    """The literal as `%q` writes it: printable characters as they are, the rest escaped."""
    if around == '"' and _PLAIN.fullmatch(text):
        return f'"{text}"'
    return around + "".join(_escaped(char, around, ascii_only) for char in text) + around


def _escaped(char: str, around: str, ascii_only: bool) -> str:
    code = ord(char)
    if char in {around, "\\"}:
        return "\\" + char
    if char in _NAMED:
        return _NAMED[char]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if is_printable(char) and not (ascii_only and code >= 0x80):
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_printable(char: str) -> bool:
    """Letters, marks, numbers, punctuation, symbols and the ASCII space."""
    return char == " " or unicodedata.category(char)[0] in "LMNPS"
