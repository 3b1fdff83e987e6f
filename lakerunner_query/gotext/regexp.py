"""Regular expressions, run by RE2 alone: linear in the text whatever the pattern.

Go, Loki, Prometheus and DuckDB share RE2's syntax. Label regexes are fully anchored and `.` matches a newline
there; line regexes search, and do not. Replacements name groups as Go does: `${1}` and `$name`, not `\\1`.

>>> replace_all("(?P<key>\\w+)=(\\w+)", "a=b", "$2 is ${key}"), count("a|b", "abab")
('b is a', 4)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.gotext.limits import LabelBudget, allow_text
from lakerunner_query.gotext.strconv import is_utf8
from lakerunner_query.gotext.values import TemplateError

_TOKEN = re.compile(
    r"(?P<quoted>\\Q.*?(?:\\E|\Z))"
    r"|(?P<escape>\\(?:[pPx]\{[^}]{0,64}+\}|[pP].|.))"
    r"|(?P<set>\[\^?+\]?+(?:\[:\^?+\w++:\]|\\.|[^\]\\])*+(?:\]|(?P<unclosed>\Z)))"
    r"|(?P<group>\((?:\?P?<(?P<name>\w++)>|(?P<special>\?)(?:(?P<flags>[a-zA-Z-]*+)(?P<behind>[:)]))?)?)"
    r"|(?P<repeat>[*+?]|\{(?P<least>0|[1-9][0-9]*+)(?:,(?:0|[1-9][0-9]*+)?)?\})"
    r"|(?P<char>.)",
    re.DOTALL,
)
_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
_EMPTY = re.compile(r"\(\?[a-zA-Z-]*:\|*\)|\{0")
_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
}
"""RE2's complaints in Go's words."""
_COUNT = re.compile(r"[0-9]++")
_MOST_REPEATS = 1_000
"""Repetitions that all counts of a pattern may ask for together, which is what RE2 allows one of them."""
NO_TEXT = pa.scalar("", pa.string())
"""A scalar: arrays of Python's objects make Arrow import pandas, which takes a second."""


class InvalidRegexError(ValueError):
    """RE2 refuses the pattern; the message is RE2's."""


def tokens(pattern: str) -> Iterator[re.Match[str]]:
    """Take a pattern apart; `lastgroup` is the kind of a token.

    Kinds are quoted, escape, set, group (the opening of one), repeat and char. Linear in the pattern, also
    in one that RE2 refuses; there an unclosed set reaches to the end.

    >>> [(token.lastgroup, token[0]) for token in tokens(r"(?<a>[)]+\\()")]
    [('group', '(?<a>'), ('set', '[)]'), ('repeat', '+'), ('escape', '\\\\('), ('char', ')')]
    """
    return _TOKEN.finditer(pattern)


def opens_capture(token: re.Match[str]) -> bool:
    """Tell if the token opens a group that captures."""
    return token.lastgroup == "group" and token["special"] is None


def check(pattern: str) -> None:
    """Raise unless RE2 compiles `pattern` as it stands (before anything is wrapped around it).

    A pattern that is repeated very often is refused, too: RE2 has a state per repetition, and visits them all
    for each character.
    """
    repeats = 0
    for found in (token[0] for token in tokens(pattern) if token["repeat"]):
        count = max(map(_read_count, _COUNT.findall(found)), default=0)
        if count > _MOST_REPEATS:
            raise InvalidRegexError(f"error parsing regexp: invalid repeat count: `{found}`")
        repeats += count
    if repeats > _MOST_REPEATS:
        raise InvalidRegexError(f"error parsing regexp: expression too large: `{pattern}`")
    try:
        pc.match_substring_regex(NO_TEXT, pattern)
    except pa.ArrowInvalid as error:
        detail = str(error).removeprefix("Invalid regular expression: ")
        raise InvalidRegexError(f"error parsing regexp: {detail}: `{pattern}`") from error


def _read_count(digits: str) -> int:
    return int(digits) if len(digits) <= 4 else _MOST_REPEATS + 1


