"""Decoded rows waiting to be written, per dataset and hour, with a bound on all of them together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Place = tuple[str, int]


class HourBuffers:
    """Knows which rows belong to the object being read, so that a failing one can be forgotten."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tables: dict[Place, list[pa.Table]] = defaultdict(list)
        self._bytes: dict[Place, int] = defaultdict(int)
        self._marks: dict[Place, tuple[int, int]] = {}
        self.spilled = False
        """Whether rows of the current object left the buffers."""

    def begin(self) -> None:
        """A new object starts: everything until now is kept whatever happens to it."""
        self._marks = {place: (len(tables), self._bytes[place]) for place, tables in self._tables.items()}
        self.spilled = False

    def forget(self) -> None:
        """Drop the rows of the current object."""
        for place in list(self._tables):
            tables, size = self._marks.get(place, (0, 0))
            del self._tables[place][tables:]
            self._bytes[place] = size

    def add(self, dataset: str, hour_ns: int, table: pa.Table) -> None:
        self._tables[dataset, hour_ns].append(table)
        self._bytes[dataset, hour_ns] += table.nbytes

    def full(self) -> bool:
        return sum(self._bytes.values()) >= self._max_bytes

    def largest(self) -> Place:
        return max(self._bytes, key=lambda place: self._bytes[place])

    def filled(self) -> list[Place]:
        """Places with rows, in a fixed order (parts are numbered by it)."""
        return sorted(place for place, tables in self._tables.items() if tables)

    def take(self, dataset: str, hour_ns: int) -> list[pa.Table]:
        place = (dataset, hour_ns)
        tables = self._tables.pop(place)
        kept, _ = self._marks.get(place, (0, 0))
        self.spilled = self.spilled or len(tables) > kept
        self._marks.pop(place, None)
        self._bytes.pop(place)
        return tables
