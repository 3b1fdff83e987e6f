"""Sizes as people write them: `3 kB`, `1.5MiB`, `1,024`.

>>> parsed_bytes("3 kB"), parsed_bytes("1.5MiB"), parsed_bytes("1,024")
(3000.0, 1572864.0, 1024.0)
"""

from __future__ import annotations

import re

from lakerunner_query.evaluate.logs.templates.values import TemplateError
from lakerunner_query.lang.gotemplate.numbers import floating
from lakerunner_query.lang.gotemplate.quoting import quote

_NUMBER = re.compile(r"[0-9.,]*")
_SIZES = {"": 1, "b": 1} | {
    name: base**power
    for base, middle in ((1000, ""), (1024, "i"))
    for power, letter in enumerate("kmgtpe", start=1)
    for name in ((f"{letter}{middle}b", f"{letter}{middle}"))
}


def parsed_bytes(text: str) -> float:
    found = _NUMBER.match(text)
    digits = (found[0] if found else "").replace(",", "")
    number = floating(digits)
    if number is None:
        raise TemplateError(f"strconv.ParseFloat: parsing {quote(digits)}: invalid syntax")
    unit = text[found.end() if found else 0 :].strip().lower()
    if unit not in _SIZES:
        raise TemplateError(f"unhandled size name: {unit}")
    size = number * _SIZES[unit]
    if size >= 2.0**64:
        raise TemplateError(f"too large: {text}")
    return float(int(size))
