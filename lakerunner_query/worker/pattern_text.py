"""The text of a pattern, from one of its lines: what may differ is masked, so that `|>` finds the others.

    GET /u/42 from 10.0.0.1:8080 "Mozilla" in 1.5s   ->   GET /u/<_> from <_> "<_>" in <_>

`chq_fingerprint` tells lines of one shape, but only as a number. Here whole words with a digit in them and
what is quoted are masked, which is never less than the fingerprint masks.
"""

from __future__ import annotations

import re

SEEN = 4096
"""The fingerprint sees no more of a line either."""
HOLE = "<_>"
_PIECE = re.compile(r"""(?P<quote>"(?:[^"\\]|\\.)*":?|(?<!\w)'(?:[^'\\]|\\.)+')|[+-]?[\w.:,%-]+""")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DIGIT = re.compile(r"\d")
_HOLES = re.compile(f"(?:{HOLE}){{2,}}")


def pattern_of(line: str) -> str:
    """
    >>> pattern_of('GET /u/42 from 10.0.0.1:8080, "Mozilla" in -1.5s {"id": "x"}')
    'GET /u/<_> from <_>, "<_>" in <_> {"id": "<_>"}'
    """
    masked = _PIECE.sub(_masked, line[:SEEN]) + (HOLE if len(line) > SEEN else "")
    return _HOLES.sub(HOLE, masked)


def _masked(found: re.Match[str]) -> str:
    text = found[0]
    if found["quote"]:
        is_key_or_empty = text.endswith(":") or len(text) == 2
        return text if is_key_or_empty else text[0] + HOLE + text[0]
    if not (_DIGIT.search(text) or _UUID.fullmatch(text)):
        return text
    return HOLE + text[len(text.rstrip(".:,-")) :]
