"""Regular expressions as RE2 sees them, and never Python's.

RE2 is linear in the line whatever the pattern, and it is the dialect of Loki and of DuckDB. Label regexes
are fully anchored and `.` matches a newline there (as Prometheus does); line regexes search, and do not.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
_PIECE = re.compile(r"(?s)(?P<named>\(\?<)|\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]")
_EMPTY = re.compile(r"\(\?[a-zA-Z-]*:\|*\)|\{0")


NO_TEXT = pa.scalar("", pa.string())
"""A scalar: arrays of Python's objects make Arrow import pandas, which takes a second."""


class InvalidRegexError(ValueError):
    """RE2 refuses the pattern; the message is RE2's."""


def check(pattern: str) -> None:
    """Raise unless RE2 compiles `pattern` as it stands (before anything is wrapped around it)."""
    try:
        pc.match_substring_regex(NO_TEXT, pattern)
    except pa.ArrowInvalid as error:
        detail = str(error).removeprefix("Invalid regular expression: ")
        raise InvalidRegexError(f"error parsing regexp: {detail}: `{pattern}`") from error


def anchored(pattern: str) -> str:
    return f"^(?s:{pattern})$"


def for_duckdb(pattern: str) -> str:
    """DuckDB's RE2 is older than Arrow's and Go's regexp and knows only `(?P<name>`.

    Its optimiser takes an empty group for the end of the text; an empty capture in front makes it keep away.

    >>> for_duckdb(r"(?<word>[(?<]+)\\(?<")
    '(?P<word>[(?<]+)\\\\(?<'
    """
    spelled = _PIECE.sub(lambda piece: "(?P<" if piece["named"] else piece[0], pattern)
    return f"(){spelled}" if _EMPTY.search(pattern) else spelled


def full_matches(pattern: str, values: list[str]) -> list[bool]:
    """Whether each value matches from its first to its last character."""
    found = pc.match_substring_regex(pa.array(values, pa.string()), anchored(pattern))
    return [bool(one) for one in found.to_pylist()]


def literal(pattern: str) -> str | None:
    """The text that a pattern without any special character stands for, else None."""
    return None if _META.search(pattern) else pattern


def alternation(pattern: str) -> tuple[str, ...] | None:
    """The branches of `a|b|c` when all are plain texts, else None.

    >>> alternation("api|web"), alternation("(api|web)"), alternation("api.*|web")
    (('api', 'web'), ('api', 'web'), None)
    """
    inner = re.fullmatch(r"\((?:\?:)?([^()]*)\)", pattern)
    branches = (inner[1] if inner else pattern).split("|")
    return tuple(dict.fromkeys(branches)) if all(literal(b) is not None for b in branches) else None
