"""Base64 read as Loki reads it: with padding or, failing that, without.

>>> b64dec("aGk="), b64dec("aGk"), b64dec("a!k=")
('hi', 'hi', 'illegal base64 data at input byte 1')
"""

from __future__ import annotations

import base64
import re

from lakerunner_query.gotext.values import from_bytes, to_bytes

_ALPHABET = re.compile(rb"[A-Za-z0-9+/]*")


def b64dec(text: str) -> str:
    """What is wrong with the text is the result, not an error."""
    raw = to_bytes(text)
    bare = raw.translate(None, b"\r\n")
    fault = _fault(bare)
    if fault is not None and not (_ALPHABET.fullmatch(bare) and len(bare) % 4 != 1):
        return f"illegal base64 data at input byte {_with_breaks(raw, fault)}"
    return from_bytes(base64.b64decode(bare + b"=" * (-len(bare) % 4)))


def _fault(bare: bytes) -> int | None:
    """Where padded base64 ends to be such, None if it is."""
    letters = _ALPHABET.match(bare)
    end = letters.end() if letters else 0
    whole = end - end % 4
    if end == len(bare):
        return None if end == whole else whole
    padding = bare[end : end + 2]
    if padding[:1] != b"=" or end - whole < 2:
        return end
    if end - whole == 2 and padding != b"==":
        return len(bare) if end + 1 == len(bare) else end
    closed = whole + 4
    return closed if closed < len(bare) else None


def _with_breaks(raw: bytes, at: int) -> int:
    """The place in the text with its line breaks, which do not count."""
    seen = 0
    for place, byte in enumerate(raw):
        if byte in b"\r\n":
            continue
        if seen == at:
            return place
        seen += 1
    return len(raw)
