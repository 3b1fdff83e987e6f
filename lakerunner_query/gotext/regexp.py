r"""Regular expressions of templates, run by RE2 alone: linear in the text whatever the pattern.

Go and RE2 share their syntax; what differs is how a replacement names a group: `${1}` and `$name`, not `\1`.

>>> replace_all("(?P<key>\\w+)=(\\w+)", "a=b", "$2 is ${key}"), count("a|b", "abab")
('b is a', 4)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.gotext.limits import allow_text
from lakerunner_query.gotext.strconv import is_utf8
from lakerunner_query.gotext.values import TemplateError

# << Regular expressions as RE2 sees them, and never Python's.
# <<
# << RE2 is linear in the line whatever the pattern, and it is the dialect of Loki and of DuckDB. Label
# << regexes
# << are fully anchored and `.` matches a newline there (as Prometheus does); line regexes search, and do not.

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
_RE2_PIECE = re.compile(r"(?s)(?P<named>\(\?<)|\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]")
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
    spelled = _RE2_PIECE.sub(lambda piece: "(?P<" if piece["named"] else piece[0], pattern)
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


# << Whether Go's regexp would take a pattern, and its complaint if not; RE2 decides, in Go's words.
# <<
# << >>> complaint("a(b"), complaint("a|b")
# << ('error parsing regexp: missing closing ): `a(b`', '')

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
        check(pattern)
        check(anchored(pattern))  # an open `\Q` takes the end of the wrapping
    except InvalidRegexError as error:
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


# << The named groups of `| regexp`, of which each becomes a label.
# <<
# << >>> names(r"(?P<method>\w+) (\S+) (?<path>.+)")
# << ('method', 'path')

_GROUP_PIECE = re.compile(
    r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<(?P<name>\w+)>"
)


class InvalidCapturesError(ValueError):
    """The message says why."""


def names(pattern: str) -> tuple[str, ...]:
    return tuple(piece["name"] for piece in _GROUP_PIECE.finditer(pattern) if piece["name"] is not None)


def check_captures(pattern: str) -> None:
    """Raise unless the pattern compiles and names something, no name twice."""
    found = names(pattern)
    twice = next((name for at, name in enumerate(found) if name in found[:at]), None)
    if twice is not None:
        raise InvalidCapturesError(f"duplicate extracted label name '{twice}'")
    reason = complaint(pattern)
    if reason:
        raise InvalidCapturesError(reason)
    foreign = next((name for name in found if not name.isascii()), None)
    if foreign is not None:  # RE2 takes it, Go does not
        raise InvalidCapturesError(f"error parsing regexp: invalid named capture: `(?P<{foreign}>`")
    if not found:
        raise InvalidCapturesError("at least one named capture must be supplied")


# << What the groups of an RE2 pattern capture, and templates that name groups as Go does.
# <<
# << >>> groups = captured("(?P<a>.)-(.+)", ["x-yz", "-"])
# << >>> groups
# << [{'0': 'x-yz', 'a': 'x', '1': 'x', '2': 'yz'}, None]
# << >>> Template("$2 ${a}b $ab $$").filled(groups[0])
# << 'yz xb  $'

Groups = dict[str, str]
"""By number and by name."""

_EXPANSION_PIECE = re.compile(
    r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|(?P<named>\(\?P?<(?P<name>\w+)>)|\(\?|(?P<plain>\()"
)
_EXPANSION_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<bare>\w+))")


def captured(pattern: str, values: list[str]) -> list[Groups | None]:
    """Of each value that matches from its first to its last character; else None."""
    check(pattern)
    named, names = _all_named(pattern)
    found = pc.extract_regex(pa.array(values, pa.string()), anchored(f"(?P<g0>(?s:{named}))"))
    return [None if row is None else _by_name(row, names) for row in found.to_pylist()]


def _all_named(pattern: str) -> tuple[str, list[str | None]]:
    """Every group as `g1`, `g2`, …, and the names they had."""
    names: list[str | None] = []

    def rename(piece: re.Match[str]) -> str:
        if piece["named"] is None and piece["plain"] is None:
            return piece[0]
        names.append(piece["name"])
        return f"(?P<g{len(names)}>"

    return _EXPANSION_PIECE.sub(rename, pattern), names


def _by_name(row: dict[str, str | None], names: list[str | None]) -> Groups:
    groups = {"0": row["g0"] or ""}
    for number, name in enumerate(names, 1):
        value = row[f"g{number}"] or ""
        if name is not None:
            groups.setdefault(name, value)
        groups[str(number)] = value
    return groups


class Template:
    """`$1`, `${1}`, `$name` and `$$`; a name reaches as far as letters, digits and `_` do."""

    def __init__(self, text: str) -> None:
        self._parts = list(_parts(text))

    def filled(self, groups: Groups) -> str:
        """A group that there is none of, or that took no part in the match, is empty."""
        return "".join(text if name is None else groups.get(name, "") for text, name in self._parts)


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Literal texts and references, one after the other."""
    at = 0
    for reference in _EXPANSION_REFERENCE.finditer(text):
        yield text[at : reference.start()], None
        at = reference.end()
        if reference["dollar"]:
            yield "$", None
        else:
            yield "", reference["braced"] or reference["bare"]
    yield text[at:], None


