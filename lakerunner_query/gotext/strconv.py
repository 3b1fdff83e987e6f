r"""Go's string literals for templates: escapes in and out, bytes that are no UTF-8 kept as surrogates.

A Go string is a run of bytes. Here it is a `str` in which a byte that is no part of valid UTF-8 stands as
the surrogate that `surrogateescape` gives it, so that `"\xff"` survives until the text is written out.

>>> unquote(r'"a\tb\u00e9\x41"'), quote('tab\there "x" \x07')
('a\tbéA', '"tab\\there \\"x\\" \\a"')
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal

import numpy as np

# << Numbers, texts and label sets as Go prints them: they are in messages and in label values.
# <<
# << >>> general(1e21), general(0.5), general(float("inf")), plain(1e21), quoted('a"b')
# << ('1e+21', '0.5', '+Inf', '1000000000000000000000', '"a\\"b"')

_LONE_BYTES = (0xDC80, 0xDCFF)
"""How Python spells bytes that are no UTF-8, as the parser hands them on."""
_SHORT = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v", "\\": "\\", '"': '"'}


def general(value: float) -> str:
    """`%g`: the shortest digits, an exponent below 1e-4 and from 1e6, as Go has it."""
    if not math.isfinite(value):
        return _special(value)
    digits, exponent = _shortest_digits(value)
    if value != 0 and not -4 <= exponent < 6:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        sign = "-" if value < 0 else ""
        return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return plain(value)


def plain(value: float) -> str:
    """`%f` with the shortest digits: never an exponent."""
    return str(np.format_float_positional(value, trim="-")) if math.isfinite(value) else _special(value)


def quoted(text: str) -> str:
    """`%q`."""
    return '"' + "".join(_character(one) for one in text) + '"'


def label_set(labels: Iterable[tuple[str, str]]) -> str:
    """`{a="b", c="d"}`, as error messages name series; names outside of the old alphabet are quoted."""
    return "{" + ", ".join(f"{_name(name)}={quoted(value)}" for name, value in labels) + "}"


def _name(name: str) -> str:
    is_legacy = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if is_legacy else quoted(name)


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _shortest_digits(value: float) -> tuple[str, int]:
    mantissa, exponent = np.format_float_scientific(abs(value), trim="-").split("e")
    return mantissa.replace(".", ""), int(exponent)


def _character(one: str) -> str:
    if one in _SHORT:
        return f"\\{_SHORT[one]}"
    if one.isprintable():
        return one
    code = ord(one)
    if code < 0x80 or _LONE_BYTES[0] <= code <= _LONE_BYTES[1]:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# << PromQL's string literals, and Go's quoting of strings for output.
# <<
# << Single and double quotes take Go's escapes, back quotes take none. An escape such as `\xff` can
# << spell bytes
# << that are not UTF-8; as everywhere in Python such a byte becomes one lone surrogate
# << (`surrogateescape`), so
# << that values stay comparable and print as `\xff` again.
# <<
# << >>> unquote(r"'it\'s \u00e9 \x41'"), unquote(r'`a\tb`'), quote(unquote(r'"\xff"'))
# << ("it's é A", 'a\\tb', '"\\xff"')

_PROMQL_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39}
_PROMQL_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|([0-7]{3})|x([0-9a-fA-F]{2})|(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})))"
)
_PROMQL_NAMED = {chr(code): f"\\{letter}" for letter, code in _PROMQL_SIMPLE.items() if letter != "'"}


def unquote_promql(literal: str) -> str:
    """The value of a literal the lexer has found complete and sound, quotes included."""
    body = literal[1:-1]
    if literal[0] == "`" or "\\" not in body:
        return body
    raw = bytearray()
    at = 0
    for escape in _PROMQL_ESCAPE.finditer(body):
        raw += body[at : escape.start()].encode()
        raw += _value(escape)
        at = escape.end()
    raw += body[at:].encode()
    return raw.decode(errors="surrogateescape")


def _value(escape: re.Match[str]) -> bytes:
    simple, octal, byte, short, long = escape.groups()
    if simple:
        return bytes([_PROMQL_SIMPLE[simple]])
    if octal or byte:
        return bytes([int(octal, 8) if octal else int(byte, 16)])
    return chr(int(short or long, 16)).encode()


def quote_promql(value: str) -> str:
    """In double quotes, everything escaped that would not print or could not be read again."""
    return '"' + "".join(map(_promql_escaped, value)).replace("\ufffd", r"\ufffd") + '"'


def quote_char(char: str) -> str:
    """One character in single quotes; the end of the text, and what is not UTF-8, show as U+FFFD."""
    if char == "'":
        return r"'\''"
    if not char or not is_utf8(char):
        return "'\ufffd'"
    return f"'{char}'" if char == '"' else f"'{_promql_escaped(char)}'"


def _promql_escaped(char: str) -> str:
    if char in _PROMQL_NAMED:
        return _PROMQL_NAMED[char]
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


# << Numbers as Go reads and writes them.
# <<
# << >>> number("0x1F"), number("1_000"), number("010"), number(".5"), text(1e22)
# << (31.0, 1000.0, 8.0, 0.5, '10000000000000000000000')

_HEX = re.compile(r"0[xX]((?:_?[0-9a-fA-F])+)")
_OCTAL = re.compile(r"0((?:_?[0-7])+)")
_DECIMAL = re.compile(r"(0|[1-9](?:_?[0-9])*)")
_DIGITS = r"[0-9](?:_?[0-9])*"
_FLOAT = re.compile(
    rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?|[iI][nN][fF]|[nN][aA][nN]"
)
_INT64 = 2**63


class InvalidNumberError(ValueError):
    """The message is Go's."""


