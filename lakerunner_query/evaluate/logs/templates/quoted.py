r"""Texts quoted in Go's error messages about times and numbers.

>>> print(quoted_as_time('a"b\u00e9'))
"a\"b\xc3\xa9"
"""

from __future__ import annotations

from lakerunner_query.evaluate.logs.templates.values import to_bytes


def quoted_as_time(text: str) -> str:
    """Go's package time escapes every byte that is not plain ASCII."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if " " <= char < "\x80":
        return char
    return "".join(f"\\x{byte:02x}" for byte in to_bytes(char))
