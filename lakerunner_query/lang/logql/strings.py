r"""Go's string literals, as LogQL has them.

Double quotes take Go's escapes (`\n`, `\x41`, `\101`, `\u00e9`, ...), back quotes take nothing. Byte escapes
can spell invalid UTF-8; that is an error here because a log line or label never holds it.

>>> unquote(r'"a\tb\u00e9\x41"'), unquote(r'`a\tb`')
('a\tbéA', 'a\\tb')
"""

from __future__ import annotations

import re

SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
_PIECE = re.compile(
    r"""\\(?P<simple>[abfnrtv\\"])|\\(?P<octal>[0-7]{3})|\\x(?P<byte>[0-9a-fA-F]{2})"""
    r"""|\\u(?P<short>[0-9a-fA-F]{4})|\\U(?P<long>[0-9a-fA-F]{8})|(?P<plain>[^\\]+)"""
)
_PLAIN = re.compile(r'^[^"\\\x00-\x1f\x7f\ufffd]*$')


class InvalidStringError(ValueError):
    """The literal is not one Go would accept."""


def unquote(literal: str) -> str:
    """The value of a complete literal, quotes included."""
    body = literal[1:-1]
    if literal[0] == "`":
        return body.replace("\r", "")
    raw = bytearray()
    at = 0
    while at < len(body):
        piece = _PIECE.match(body, at)
        if piece is None:
            raise InvalidStringError("invalid char escape")
        raw += _bytes_of(piece)
        at = piece.end()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidStringError("invalid UTF-8 encoding") from error


def has_wrong_escape(body: str, quotation: str) -> bool:
    """Whether a backslash stands where Go knows no escape."""
    allowed = re.compile(
        rf"\\(?:[abfnrtv\\{quotation}]|[0-7]{{3}}|x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}})"
    )
    return "\\" in allowed.sub("", body)


def quote(value: str) -> str:
    """The canonical literal: double quotes, escapes only where needed."""
    if _PLAIN.fullmatch(value):
        return f'"{value}"'
    return '"' + "".join(map(_escape, value)) + '"'


def _bytes_of(piece: re.Match[str]) -> bytes:
    kind, text = str(piece.lastgroup), piece[str(piece.lastgroup)]
    if kind == "plain":
        return text.encode()
    if kind == "simple":
        return bytes([SIMPLE[text]])
    number = int(text, 8 if kind == "octal" else 16)
    if kind in {"octal", "byte"}:
        if number > 255:
            raise InvalidStringError(f"octal escape value {number} > 255")
        return bytes([number])
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise InvalidStringError("escape is invalid Unicode code point")
    return chr(number).encode()


def _escape(char: str) -> str:
    named = {chr(code): letter for letter, code in SIMPLE.items()}.get(char)
    if named is not None:
        return "\\" + named
    if ord(char) < 0x20 or ord(char) == 0x7F:
        return f"\\x{ord(char):02x}"
    return "\\ufffd" if char == "\ufffd" else char