def anchor(pattern: str) -> str:
    return f"^(?s:{pattern})$"


def for_duckdb(pattern: str) -> str:
    """Spell a pattern for DuckDB, whose RE2 is older than Arrow's and knows only `(?P<name>`.

    Its optimiser takes an empty group for the end of the text; an empty capture in front makes it keep away.

    >>> for_duckdb(r"(?<word>[(?<]+)\\(?<")
    '(?P<word>[(?<]+)\\\\(?<'
    """
    spelled = "".join(f"(?P<{token['name']}>" if token["name"] else token[0] for token in tokens(pattern))
    return f"(){spelled}" if _EMPTY.search(pattern) else spelled


def full_matches(pattern: str, values: list[str]) -> list[bool]:
    """Tell of each value if it matches from its first to its last character."""
    found = pc.match_substring_regex(pa.array(values, pa.string()), anchor(pattern))
    return [bool(one) for one in found.to_pylist()]


def literal(pattern: str) -> str | None:
    """Return the text that a pattern without any special character stands for, else None."""
    return None if _META.search(pattern) else pattern


def alternation(pattern: str) -> tuple[str, ...] | None:
    """Return the branches of `a|b|c` when all are plain texts, else None.

    >>> alternation("api|web"), alternation("(api|web)"), alternation("api.*|web")
    (('api', 'web'), ('api', 'web'), None)
    """
    inner = re.fullmatch(r"\((?:\?:)?([^()]*)\)", pattern)
    branches = (inner[1] if inner else pattern).split("|")
    return tuple(dict.fromkeys(branches)) if all(literal(b) is not None for b in branches) else None


def complaint(pattern: str) -> str:
    """Return what Go's regexp would say against a matcher's pattern, else an empty text.

    >>> complaint("a(b"), complaint("a|b")
    ('error parsing regexp: missing closing ): `a(b`', '')
    """
    if not is_utf8(pattern):
        return _message("invalid UTF-8", pattern)
    if any(token["escape"] == r"\C" for token in tokens(pattern)):  # RE2 knows it, Go does not
        return _message("invalid escape sequence", r"\C")
    try:
        check(pattern)
        check(anchor(pattern))  # an open `\Q` takes the end of the wrapping
    except InvalidRegexError as error:
        return _reword(str(error))
    return ""


def _reword(message: str) -> str:
    """Translate `error parsing regexp: reason: part: `whole pattern``."""
    detail, _, whole = message.removeprefix("error parsing regexp: ").rpartition(": `")
    reason, has_part, part = detail.partition(": ")
    if reason == "trailing \\":
        return _message("trailing backslash at end of expression", "")
    return _message(_WORDS.get(reason, reason), part if has_part else whole.removesuffix("`"))


def _message(reason: str, part: str) -> str:
    return f"error parsing regexp: {reason}: `{part}`"


_MOST_CAPTURES = 200
"""Captures of a parser; RE2 takes time that grows with the square of their number, for each line."""


class InvalidCapturesError(ValueError):
    """The named groups of a pattern make no labels; the message says why."""


def names(pattern: str) -> tuple[str, ...]:
    r"""Return the names of the groups, in order.

    >>> names(r"(?P<method>\w+) (\S+) (?<path>.+)")
    ('method', 'path')
    """
    return tuple(token["name"] for token in tokens(pattern) if token["name"] is not None)


def check_captures(pattern: str) -> None:
    """Raise unless the pattern compiles and names something, no name twice."""
    found = names(pattern)
    seen: set[str] = set()
    for name in found:
        if name in seen:
            raise InvalidCapturesError(f"duplicate extracted label name '{name}'")
        seen.add(name)
    reason = complaint(pattern)
    if reason:
        raise InvalidCapturesError(reason)
    foreign = next((name for name in found if not name.isascii()), None)
    if foreign is not None:  # RE2 takes it, Go does not
        raise InvalidCapturesError(f"error parsing regexp: invalid named capture: `(?P<{foreign}>`")
    if not found:
        raise InvalidCapturesError("at least one named capture must be supplied")
    if (groups := sum(map(opens_capture, tokens(pattern)))) > _MOST_CAPTURES:
        raise InvalidCapturesError(
            f"{groups} groups capture, more than {_MOST_CAPTURES}: write (?:…) for those that make no label"
        )


