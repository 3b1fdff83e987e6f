"""Dictionaries of row groups as numbers that mean the same in all of them.

    "info" "warn"  ->  0 1        "warn" "debug" "info"  ->  1 2 0

Neighbouring row groups often have the same dictionary, byte for byte, which is looked into once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import ABSENT
from resources.arrays import Int32s

Show = Callable[[pa.Array], pa.StringArray]
REMEMBERED_BYTES = 4096
_LENGTH_BYTES = 4


class Vocabulary(Protocol):
    """Numbers of values; `ABSENT` of one that is none."""

    def of_page(self, raw: bytes) -> Int32s: ...

    def of_value(self, value: int | str | None) -> Int32s: ...


class Streams:
    """Ids of streams; those that are not wanted are absent."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers

    def of_page(self, raw: bytes) -> Int32s:
        ids = np.frombuffer(raw, "<i8").tolist()
        return np.array([self._numbers.get(one, ABSENT) for one in ids], np.int32)

    def of_value(self, value: int | str | None) -> Int32s:
        return np.array([self._numbers.get(value, ABSENT) if isinstance(value, int) else ABSENT], np.int32)


class Texts:
    """Texts as the label shows them."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._numbers: dict[str | None, int] = {None: ABSENT}
        self._pages: dict[bytes, Int32s] = {}

    @property
    def values(self) -> pa.StringArray:
        return pa.array(list(self._numbers)[1:], pa.string())

    def of_page(self, raw: bytes) -> Int32s:
        known = self._pages.get(raw)
        if known is None:
            known = self._numbered(texts_in(raw))
            if len(raw) <= REMEMBERED_BYTES:
                self._pages[raw] = known
        return known

    def of_value(self, value: int | str | None) -> Int32s:
        return self._numbered([None if value is None else str(value)])

    def _numbered(self, stored: Sequence[str | None]) -> Int32s:
        numbers = self._numbers
        shown = self._show(pa.array(stored, pa.string())).to_pylist()
        return np.array([numbers.setdefault(text, len(numbers) - 1) for text in shown], np.int32)


def texts_in(raw: bytes) -> list[str]:
    """Each behind its length.

    >>> texts_in(bytes([2, 0, 0, 0]) + b"ab" + bytes([1, 0, 0, 0]) + b"c")
    ['ab', 'c']
    """
    found: list[str] = []
    at = 0
    while at < len(raw):
        begin = at + _LENGTH_BYTES
        at = begin + int.from_bytes(raw[at:begin], "little")
        if at > len(raw):
            raise ValueError("a dictionary that ends within a text")
        found.append(raw[begin:at].decode())
    return found
