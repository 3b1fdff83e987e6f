r"""Loki's clients write the labels of a stream as text, `{app="shop", env="prod"}`.

Values are Go string literals: in double quotes with escapes, or in backquotes as they stand.

>>> parse_labels('{app="a\\tb", path=`c:\\x`}')
{'app': 'a\tb', 'path': 'c:\\x'}
>>> label_text({"b": 'say "hi"', "a": "1"})
'{a="1", b="say \\"hi\\""}'
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_CHARACTERS = 65_536
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SPACE = re.compile(r"[ \t\r\n]*")
_QUOTED = re.compile(r'"([^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+)"')
_BACKQUOTED = re.compile(r"`([^`]*)`")
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_WRITTEN = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord(char): f"\\{letter}" for letter, char in _SIMPLE.items()
}


class LabelTextError(ValueError):
    """The text is no set of labels from the character `position` on."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(position, message)
        self.position = position
        self.message = message

    def __str__(self) -> str:
        return f"label text, character {self.position}: {self.message}"


def parse_labels(text: str) -> dict[str, str]:
    """Parse the labels in their order; `{}` is a value, a repeated name is an error."""
    if len(text) > MAX_CHARACTERS:
        raise LabelTextError(MAX_CHARACTERS, f"expected the end, at most {MAX_CHARACTERS} characters")
    position = _expect(text, 0, "{")
    labels: dict[str, str] = {}
    position = _skip(text, position)
    while not text.startswith("}", position):
        start = position
        name, position = _name(text, position)
        if name in labels:
            raise LabelTextError(start, f"label {name!r} for the second time")
        position = _skip(text, _expect(text, position, "="))
        labels[name], position = _value(text, position)
        position = _skip(text, position)
        if text.startswith(",", position):
            position = _skip(text, position + 1)
        elif not text.startswith("}", position):
            raise LabelTextError(position, f"expected ',' or '}}', found {_character(text, position)}")
    end = _skip(text, position + 1)
    if end != len(text):
        raise LabelTextError(end, f"expected the end, found {_character(text, end)}")
    return labels


def label_text(labels: Mapping[str, str]) -> str:
    """Write the labels as text, by name; `parse_labels` of it returns them."""
    pairs = [f'{name}="{labels[name].translate(_WRITTEN)}"' for name in sorted(labels)]
    return "{" + ", ".join(pairs) + "}"


def _name(text: str, position: int) -> tuple[str, int]:
    found = NAME.match(text, position)
    if found is None:
        raise LabelTextError(position, f"expected a label name, found {_character(text, position)}")
    return found.group(), found.end()


def _value(text: str, position: int) -> tuple[str, int]:
    if found := _BACKQUOTED.match(text, position):
        return found.group(1).replace("\r", ""), found.end()  # as Go reads raw string literals
    if found := _QUOTED.match(text, position):
        return _unescape(found.group(1), position + 1), found.end()
    raise LabelTextError(position, f"expected a quoted value, found {_character(text, position)}")


def _unescape(body: str, start: int) -> str:
    if "\\" not in body:
        return body
    pieces: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(body):
        pieces += [body[position : match.start()].encode(), _escape(match, start + match.start())]
        position = match.end()
    pieces.append(body[position:].encode())
    try:
        return b"".join(pieces).decode()
    except UnicodeDecodeError as error:
        raise LabelTextError(start, "the escapes in this value do not make UTF-8") from error


def _escape(match: re.Match[str], at: int) -> bytes:
    simple, hexadecimal, octal, short, long, _ = match.groups()
    if simple:
        return _SIMPLE[simple].encode()
    if hexadecimal or octal:
        byte = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
        if byte < 256:
            return bytes([byte])
    elif code := short or long:
        number = int(code, 16)
        if number < 0x110000 and not 0xD800 <= number < 0xE000:
            return chr(number).encode()
    raise LabelTextError(at, f"no such escape: {match.group()!r}")


def _expect(text: str, position: int, char: str) -> int:
    position = _skip(text, position)
    if not text.startswith(char, position):
        raise LabelTextError(position, f"expected {char!r}, found {_character(text, position)}")
    return position + 1


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _character(text: str, position: int) -> str:
    return repr(text[position]) if position < len(text) else "the end"
