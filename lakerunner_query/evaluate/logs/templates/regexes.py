"""Regular expressions of templates, run by RE2 alone: linear in the text whatever the pattern.

Go and RE2 share their syntax; what differs is how a replacement names a group (`${1}` and `$name`, not `\\1`)
and how a bad pattern is worded.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.templates.limits import allow_text
from lakerunner_query.evaluate.logs.templates.values import TemplateError

_REFERENCE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z0-9_]+)\}|(?P<bare>[A-Za-z0-9_]+)|(?P<dollar>\$))")
_GROUP = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\]\\])*\]|\((?:\?P?<(?P<name>\w+)>|(?P<plain>(?!\?)))?",
    re.DOTALL,
)
_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "trailing \\": "trailing backslash at end of expression",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class PatternError(TemplateError):
    """The pattern is none, in the words of Go's regexp."""


def count(pattern: str, text: str) -> int:
    """Matches that do not overlap."""
    try:
        return int(pc.count_substring_regex(_scalar(text), pattern=_checked(pattern)).as_py())
    except pa.ArrowInvalid as error:
        raise _worded(pattern, error) from error


def replace_all(pattern: str, text: str, replacement: str) -> str:
    return _replaced(pattern, text, _rewritten(pattern, replacement))


def replace_all_literally(pattern: str, text: str, replacement: str) -> str:
    return _replaced(pattern, text, replacement.replace("\\", "\\\\"))


def _replaced(pattern: str, text: str, rewrite: str) -> str:
    if len(rewrite) > 16:
        allow_text(len(text) + (count(pattern, text) + 1) * len(rewrite))
    try:
        changed = pc.replace_substring_regex(_scalar(text), pattern=_checked(pattern), replacement=rewrite)
    except pa.ArrowInvalid as error:
        raise _worded(pattern, error) from error
    return str(changed.as_py())


def _scalar(text: str) -> pa.StringScalar:
    return pa.scalar(_valid(text), pa.string())


def _valid(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _checked(pattern: str) -> str:
    if len(pattern) > 10_000:
        raise TemplateError("error parsing regexp: expression too large")
    return _valid(pattern)


@lru_cache(maxsize=512)
def _rewritten(pattern: str, replacement: str) -> str:
    """Go's `$1`, `${name}` as RE2's `\\1`; a group that is not there is empty."""
    names, total = _groups(pattern)

    def reference(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        name = found["braced"] or found["bare"]
        number = int(name) if name.isdigit() and len(name) < 5 else names.get(name, -1)
        return f"\\{number}" if 0 <= number <= min(total, 9) else ""

    return _REFERENCE.sub(reference, replacement.replace("\\", "\\\\"))


def _groups(pattern: str) -> tuple[dict[str, int], int]:
    """The numbers of the named groups, and how many groups there are."""
    names: dict[str, int] = {}
    total = 0
    for found in _GROUP.finditer(pattern):
        if found["name"] is not None or found["plain"] is not None:
            total += 1
            if found["name"]:
                names[found["name"]] = total
    return names, total


def _worded(pattern: str, error: pa.ArrowInvalid) -> PatternError:
    said = str(error).removeprefix("Invalid regular expression: ")
    reason, _, rest = said.partition(": ")
    return PatternError(f"error parsing regexp: {_WORDS.get(reason, reason)}: `{rest or pattern}`")