_LONGEST = 10_000
_SHORT = 16
"""Replacements up to here make no text too large."""
_REFERENCE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z0-9_]+)\}|(?P<bare>[A-Za-z0-9_]+)|(?P<dollar>\$))")
_PIECE = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?[a-z]+:\]|[^\]\\])*\]"
    r"|(?P<open>\((?:\?P?<(?P<name>\w+)>|(?!\?)))",
    re.DOTALL,
)
"""What may hold a parenthesis that opens no group, and those that do open one."""
_MOST_GROUPS = 9
_AT_ONCE = 256 << 20
"""Characters that many texts may have together behind a replacement."""


def count(pattern: str, text: str) -> int:
    """Matches that do not overlap, empty ones among them.

    Told by how much longer the text gets when each match becomes one character instead of none: Arrow's own
    count steps through empty matches in another way than Go.
    """
    pattern = _checked(pattern)
    return len(_replaced(pattern, "x", text)) - len(_replaced(pattern, "", text))


def replace_all(pattern: str, text: str, replacement: str) -> str:
    """`$1`, `${1}`, `$name` and `${name}` stand for groups, `$$` for a dollar."""
    return _bounded(*_rewritten(_checked(pattern), replacement), text)


def replace_all_literally(pattern: str, text: str, replacement: str) -> str:
    return _bounded(_checked(pattern), replacement.replace("\\", "\\\\"), text)


def replace_all_in(texts: list[str], pattern: str, replacement: str) -> list[str] | None:
    """Of many texts at once; None where the replacement may make them much longer, or they are no UTF-8."""
    pattern, rewrite = _rewritten(_checked(pattern), replacement)
    if len(rewrite) > _SHORT or sum(map(len, texts)) * (len(rewrite) + 1) > _AT_ONCE:
        return None
    try:
        given = pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return None
    changed: list[str] = pc.replace_substring_regex(given, pattern=pattern, replacement=rewrite).to_pylist()
    return changed


def _bounded(pattern: str, rewrite: str, text: str) -> str:
    """What stands for a group is no longer than the text in all; the rest stands there once per match."""
    if len(rewrite) > _SHORT:
        allow_text(len(text) + count(pattern, text) * len(rewrite))
    changed = _replaced(pattern, rewrite, text)
    allow_text(len(changed))
    return changed


def _replaced(pattern: str, rewrite: str, text: str) -> str:
    return str(pc.replace_substring_regex(_scalar(text), pattern=pattern, replacement=rewrite).as_py())


def _scalar(text: str) -> pa.StringScalar:
    return pa.scalar(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


@lru_cache(maxsize=512)
def _checked(pattern: str) -> str:
    """The pattern, which is one: replacing puts it in parentheses of its own before it is compiled."""
    reason = complaint(pattern) if len(pattern) <= _LONGEST else "error parsing regexp: expression too large"
    if reason:
        raise TemplateError(reason)
    return pattern


@lru_cache(maxsize=512)
def _rewritten(pattern: str, replacement: str) -> tuple[str, str]:
    r"""The pattern, and what RE2 is to put in place of a match; a group that is not there is empty.

    RE2 knows `\1` to `\9`: where a later group is named, those that are not stop to count.
    """
    names, total = _groups(pattern)
    parts: list[str | int] = []
    at = 0
    for found in _REFERENCE.finditer(replacement):
        parts += (replacement[at : found.start()], _reference(found, names, total))
        at = found.end()
    parts.append(replacement[at:])
    kept = sorted({part for part in parts if isinstance(part, int) and part})[:_MOST_GROUPS]
    if kept and kept[-1] > _MOST_GROUPS:
        pattern = _only_groups(pattern, kept)
    else:
        kept = list(range(1, _MOST_GROUPS + 1))
    places = {0: 0} | {number: place for place, number in enumerate(kept, start=1)}
    return pattern, "".join(
        part.replace("\\", "\\\\") if isinstance(part, str) else f"\\{places[part]}"
        for part in parts
        if isinstance(part, str) or part in places
    )


def _reference(found: re.Match[str], names: dict[str, int], total: int) -> str | int:
    if found["dollar"]:
        return "$"
    name = found["braced"] or found["bare"]
    number = int(name) if name.isdigit() and len(name) < 5 else names.get(name, -1)
    return number if 0 <= number <= total else ""


def _groups(pattern: str) -> tuple[dict[str, int], int]:
    """The numbers of the named groups, and how many groups there are."""
    opened = [found["name"] for found in _PIECE.finditer(pattern) if found["open"]]
    return {name: number for number, name in enumerate(opened, start=1) if name}, len(opened)


def _only_groups(pattern: str, kept: list[int]) -> str:
    """The pattern with all other groups made such that do not capture."""
    number = 0

    def piece(found: re.Match[str]) -> str:
        nonlocal number
        number += bool(found["open"])
        return found[0] if not found["open"] or number in kept else "(?:"

    return _PIECE.sub(piece, pattern)
