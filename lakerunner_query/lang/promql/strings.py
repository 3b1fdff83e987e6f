r"""PromQL's string literals, and Go's quoting of strings for output.

Single and double quotes take Go's escapes, back quotes take none. An escape such as `\xff` can spell bytes
that are not UTF-8; as everywhere in Python such a byte becomes one lone surrogate (`surrogateescape`), so
that values stay comparable and print as `\xff` again.

>>> unquote(r"'it\'s \u00e9 \x41'"), unquote(r'`a\tb`'), quote(unquote(r'"\xff"'))
("it's é A", 'a\\tb', '"\\xff"')
"""

from __future__ import annotations

import re

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|([0-7]{3})|x([0-9a-fA-F]{2})|(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})))"
)
_NAMED = {chr(code): f"\\{letter}" for letter, code in _SIMPLE.items() if letter != "'"}


def unquote(literal: str) -> str:
    """The value of a literal the lexer has found complete and sound, quotes included."""
    body = literal[1:-1]
    if literal[0] == "`" or "\\" not in body:
        return body
    raw = bytearray()
    at = 0
    for escape in _ESCAPE.finditer(body):
        raw += body[at : escape.start()].encode()
        raw += _value(escape)
        at = escape.end()
    raw += body[at:].encode()
    return raw.decode(errors="surrogateescape")


def _value(escape: re.Match[str]) -> bytes:
    simple, octal, byte, short, long = escape.groups()
    if simple:
        return bytes([_SIMPLE[simple]])
    if octal or byte:
        return bytes([int(octal, 8) if octal else int(byte, 16)])
    return chr(int(short or long, 16)).encode()


def quote(value: str) -> str:
    """In double quotes, everything escaped that would not print or could not be read again."""
    return '"' + "".join(map(_escaped, value)).replace("\ufffd", r"\ufffd") + '"'


def quote_char(char: str) -> str:
    """One character in single quotes; the end of the text, and what is not UTF-8, show as U+FFFD."""
    if char == "'":
        return r"'\''"
    if not char or not is_utf8(char):
        return "'\ufffd'"
    return f"'{char}'" if char == '"' else f"'{_escaped(char)}'"


def _escaped(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def is_utf8(value: str) -> bool:
    """False when an escape spelled bytes that are none."""
    return not any("\ud800" <= char <= "\udfff" for char in value)
