"""Formats one value under one verb of Go's package `fmt`, with flags, width and precision.

>>> format_value(255, "x", Flags(sharp=True)), format_value("é", "q", Flags(plus=True))
('0xff', '"\\\\u00e9"')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from lakerunner_query.gotext.durations import Duration, duration_text
from lakerunner_query.gotext.limits import allow_text
from lakerunner_query.gotext.numbers import VERBS, format_float
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.gotext.time import DAYS, MONTHS, Time, time_text
from lakerunner_query.gotext.values import Interface, Labels, Uint8, to_bytes, type_name

_BASES = {"d": "d", "v": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
_DEEPEST = 60
"""Depth of lists in lists; JSON that is nested deeper does not print its inside."""


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of a directive."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    source: bool = False
    """Go syntax, as `%#v` writes a value."""
    width: int | None = None
    precision: int | None = None


class Month(int):
    go_name = "time.Month"
    __slots__ = ()


class Weekday(int):
    go_name = "time.Weekday"
    __slots__ = ()


def format_value(value: Any, verb: str, flags: Flags, depth: int = 0) -> str:
    if verb == "T":
        return pad("<nil>", flags) if value is None else _text(type_name(value), "s", flags)
    if isinstance(value, Interface):
        value = value.value
    if value is None:
        return pad("<nil>", flags) if verb == "v" else f"%!{verb}(<nil>)"
    if isinstance(value, dict | list):
        return _collection(value, verb, flags, depth)
    if (fields := getattr(value, "go_fields", None)) is not None:
        return _pointer(value, depth) + structure(fields, verb, flags, depth)
    if verb in "vsqxX" and (own := _own_text(value)) is not None and not flags.source:
        return _text(own, verb, flags)
    text = _basic(value, verb, flags)
    return _bad(verb, value, flags) if text is None else text


def pad(text: str, flags: Flags) -> str:
    if not flags.width or len(text) >= flags.width:
        return text
    allow_text(flags.width)
    if flags.minus:
        return text.ljust(flags.width)
    return text.rjust(flags.width, "0" if flags.zero else " ")


def _own_text(value: Any) -> str | None:
    """Return the text of values that have a method String; types of other rooms bring theirs as `go_text`."""
    if isinstance(value, Time):
        return time_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Month):
        return MONTHS[value - 1]
    if isinstance(value, Weekday):
        return DAYS[value]
    own: str | None = getattr(value, "go_text", None)
    return own


def _basic(value: Any, verb: str, flags: Flags) -> str | None:
    """Format a scalar; None if the verb does not apply to it."""
    if isinstance(value, bool):
        return pad("true" if value else "false", flags) if verb in "tv" else None
    if isinstance(value, str):
        return _text(value, verb, flags)
    if isinstance(value, int):
        return _integer(value, verb, flags)
    if isinstance(value, float):
        return _float(value, verb, flags) if verb == "v" or verb in VERBS else None
    if isinstance(value, complex) and (verb == "v" or verb in VERBS):
        parts = replace(flags, plus=True)
        return f"({_float(value.real, verb, flags)}{_float(value.imag, verb, parts)}i)"
    return None


def _bad(verb: str, value: Any, flags: Flags) -> str:
    return f"%!{verb}({type_name(value)}={format_value(value, 'v', flags)})"


def _text(text: str, verb: str, flags: Flags) -> str:
    if verb in "xX":
        return _hex(to_bytes(text), verb, flags)
    if verb not in "vsq":
        return _bad(verb, text, flags)
    if flags.precision is not None:
        text = text[: flags.precision]
    if flags.source:
        return pad(quote(text), flags)
    if verb != "q":
        return pad(text, flags)
    if flags.sharp and "`" not in text and all(char == "\t" or char.isprintable() for char in text):
        return pad(f"`{text}`", flags)
    return pad(quote(text, is_ascii=flags.plus), flags)


def _hex(raw: bytes, verb: str, flags: Flags) -> str:
    raw = raw if flags.precision is None else raw[: flags.precision]
    prefix = f"0{verb}" if flags.sharp and raw else ""
    text = prefix + ((" " + prefix) if flags.space else "").join(f"{byte:02x}" for byte in raw)
    if verb == "X":
        text = text.upper()
    return pad(text, flags)


def _integer(value: int, verb: str, flags: Flags) -> str | None:
    if verb == "c":
        return pad(_character(value), flags)
    if verb == "q":
        return pad(quote(_character(value), "'", is_ascii=flags.plus), flags)
    if verb == "U":
        shown = _character(value)
        tail = f" '{shown}'" if flags.sharp and shown.isprintable() else ""
        code = value if value >= 0 else value + (1 << 64)
        return pad(f"U+{code:0{max(4, flags.precision or 0)}X}{tail}", replace(flags, zero=False))
    if verb not in _BASES:
        return None
    if flags.source and isinstance(value, Uint8):
        return pad(f"0x{int(value):x}", flags)
    return _in_base(int(value), verb, flags)


def _character(code: int) -> str:
    valid = 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if valid else "\ufffd"


def _in_base(value: int, verb: str, flags: Flags) -> str:
    sign = "-" if value < 0 else "+" if flags.plus else " " if flags.space else ""
    if flags.precision == 0 and value == 0:
        return pad("", replace(flags, zero=False)) if flags.width else ""
    digits = format(abs(value), _BASES[verb])
    if flags.precision is not None:
        allow_text(flags.precision)
        digits = digits.rjust(flags.precision, "0")
    elif flags.zero and not flags.minus and flags.width:
        allow_text(flags.width)
        digits = digits.rjust(flags.width - len(sign), "0")
    return pad(sign + _prefix(verb, digits, flags) + digits, replace(flags, zero=False))


def _prefix(verb: str, digits: str, flags: Flags) -> str:
    if verb == "O":
        return "0o"
    if not flags.sharp:
        return ""
    if verb == "o":
        return "" if digits.startswith("0") else "0"
    return {"b": "0b", "x": "0x", "X": "0X"}.get(verb, "")


def _float(value: float, verb: str, flags: Flags) -> str:
    precision = flags.precision
    if precision is not None:
        allow_text(precision)
    elif verb in "eEfF":
        precision = 6
    letter = {"v": "g", "F": "f"}.get(verb, verb)
    text = format_float(value, letter, precision)
    if flags.sharp and verb != "b" and value - value == 0:
        text = _with_point(text, letter, precision)
    if text[0] not in "+-":
        text = ("+" if flags.plus else " " if flags.space else "") + text
    elif text == "+Inf" and not flags.plus:
        text = (" " if flags.space else "+") + "Inf"
    return _padded_number(text, flags, finite=value - value == 0)


def _with_point(text: str, verb: str, precision: int | None) -> str:
    """Apply `#`, which keeps the point and, of `%g` and `%x`, the zeros behind it."""
    marks = "pP" if verb in "xX" else "eE"
    mark = next((at for at, char in enumerate(text) if char in marks), len(text))
    body, tail = text[:mark], text[mark:]
    digits = len(body.lstrip("-").replace(".", "").lstrip("0")) or 1
    if "." not in body:
        body += "."
    if verb in "gGx":
        body += "0" * max(0, (6 if precision is None else precision) - digits)
    return body + tail


def _padded_number(text: str, flags: Flags, *, finite: bool) -> str:
    if not (flags.zero and not flags.minus and flags.width and finite):
        return pad(text, replace(flags, zero=False))
    allow_text(flags.width)
    sign = text[0] if text[0] in "+- " else ""
    return sign + text[len(sign) :].rjust(flags.width - len(sign), "0")


def _collection(value: Any, verb: str, flags: Flags, depth: int) -> str:
    if depth > _DEEPEST:
        return "…"
    if flags.source:
        return _as_source(value, flags, depth)

    def shown(item: Any) -> str:
        return "<nil>" if item is None else format_value(item, verb, flags, depth + 1)

    if isinstance(value, list):
        return f"[{join_texts(map(shown, value), ' ')}]"
    return (
        "map[" + join_texts((f"{shown(key)}:{shown(value[key])}" for key in sort_by_bytes(value)), " ") + "]"
    )


def join_texts(texts: Iterable[str], between: str) -> str:
    """Join like `str.join`, but never to more than a text may hold."""
    parts: list[str] = []
    size = 0
    for text in texts:
        size += len(text) + len(between)
        allow_text(size)
        parts.append(text)
    return between.join(parts)


def structure(fields: Iterable[Any], verb: str, flags: Flags, depth: int = 0) -> str:
    """Write the fields of a structure; types of other rooms bring theirs as `go_fields`."""
    return "{" + join_texts((format_value(one, verb, flags, depth + 1) for one in fields), " ") + "}"


def _pointer(value: Any, depth: int) -> str:
    """Return the mark of a pointer; an address inside a list would be no use."""
    return "&" if depth == 0 and type_name(value).startswith("*") else ""


def _as_source(value: Any, flags: Flags, depth: int) -> str:
    def shown(item: Any) -> str:
        return "interface {}(nil)" if item is None else format_value(item, "v", flags, depth + 1)

    if isinstance(value, list):
        return f"[]interface {{}}{{{join_texts(map(shown, value), ', ')}}}"
    name = "map[string]string" if isinstance(value, Labels) else "map[string]interface {}"
    return (
        name
        + "{"
        + join_texts((f"{shown(key)}:{shown(value[key])}" for key in sort_by_bytes(value)), ", ")
        + "}"
    )


def sort_by_bytes(mapping: dict[str, Any]) -> list[str]:
    """Return keys in Go's order, that of their bytes."""
    return sorted(mapping, key=to_bytes)
