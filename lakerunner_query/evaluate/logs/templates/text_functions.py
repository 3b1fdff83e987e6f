"""Loki's functions on texts.

>>> trunc(-5, "hello world"), substr(6, 11, "hello world"), align_left(5, "hi"), title("a bc-d")
('world', 'world', 'hi   ', 'A Bc-D')
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, NoReturn
from urllib.parse import quote_plus

from lakerunner_query.evaluate.logs.templates.base64_text import b64dec
from lakerunner_query.gotext.limits import allow_text
from lakerunner_query.gotext.regexp import count, replace_all, replace_all_literally
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.gotext.values import (
    ANY,
    INT,
    STRING,
    Function,
    TemplateError,
    from_bytes,
    function,
    to_bytes,
    truth,
)

_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(char.lower()[0] for char in text)


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def _upper(char: str) -> str:
    """One letter stays one letter."""
    changed = char.upper()
    return changed if len(changed) == 1 else char


def title(text: str) -> str:
    parts: list[str] = []
    in_word = False
    for char in text:
        changed = char if in_word else char.title()
        parts.append(changed if len(changed) == 1 else char)
        in_word = not _separates(char)
    return "".join(parts)


def _separates(char: str) -> bool:
    if char == "_" or char.isalpha() or char.isdecimal():
        return False
    return char.isascii() or char in _SPACES


def trunc(wanted: int, text: str) -> str:
    """The first characters; of a negative count the last."""
    if wanted < 0:
        return text[wanted:] if len(text) + wanted > 0 else text
    return text[:wanted]


def substr(start: int, end: int, text: str) -> str:
    if start < 0:
        return text[: max(end, 0)]
    return text[start:] if end < 0 else text[start:end]


def align_left(wanted: int, text: str) -> str:
    if wanted < 0:
        return text
    allow_text(wanted)
    return text[:wanted].ljust(wanted)


def align_right(wanted: int, text: str) -> str:
    if wanted < 0:
        return text
    allow_text(wanted)
    return text[max(0, len(text) - wanted) :].rjust(wanted)


def repeat(times: int, text: str) -> str:
    if times < 0:
        raise TemplateError("strings: negative Repeat count")
    allow_text(times * len(text))
    return text * times


def indent(spaces: int, text: str) -> str:
    pad = repeat(spaces, " ")
    allow_text(len(text) + len(pad) * (text.count("\n") + 1))
    return pad + text.replace("\n", "\n" + pad)


def nindent(spaces: int, text: str) -> str:
    return "\n" + indent(spaces, text)


def replace(text: str, old: str, new: str, times: int) -> str:
    allow_text(len(text) + (text.count(old) if old else len(text) + 1) * len(new))
    return text.replace(old, new, max(times, -1))


def urldecode(text: str) -> str:
    if bad := _BAD_ESCAPE.search(text):
        raise TemplateError(f"invalid URL escape {quote(bad[0])}")
    raw = to_bytes(text.replace("+", " "))
    return from_bytes(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw))


def default(fallback: Any, *given: Any) -> Any:
    return given[0] if given and truth(given[0]) else fallback


def from_json(text: str) -> Any:
    """What cannot be read as JSON is nil."""
    try:
        value = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return _mended(value) if _SURROGATE.search(text) else value


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_LONE = re.compile(r"[\ud800-\udfff]")


def _mended(value: Any) -> Any:
    """Halves of characters and bytes that are no UTF-8 become U+FFFD."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return list(map(_mended, value)) if isinstance(value, list) else value


def _number(digits: str) -> float | None:
    """What is too large for a double is nil."""
    value = float(digits)
    return None if value in {float("inf"), float("-inf")} else value


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


TEXT: tuple[Function, ...] = (
    function("lower", lower, STRING),
    function("upper", upper, STRING),
    function("ToLower", lower, STRING),
    function("ToUpper", upper, STRING),
    function("title", title, STRING),
    function("trim", lambda text: text.strip(_SPACES), STRING),
    function("TrimSpace", lambda text: text.strip(_SPACES), STRING),
    function("trimAll", lambda chars, text: text.strip(chars), STRING, STRING),
    function("Trim", lambda text, chars: text.strip(chars), STRING, STRING),
    function("TrimLeft", lambda text, chars: text.lstrip(chars), STRING, STRING),
    function("TrimRight", lambda text, chars: text.rstrip(chars), STRING, STRING),
    function("trimPrefix", lambda prefix, text: text.removeprefix(prefix), STRING, STRING),
    function("trimSuffix", lambda suffix, text: text.removesuffix(suffix), STRING, STRING),
    function("TrimPrefix", lambda text, prefix: text.removeprefix(prefix), STRING, STRING),
    function("TrimSuffix", lambda text, suffix: text.removesuffix(suffix), STRING, STRING),
    function("contains", lambda part, text: part in text, STRING, STRING),
    function("hasPrefix", lambda prefix, text: text.startswith(prefix), STRING, STRING),
    function("hasSuffix", lambda suffix, text: text.endswith(suffix), STRING, STRING),
    function("replace", lambda old, new, text: replace(text, old, new, -1), STRING, STRING, STRING),
    function("Replace", replace, STRING, STRING, STRING, INT),
    function("trunc", trunc, INT, STRING),
    function("substr", substr, INT, INT, STRING),
    function("alignLeft", align_left, INT, STRING),
    function("alignRight", align_right, INT, STRING),
    function("repeat", repeat, INT, STRING),
    function("indent", indent, INT, STRING),
    function("nindent", nindent, INT, STRING),
    function("urlencode", lambda text: quote_plus(to_bytes(text)), STRING),
    function("urldecode", urldecode, STRING),
    function("b64enc", lambda text: base64.b64encode(to_bytes(text)).decode(), STRING),
    function("b64dec", b64dec, STRING),
    function("default", default, ANY, rest=ANY),
    function("fromJson", from_json, STRING),
    function("count", count, STRING, STRING),
    function("regexReplaceAll", replace_all, STRING, STRING, STRING),
    function("regexReplaceAllLiteral", replace_all_literally, STRING, STRING, STRING),
    Function("__line__", lambda row: row.line, of_row=True),
)
