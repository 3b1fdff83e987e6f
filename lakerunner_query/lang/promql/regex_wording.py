"""RE2's complaints about a pattern in the words of Go's regexp, which Prometheus passes on."""

from __future__ import annotations

from lakerunner_query.lang.regex import InvalidRegexError

_GO = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
_PREFIX = "error parsing regexp: "


def reworded(error: InvalidRegexError) -> str:
    """`error parsing regexp: missing closing ): `...``, with the part of the pattern that is wrong."""
    detail = str(error).removeprefix(_PREFIX)
    message, _, pattern = detail.rpartition(": `")
    reason, has_part, part = message.partition(": ")
    shown = part if has_part else pattern.removesuffix("`")
    return f"{_PREFIX}{_GO.get(reason, reason)}: `{shown}`"
