"""What the groups of an RE2 pattern capture, and templates that name groups as Go does.

>>> groups = captured("(?P<a>.)-(.+)", ["x-yz", "-"])
>>> groups
[{'0': 'x-yz', 'a': 'x', '1': 'x', '2': 'yz'}, None]
>>> Template("$2 ${a}b $ab $$").filled(groups[0])
'yz xb  $'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.lang.regex import anchored, check

Groups = dict[str, str]
"""By number and by name."""

_PIECE = re.compile(
    r"(?s)\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|(?P<named>\(\?P?<(?P<name>\w+)>)|\(\?|(?P<plain>\()"
)
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<bare>\w+))")


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

    return _PIECE.sub(rename, pattern), names


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
    for reference in _REFERENCE.finditer(text):
        yield text[at : reference.start()], None
        at = reference.end()
        if reference["dollar"]:
            yield "$", None
        else:
            yield "", reference["braced"] or reference["bare"]
    yield text[at:], None
