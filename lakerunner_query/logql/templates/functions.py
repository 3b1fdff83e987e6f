"""Functions that a template may call: Go's own, and Loki's on texts and numbers.

Whole numbers wrap in 64 bits, floats are added and multiplied as decimals. A function knows the Go types of
its parameters, because arguments are checked, and constants read, by them.

>>> div(-7, 2), mod(-7, 2), decimal_of([0.1, 0.2], operator.add), round_places(123.555555, 3)
(-3, -1, 0.3, 123.556)
>>> trunc(-5, "hello world"), substr(6, 11, "hello world"), align_left(5, "hi"), title("a bc-d")
('world', 'world', 'hi   ', 'A Bc-D')
"""

from __future__ import annotations

import base64
import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import reduce
from typing import Any, NoReturn
from urllib.parse import quote_plus

from lakerunner_query.gotext.conversions import to_float, to_int
from lakerunner_query.gotext.durations import parse_size
from lakerunner_query.gotext.limits import allow_text
from lakerunner_query.gotext.numbers import ConversionError
from lakerunner_query.gotext.regexp import count, replace_all, replace_all_literally
from lakerunner_query.gotext.strconv import quote
from lakerunner_query.gotext.template.builtins import BUILTINS
from lakerunner_query.gotext.values import (
    ANY,
    FLOAT,
    INT,
    STRING,
    Function,
    Int64,
    Library,
    TemplateError,
    from_bytes,
    function,
    is_true,
    to_bytes,
    wrap_int64,
)
from lakerunner_query.logql.templates.time_functions import METHODS, TIME

Operation = Callable[[Decimal, Decimal], Decimal]
_EXACT = Context(prec=2000)
"""Context without rounding: doubles have at most 767 digits, and a call has few arguments."""
_QUOTIENT = Decimal(1).scaleb(-16)
"""Sixteen places behind the point, those of quotients."""


def _byte_size(text: str) -> float:
    try:
        return parse_size(text, quote)
    except ConversionError as error:
        raise TemplateError(str(error)) from error


def whole(values: Sequence[Any], operation: Callable[[int, int], int]) -> Int64:
    return Int64(
        wrap_int64(reduce(lambda left, right: wrap_int64(operation(left, right)), map(to_int, values)))
    )


def div(left: Any, right: Any) -> Int64:
    """Divide, rounding toward zero."""
    dividend, divisor = to_int(left), to_int(right)
    if divisor == 0:
        raise TemplateError("runtime error: integer divide by zero")
    quotient = abs(dividend) // abs(divisor)
    return Int64(wrap_int64(quotient if (dividend < 0) == (divisor < 0) else -quotient))


def mod(left: Any, right: Any) -> Int64:
    """Return the remainder with the sign of the dividend."""
    dividend, divisor = to_int(left), to_int(right)
    if divisor == 0:
        raise TemplateError("runtime error: integer divide by zero")
    rest = abs(dividend) % abs(divisor)
    return Int64(-rest if dividend < 0 else rest)


def decimal_of(values: Sequence[Any], operation: Operation) -> float:
    with localcontext(_EXACT):
        # a decimal zero has no sign
        return float(reduce(operation, map(_decimal, values))) + 0.0


def _decimal(value: Any) -> Decimal:
    number = to_float(value)
    if not math.isfinite(number):
        shown = "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
        raise TemplateError(f"Cannot create a Decimal from {shown}")
    return Decimal(repr(number))


