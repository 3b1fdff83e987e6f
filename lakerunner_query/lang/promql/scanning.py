"""Where a number, a duration or a string ends, and whether it is one.

A number may be followed by a duration's unit, so the scan of a failed number goes on as a duration: `5m`.
"""

from __future__ import annotations

import re

_DIGITS = "0123456789"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_PREFIX = re.compile(r"0[xX]_?")
_UNITS = re.compile(r"[smhdwy]s?")
_PART = re.compile(r"([0-9]+)([smhdw]s?)?")
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9_]")
_SEPARATORS = "._eE"
_FORBIDDEN_AFTER = {".": "_.", "_": "._eE", "e": "._eE"}


def number_end(text: str, at: int) -> tuple[int, bool]:
    """How far a number reaches; if it is none, how far the scan came."""
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
    """Behind the point, exponent or underscore at `at`, and whether it may stand there."""
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
    """How far a duration reaches whose first digits end at `at`; if it is none, how far the scan came."""
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
    """The end of the string literal that starts at `at`, and what is wrong with it, if anything."""
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
    """The end of the escape sequence whose backslash stands before `at`."""
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
