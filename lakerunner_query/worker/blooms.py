"""Which segments cannot hold a word: their token blooms, asked before anything else of them is read.

A bloom is one small ranged read, kept in memory up to a budget. One that cannot be read or is damaged
excludes nothing: whether the segment itself is readable is told when it is opened.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakerunner_query.plan.logql import Words
from lakerunner_query.protocol.units import SegmentRef
from resources.lake.tokens import TokenBloom, token_hash
from resources.store.errors import StoreError

BYTES_PER_WORD = 4


@dataclass(frozen=True, slots=True)
class Needles:
    """`Words` with every word hashed once for all segments."""

    alternatives: tuple[tuple[int, ...], ...]
    label: str

    @classmethod
    def of(cls, words: Words) -> Needles:
        return cls(tuple(tuple(map(token_hash, way)) for way in words.alternatives), words.label)

    def may_be_in(self, bloom: TokenBloom) -> bool:
        return any(all(map(bloom.may_contain_hash, way)) for way in self.alternatives)


class Blooms:
    """The most recently asked ones of a worker process."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, TokenBloom] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        return self._bytes

    def has(self, segment: SegmentRef) -> bool:
        return not segment.bloom_length or segment.key in self._kept

    def may_hold(
        self, segment: SegmentRef, needles: Sequence[Needles], read: Callable[[int, int], bytes]
    ) -> bool:
        """Whether a row with all of these is possible; `read` gives bytes of the object by offset, length."""
        if not needles or not segment.bloom_length:
            return True
        bloom = self._bloom(segment, read)
        return bloom is None or all(needle.may_be_in(bloom) for needle in needles)

    def _bloom(self, segment: SegmentRef, read: Callable[[int, int], bytes]) -> TokenBloom | None:
        with self._lock:
            known = self._kept.get(segment.key)
            if known is not None:
                self._kept.move_to_end(segment.key)
                return known
        try:
            found = TokenBloom.from_bytes(read(segment.bloom_offset, segment.bloom_length))
        except (StoreError, OSError, ValueError):
            return None
        self._keep(segment.key, found)
        return found

    def _keep(self, key: str, bloom: TokenBloom) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = bloom
            self._bytes += len(bloom.words) * BYTES_PER_WORD
            while self._bytes > self._max_bytes and self._kept:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= len(gone.words) * BYTES_PER_WORD