def number(literal: str) -> float:
    """The value of a literal as the lexer found it, without a sign."""
    whole = _integer(literal)
    if whole is not None and whole < _INT64:
        return float(whole)
    if not _FLOAT.fullmatch(literal):
        raise InvalidNumberError(f"strconv.ParseFloat: parsing {quote_promql(literal)}: invalid syntax")
    value = float(literal)
    if math.isinf(value) and literal.lower() != "inf":
        raise InvalidNumberError(f"strconv.ParseFloat: parsing {quote_promql(literal)}: value out of range")
    return value


def _integer(literal: str) -> int | None:
    """None, too, if it is far beyond 64 bits."""
    for pattern, base in ((_HEX, 16), (_OCTAL, 8), (_DECIMAL, 10)):
        if found := pattern.fullmatch(literal):
            digits = found[1].replace("_", "").lstrip("0")
            return int(digits or "0", base) if len(digits) <= 64 else None
    return None


def text(value: float) -> str:
    """As short as exact, never with an exponent."""
    return special(value) or _plain_number(value)


def general_text(value: float) -> str:
    """As short as exact, with an exponent below 1e-4 and from 1e6."""
    if special(value) or value == 0 or 1e-4 <= abs(value) < 1e6:
        return text(value)
    mantissa, exponent = f"{Decimal(repr(value)).normalize():e}".split("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:]:0>2}"


def special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    return ("+Inf" if value > 0 else "-Inf") if math.isinf(value) else None


def _plain_number(value: float) -> str:
    shown = f"{Decimal(repr(value)):f}"
    return shown.removesuffix(".0")


# << Go's string literals, as LogQL has them.
# <<
# << Double quotes take Go's escapes (`\n`, `\x41`, `\101`, `\u00e9`, ...), back quotes take nothing.
# << Byte escapes
# << can spell invalid UTF-8; that is an error here because a log line or label never holds it.
# <<
# << >>> unquote(r'"a\tb\u00e9\x41"'), unquote(r'`a\tb`')
# << ('a\tbéA', 'a\\tb')

SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
_PIECE = re.compile(
    r"""\\(?P<simple>[abfnrtv\\"])|\\(?P<octal>[0-7]{3})|\\x(?P<byte>[0-9a-fA-F]{2})"""
    r"""|\\u(?P<short>[0-9a-fA-F]{4})|\\U(?P<long>[0-9a-fA-F]{8})|(?P<plain>[^\\]+)"""
)
_LOGQL_PLAIN = re.compile(r'^[^"\\\x00-\x1f\x7f\ufffd]*$')


class InvalidStringError(ValueError):
    """The literal is not one Go would accept."""


def unquote_logql(literal: str) -> str:
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
        raw += _logql_bytes(piece)
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


def quote_logql(value: str) -> str:
    """The canonical literal: double quotes, escapes only where needed."""
    if _LOGQL_PLAIN.fullmatch(value):
        return f'"{value}"'
    return '"' + "".join(map(_escape, value)) + '"'


def _logql_bytes(piece: re.Match[str]) -> bytes:
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


# << Floats as Go's strconv writes them.
# <<
# << >>> spell(3000000.0, "g", None), spell(0.1, "f", None), spell(1.5, "e", 2), spell(1.5, "x", None)
# << ('3e+06', '0.1', '1.50e+00', '0x1.8p+00')

_MANTISSA_BITS = 52
_LEAST_POWER = -1074
_PLAIN_BELOW = 6
"""Powers of ten at and above are written with an exponent."""
VERBS = frozenset("beEfFgGxX")


def spell(value: float, verb: str, precision: int | None) -> str:
    """Without precision: as few digits as tell the number from its neighbours."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if verb in "xX":
        text = sign + _hexadecimal(abs(value), precision)
        return text.upper() if verb == "X" else text
    if verb == "b":
        return sign + _binary(abs(value))
    if precision is not None:
        return format(value, f".{precision}{verb}")
    digits, point = _shortest(abs(value))
    plain = verb in "fF" or (verb in "gG" and -4 <= point - 1 < _PLAIN_BELOW)
    mark = "E" if verb in "EG" else "e"
    return sign + (_plain(digits, point) if plain else _scientific(digits, point - 1, mark))


def _shortest(value: float) -> tuple[str, int]:
    """Digits without trailing zeros, and how many of them stand before the point."""
    if value == 0:
        return "0", 1
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    return text.rstrip("0"), len(text) + int(exponent)


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits if digits != "0" else "0"
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def _scientific(digits: str, exponent: int, mark: str) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}{mark}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _hexadecimal(value: float, precision: int | None) -> str:
    fraction, exponent = math.frexp(value)
    mantissa = int(fraction * (1 << (_MANTISSA_BITS + 1)))
    exponent -= 1 if value else 0
    bits = _MANTISSA_BITS
    if precision is not None and precision * 4 < bits:
        mantissa, bits = _rounded(mantissa, bits - precision * 4), precision * 4
        if mantissa >> bits > 1:
            mantissa, exponent = mantissa >> 1, exponent + 1
    nibbles = (bits + 3) // 4
    digits = f"{(mantissa & ((1 << bits) - 1)) << (nibbles * 4 - bits):0{nibbles}x}" if nibbles else ""
    digits = digits.rstrip("0") if precision is None else digits.ljust(precision, "0")
    mark = "-" if exponent < 0 else "+"
    return f"0x{mantissa >> bits}{'.' if digits else ''}{digits}p{mark}{abs(exponent):02d}"


def _rounded(mantissa: int, dropped: int) -> int:
    """Half to even."""
    kept, rest, half = mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1 << (dropped - 1)
    return kept + (rest > half or (rest == half and kept & 1 == 1))


def _binary(value: float) -> str:
    """Mantissa and power of two; numbers too small to be normal share the least power."""
    fraction, exponent = math.frexp(value)
    mantissa, exponent = int(fraction * (1 << (_MANTISSA_BITS + 1))), exponent - _MANTISSA_BITS - 1
    if value == 0 or exponent < _LEAST_POWER:
        mantissa, exponent = mantissa >> max(0, _LEAST_POWER - exponent), _LEAST_POWER
    return f"{mantissa}p{'-' if exponent < 0 else '+'}{abs(exponent)}"


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