Groups = dict[str, str]
"""Texts of groups, by number and by name."""
_REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w++)\}|(?P<bare>\w++))")


def capture(pattern: str, values: list[str]) -> list[Groups | None]:
    """Return the groups of each value that matches from its first to its last character, else None.

    >>> capture("(?P<a>.)-(.+)", ["x-yz", "-"])
    [{'0': 'x-yz', 'a': 'x', '1': 'x', '2': 'yz'}, None]
    """
    check(pattern)
    numbered, names = _number_groups(pattern)
    found = pc.extract_regex(pa.array(values, pa.string()), anchor(f"(?P<g0>(?s:{numbered}))"))
    return [None if row is None else _by_name(row, names) for row in found.to_pylist()]


def _number_groups(pattern: str) -> tuple[str, list[str | None]]:
    """Name all groups `g1`, `g2`, …; also return the names they had."""
    names: list[str | None] = []
    parts: list[str] = []
    for token in tokens(pattern):
        if opens_capture(token):
            names.append(token["name"])
        parts.append(f"(?P<g{len(names)}>" if opens_capture(token) else token[0])
    return "".join(parts), names


def _by_name(row: dict[str, str | None], names: list[str | None]) -> Groups:
    groups = {"0": row["g0"] or ""}
    for number, name in enumerate(names, 1):
        value = row[f"g{number}"] or ""
        if name is not None:
            groups.setdefault(name, value)
        groups[str(number)] = value
    return groups


class Template:
    """A replacement with `$1`, `${1}`, `$name` and `$$`.

    A name reaches as far as letters, digits and `_` do.

    >>> Template("$2 ${a}b $ab $$").fill({"0": "x-yz", "a": "x", "1": "x", "2": "yz"})
    'yz xb  $'
    """

    def __init__(self, text: str) -> None:
        self._parts = _parts(text)
        self._literals = sum(len(text) for text, _ in self._parts)
        self._names = Counter(name for _, name in self._parts if name is not None)

    def charge(self, budget: LabelBudget, groups: Groups, times: int) -> None:
        """Count what `fill` would make, before it does."""
        for name, count in self._names.items():
            budget.add(len(groups.get(name, "")), count * times)
        budget.add(self._literals, times)

    def fill(self, groups: Groups) -> str:
        """Put the groups in; one that does not exist, or took no part in the match, is empty."""
        return "".join(text if name is None else groups.get(name, "") for text, name in self._parts)


def replace_labels(pattern: str, replacement: str, sources: Sequence[str]) -> list[str | None]:
    """Return what `label_replace` makes of each value, None where the pattern does not match in full."""
    rows = Counter(sources)
    template, budget = Template(replacement), LabelBudget("label_replace")
    made: dict[str, str | None] = {}
    for source, groups in zip(rows, capture(pattern, list(rows)), strict=True):
        if groups is not None:
            template.charge(budget, groups, rows[source])
        made[source] = None if groups is None else template.fill(groups)
    return [made[source] for source in sources]


def _parts(text: str) -> list[tuple[str, str | None]]:
    """Split a replacement into literal texts and names of groups, one after the other."""
    parts: list[tuple[str, str | None]] = []
    at = 0
    for reference in _REFERENCE.finditer(text):
        parts.append((text[at : reference.start()], None))
        at = reference.end()
        parts.append(("$", None) if reference["dollar"] else ("", reference["braced"] or reference["bare"]))
    return [*parts, (text[at:], None)]


_LONGEST = 10_000
_SHORT = 16
"""Replacements up to here make no text too large."""
_MOST_GROUPS = 9
_AT_ONCE = 256 << 20
"""Characters that many texts may have together behind a replacement."""


