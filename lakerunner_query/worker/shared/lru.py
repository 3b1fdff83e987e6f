"""`ByteLru` is the in-memory cache of the worker: bounded by weight, least recently used out first.

Cached values derive from segments, which never change: entries are evicted or forgotten, never updated.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def one(_value: object) -> int:
    """Weigh every value the same: the bound is a number of entries.

    >>> one("a"), one("long")
    (1, 1)
    """
    return 1


class ByteLru(Generic[Key, Value]):
    """A thread-safe map of the most recently used values, up to `max_weight` in total.

    >>> cache: ByteLru[str, bytes] = ByteLru(4, len)
    >>> cache.put("a", b"12"); cache.put("b", b"34"); _ = cache.get("a"); cache.put("c", b"5")
    >>> cache.get("a"), cache.get("b"), cache.weight
    (b'12', None, 3)
    """

    def __init__(self, max_weight: int, weigh: Callable[[Value], int] = one, *, min_entries: int = 0) -> None:
        """`min_entries` stay even where they are heavier than the bound."""
        self._max_weight = max_weight
        self._weigh = weigh
        self._min_entries = min_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._weight = 0

    @property
    def weight(self) -> int:
        """Total weight of the entries."""
        with self._lock:
            return self._weight

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Value | None:
        """Return the value and mark it as used."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def peek(self, key: Key) -> Value | None:
        """Return the value without marking it as used."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry[0]

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value, made outside of the lock where it is absent: two threads may both make it."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry[0]
        value = make()
        self.put(key, value)
        return value

    def put(self, key: Key, value: Value) -> None:
        weight = self._weigh(value)
        with self._lock:
            self._remove(key)
            self._entries[key] = value, weight
            self._weight += weight
            while self._weight > self._max_weight and len(self._entries) > self._min_entries:
                _, (_, evicted) = self._entries.popitem(last=False)
                self._weight -= evicted

    def forget(self, key: Key) -> None:
        with self._lock:
            self._remove(key)

    def forget_where(self, matches: Callable[[Key], bool]) -> None:
        """Remove all entries whose key matches."""
        with self._lock:
            for key in [key for key in self._entries if matches(key)]:
                self._remove(key)

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]
