r"""Whether Go's regexp would take a pattern, and its complaint if not; RE2 decides, in Go's words.

>>> complaint("a(b"), complaint("a|b")
('error parsing regexp: missing closing ): `a(b`', '')
"""

from __future__ import annotations

import re

from lakerunner_query.lang import regex
from lakerunner_query.lang.promql.strings import is_utf8

_ANY_BYTE = re.compile(r"(?s)\\Q.*?(?:\\E|$)|\\(?P<char>.)")
"""RE2 knows `\\C`, Go does not."""
_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
}


def complaint(pattern: str) -> str:
    """What is wrong with a matcher's pattern, else empty."""
    if not is_utf8(pattern):
        return _worded("invalid UTF-8", pattern)
    if any(escape["char"] == "C" for escape in _ANY_BYTE.finditer(pattern)):
        return _worded("invalid escape sequence", r"\C")
    try:
        regex.check(pattern)
        regex.check(regex.anchored(pattern))  # an open `\Q` takes the end of the wrapping
    except regex.InvalidRegexError as error:
        return _reworded(str(error))
    return ""


def _reworded(message: str) -> str:
    """From `error parsing regexp: reason: part: `whole pattern``."""
    detail, _, whole = message.removeprefix("error parsing regexp: ").rpartition(": `")
    reason, has_part, part = detail.partition(": ")
    if reason == "trailing \\":
        return _worded("trailing backslash at end of expression", "")
    return _worded(_WORDS.get(reason, reason), part if has_part else whole.removesuffix("`"))


def _worded(reason: str, part: str) -> str:
    return f"error parsing regexp: {reason}: `{part}`"
