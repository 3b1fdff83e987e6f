"""Index terms are 64-bit hashes of exact (field, value) pairs of a segment.

A term present means the segment may hold such rows, a term absent means it does not. A field with too many
values in one segment gets its wildcard instead, so planners always ask for alternatives: the value or the
wildcard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import xxhash

TERMS_VERSION = 1
MAX_VALUES = 4096
"""Number of distinct values of a field from which on a segment has only its wildcard."""


def term(field: str, value: str) -> int:
    """Hash an exact value to its signed 64-bit term.

    >>> term("a", "bc") == term("ab", "c")
    False
    """
    return _hash(b"v", field, value)


def wildcard(field: str) -> int:
    """Return the term that stands for 'this field has too many values here'."""
    return _hash(b"*", field, "")


def alternatives(field: str, values: Iterable[str]) -> tuple[int, ...]:
    """Return terms of which a segment with any of `values` has at least one."""
    return (*(term(field, value) for value in values), wildcard(field))


def terms_of(values_by_field: Mapping[str, Iterable[str]]) -> tuple[int, ...]:
    """Return all terms of a segment, sorted."""
    found: set[int] = set()
    for field, values in values_by_field.items():
        distinct = set(values)
        found.update(
            {wildcard(field)} if len(distinct) > MAX_VALUES else {term(field, value) for value in distinct}
        )
    return tuple(sorted(found))


def _hash(kind: bytes, field: str, value: str) -> int:
    name, text = field.encode(), value.encode()
    # lengths in front, so that no two pairs spell the same bytes
    head = (
        kind
        + TERMS_VERSION.to_bytes(2, "little")
        + len(name).to_bytes(4, "little")
        + len(text).to_bytes(4, "little")
    )
    unsigned = xxhash.xxh3_64_intdigest(head + name + text)
    return unsigned - (1 << 64) if unsigned >= 1 << 63 else unsigned
