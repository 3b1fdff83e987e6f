"""Numbers in the text of a query, and the durations and sizes that begin with one.

`5m30s` is one duration, `5MB` one size, `5mb` the duration `5m` and a word. What is no number in Go is
refused in the words of Go's scanner.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lakerunner_query.gotext.durations import InvalidLiteralError, byte_count, nanoseconds
from lakerunner_query.lang.logql.tokens import BYTES, DURATION, NUMBER

_NUMBER = re.compile(
    r"0(?P<base>[xX])(?P<whole>[0-9a-fA-F_]*)(?P<point>\.[0-9a-fA-F_]*)?(?P<power>[pP][+-]?(?P<digits>[0-9_]*))?"
    r"|(?:0(?P<base_>[bBoO]))?(?P<whole_>[0-9_]*)(?P<point_>\.[0-9_]*)?(?P<power_>[eEpP][+-]?(?P<digits_>[0-9_]*))?"
)
_NAMES = {"x": "hexadecimal literal", "o": "octal literal", "b": "binary literal", "": "decimal literal"}
_LOOSE = re.compile(r"(?:^|[^0-9a-fA-FxXoObB_])_|__|_(?:$|[^0-9a-fA-F_])")
_OF_DURATION = re.compile(r"[0-9.nuµμmshdwy]*")
_OF_SIZE = re.compile(r"[0-9.BikKMGTPE]*")


class MalformedNumberError(ValueError):
    """The message is the one of Go's scanner."""


def number_token(text: str, at: int) -> tuple[str, int]:
    """The kind of what begins with a digit, or with a point in front of one, and where it ends."""
    found = _NUMBER.match(text, at)
    if found is None:
        raise MalformedNumberError("decimal literal has no digits")
    _check(found)
    end = found.end()
    if text[end : end + 1] in _UNIT_STARTS:
        for kind, letters, read in _MEASURES:
            longer = _end(letters, text, end)
            if longer > end and _reads(read, text[at:longer]):
                return kind, longer
    return NUMBER, end


_MEASURES: tuple[tuple[str, re.Pattern[str], Callable[[str], int]], ...] = (
    (DURATION, _OF_DURATION, nanoseconds),
    (BYTES, _OF_SIZE, byte_count),
)
_UNIT_STARTS = frozenset("nuµμmshdwyBikKMGTPE.")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _reads(read: Callable[[str], int], text: str) -> bool:
    try:
        read(text)
    except InvalidLiteralError:
        return False
    return True


def _check(found: re.Match[str]) -> None:
    part = {name.rstrip("_"): value for name, value in found.groupdict().items() if value is not None}
    base, point, power = part.get("base", "").lower(), part.get("point"), part.get("power", "")
    whole = part["whole"]
    if base in {"o", "b"} and point is not None:
        raise MalformedNumberError(f"invalid radix point in {_NAMES[base]}")
    if not (whole + (point or "")).strip("._"):
        raise MalformedNumberError(f"{_NAMES[base]} has no digits")
    if power and (power[0] in "pP") != (base == "x"):
        kind = "hexadecimal" if power[0] in "pP" else "decimal"
        raise MalformedNumberError(f"{power[0]!r} exponent requires {kind} mantissa")
    if power and power[0] in "eE" and base:
        raise MalformedNumberError(f"{power[0]!r} exponent requires decimal mantissa")
    if power and not part["digits"].strip("_"):
        raise MalformedNumberError("exponent has no digits")
    if base == "x" and point is not None and not power:
        raise MalformedNumberError("hexadecimal mantissa requires a 'p' exponent")
    if point is None and not power:
        _check_digits(base, whole)
    if _LOOSE.search(found[0]):
        raise MalformedNumberError("'_' must separate successive digits")


def _check_digits(base: str, whole: str) -> None:
    """An integer that begins with 0 is octal, whatever is made of it afterwards."""
    allowed = {"b": "01", "o": "01234567", "x": ""}.get(base, "01234567" if whole[0] == "0" else "")
    wrong = next((digit for digit in whole if allowed and digit not in allowed + "_"), None)
    if wrong is not None:
        raise MalformedNumberError(f"invalid digit {wrong!r} in {_NAMES[base or 'o']}")