def count(pattern: str, text: str) -> int:
    """Count the matches that do not overlap, empty ones among them.

    Arrow's own count steps through empty matches in another way than Go, so the text is measured twice: each
    match becomes one character, then none.
    """
    pattern = _check_pattern(pattern)
    return len(_replace(pattern, "x", text)) - len(_replace(pattern, "", text))


def replace_all(pattern: str, text: str, replacement: str) -> str:
    """Replace all matches; `$1`, `${1}`, `$name` and `${name}` stand for groups, `$$` for a dollar."""
    return _replace_within_bound(*_rewritten(_check_pattern(pattern), replacement), text)


def replace_all_literally(pattern: str, text: str, replacement: str) -> str:
    return _replace_within_bound(_check_pattern(pattern), replacement.replace("\\", "\\\\"), text)


def replace_all_in(texts: list[str], pattern: str, replacement: str) -> list[str] | None:
    """Replace in many texts at once.

    None where the replacement may make them much longer, or they are no UTF-8.
    """
    pattern, rewrite = _rewritten(_check_pattern(pattern), replacement)
    if len(rewrite) > _SHORT or sum(map(len, texts)) * (len(rewrite) + 1) > _AT_ONCE:
        return None
    try:
        arrow = pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return None
    changed: list[str] = pc.replace_substring_regex(arrow, pattern=pattern, replacement=rewrite).to_pylist()
    return changed


def _replace_within_bound(pattern: str, rewrite: str, text: str) -> str:
    """Replace within the bound on texts.

    All that stands for groups is no longer than the text; the rest stands there once per match.
    """
    if len(rewrite) > _SHORT:
        allow_text(len(text) + count(pattern, text) * len(rewrite))
    changed = _replace(pattern, rewrite, text)
    allow_text(len(changed))
    return changed


def _replace(pattern: str, rewrite: str, text: str) -> str:
    return str(pc.replace_substring_regex(_scalar(text), pattern=pattern, replacement=rewrite).as_py())


def _scalar(text: str) -> pa.StringScalar:
    return pa.scalar(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


@lru_cache(maxsize=512)
def _check_pattern(pattern: str) -> str:
    """Return the pattern, or raise: replacing would compile it only inside parentheses of its own."""
    reason = complaint(pattern) if len(pattern) <= _LONGEST else "error parsing regexp: expression too large"
    if reason:
        raise TemplateError(reason)
    return pattern


@lru_cache(maxsize=512)
def _rewritten(pattern: str, replacement: str) -> tuple[str, str]:
    r"""Return the pattern, and RE2's replacement for a match; a group that does not exist is empty.

    RE2 knows `\1` to `\9`: where a later group is named, the groups that are not named stop to count.
    """
    groups = [token["name"] for token in tokens(pattern) if opens_capture(token)]
    numbers = {name: number for number, name in enumerate(groups, start=1) if name}
    parts = [
        text if name is None else _number(name, numbers, len(groups)) for text, name in _parts(replacement)
    ]
    used = sorted({part for part in parts if isinstance(part, int) and part})[:_MOST_GROUPS]
    if used and used[-1] > _MOST_GROUPS:
        pattern = _only_groups(pattern, used)
    else:
        used = list(range(1, _MOST_GROUPS + 1))
    places = {0: 0} | {number: place for place, number in enumerate(used, start=1)}
    return pattern, "".join(
        part.replace("\\", "\\\\") if isinstance(part, str) else f"\\{places[part]}"
        for part in parts
        if isinstance(part, str) or part in places
    )


def _number(name: str, numbers: dict[str, int], total: int) -> int | str:
    """Return the number of the group of that name or number, an empty text if there is none."""
    is_number = name.isascii() and name.isdigit() and len(name) < 5
    number = int(name) if is_number else numbers.get(name, -1)
    return number if 0 <= number <= total else ""


def _only_groups(pattern: str, numbers: list[int]) -> str:
    """Make all other groups such that do not capture."""
    number = 0
    parts: list[str] = []
    for token in tokens(pattern):
        number += opens_capture(token)
        parts.append("(?:" if opens_capture(token) and number not in numbers else token[0])
    return "".join(parts)
