"""Comparing an answer with a recorded one: the same keys in the same order, the same types, as long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ELIDED = "<statistics object elided>"
NUMBERS = (int, float)


def assert_like(found: Any, expected: Any, at: str, exact: Sequence[str] = (), any_length: str = "") -> None:
    """`exact` are parts of places where values are equal too; at `any_length` a list may be longer."""
    if expected == ELIDED:
        assert isinstance(found, dict), at
        return
    if isinstance(expected, dict):
        assert isinstance(found, dict), at
        assert list(found) == list(expected), at
        for name, value in expected.items():
            assert_like(found[name], value, f"{at}.{name}", exact, any_length)
    elif isinstance(expected, list):
        assert isinstance(found, list), at
        if not any_length or not at.startswith(any_length):
            assert len(found) == len(expected), (at, found)
        for place, (one, other) in enumerate(zip(found, expected, strict=False)):
            assert_like(one, other, f"{at}[{place}]", exact, any_length)
    elif any(part in at for part in exact):
        assert found == expected, at
    else:
        both_numbers = isinstance(found, NUMBERS) and isinstance(expected, NUMBERS)
        assert type(found) is type(expected) or both_numbers, at