def _divide(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise TemplateError("decimal division by 0")
    return (left / right).quantize(_QUOTIENT, ROUND_HALF_UP)


def round_places(value: Any, places: int, *threshold: float) -> float:
    power = math.pow(10.0, min(max(places, -400), 308)) if places <= 308 else math.inf
    digit = power * to_float(value)
    if not math.isfinite(digit) or power == 0:
        return digit / power if power else math.nan
    above = math.modf(digit)[0] >= (threshold[0] if threshold else 0.5)
    return (math.ceil(digit) if above else math.floor(digit)) / power


def _round_by(step: Callable[[float], int]) -> Callable[[Any], float]:
    def stepped(value: Any) -> float:
        number = to_float(value)
        return math.copysign(float(step(number)), number) if math.isfinite(number) else number

    return stepped


def _extreme(values: Sequence[Any], choose: Callable[[float, float], float]) -> float:
    numbers = [to_float(value) for value in values]
    return math.nan if any(map(math.isnan, numbers)) else reduce(choose, numbers)


MATH: tuple[Function, ...] = (
    function("add", lambda *values: whole((0, *values), operator.add), rest=ANY),
    function("sub", lambda left, right: whole((left, right), operator.sub), ANY, ANY),
    function("mul", lambda *values: whole(values, operator.mul), ANY, rest=ANY),
    function("div", div, ANY, ANY),
    function("mod", mod, ANY, ANY),
    function("addf", lambda *values: decimal_of((0.0, *values), operator.add), rest=ANY),
    function("subf", lambda *values: decimal_of(values, operator.sub), ANY, rest=ANY),
    function("mulf", lambda *values: decimal_of(values, operator.mul), ANY, rest=ANY),
    function("divf", lambda *values: decimal_of(values, _divide), ANY, rest=ANY),
    function("max", lambda *values: Int64(max(map(to_int, values))), ANY, rest=ANY),
    function("min", lambda *values: Int64(min(map(to_int, values))), ANY, rest=ANY),
    function("maxf", lambda *values: _extreme(values, max), ANY, rest=ANY),
    function("minf", lambda *values: _extreme(values, min), ANY, rest=ANY),
    function("ceil", _round_by(math.ceil), ANY),
    function("floor", _round_by(math.floor), ANY),
    function("round", round_places, ANY, INT, rest=FLOAT),
    function("int", to_int, ANY),
    function("float64", to_float, ANY),
    function("bytes", _byte_size, STRING),
)


_ALPHABET = re.compile(rb"[A-Za-z0-9+/]*")


def b64dec(text: str) -> str:
    """Decode base64, with padding or without; a fault of the text is the result, not an error.

    >>> b64dec("aGk="), b64dec("aGk"), b64dec("a!k=")
    ('hi', 'hi', 'illegal base64 data at input byte 1')
    """
    raw = to_bytes(text)
    bare = raw.translate(None, b"\r\n")
    fault = _fault(bare)
    if fault is not None and not (_ALPHABET.fullmatch(bare) and len(bare) % 4 != 1):
        return f"illegal base64 data at input byte {_with_breaks(raw, fault)}"
    return from_bytes(base64.b64decode(bare + b"=" * (-len(bare) % 4)))


def _fault(bare: bytes) -> int | None:
    """Return the first byte that is not padded base64, None if there is none."""
    letters = _ALPHABET.match(bare)
    end = letters.end() if letters else 0
    whole = end - end % 4
    if end == len(bare):
        return None if end == whole else whole
    padding = bare[end : end + 2]
    if padding[:1] != b"=" or end - whole < 2:
        return end
    if end - whole == 2 and padding != b"==":
        return len(bare) if end + 1 == len(bare) else end
    closed = whole + 4
    return closed if closed < len(bare) else None


def _with_breaks(raw: bytes, at: int) -> int:
    """Return the place in the text with its line breaks, which do not count."""
    seen = 0
    for place, byte in enumerate(raw):
        if byte in b"\r\n":
            continue
        if seen == at:
            return place
        seen += 1
    return len(raw)


_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(char.lower()[0] for char in text)


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def _upper(char: str) -> str:
    """Change a letter if one letter stays one letter."""
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
    """Cut to the first characters, for a negative count to the last."""
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
    return given[0] if given and is_true(given[0]) else fallback


def from_json(text: str) -> Any:
    """Parse JSON; an invalid text is nil."""
    try:
        value = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return _without_halves(value) if _SURROGATE.search(text) else value


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_LONE = re.compile(r"[\ud800-\udfff]")


def _without_halves(value: Any) -> Any:
    """Replace halves of characters and bytes outside UTF-8 by U+FFFD."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(item) for key, item in value.items()}
    return list(map(_without_halves, value)) if isinstance(value, list) else value


def _number(digits: str) -> float | None:
    """Convert a number; one that is too large for a double is nil."""
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
    Function("__line__", lambda row: row.line, takes_row=True),
)


FUNCTIONS: dict[str, Function] = {f.name: f for f in (*BUILTINS, *TEXT, *MATH, *TIME)}
LIBRARY = Library(FUNCTIONS, METHODS)
"""Functions and methods of Loki's templates."""
