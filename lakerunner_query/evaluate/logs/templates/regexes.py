r"""Regular expressions of templates, run by RE2 alone: linear in the text whatever the pattern.

Go and RE2 share their syntax; what differs is how a replacement names a group: `${1}` and `$name`, not `\1`.

>>> replace_all("(?P<key>\\w+)=(\\w+)", "a=b", "$2 is ${key}"), count("a|b", "abab")
('b is a', 4)
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.templates.limits import allow_text
from lakerunner_query.evaluate.logs.templates.values import TemplateError
from lakerunner_query.lang.promql.go_regex import complaint

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
