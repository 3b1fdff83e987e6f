"""Label sets as small numbers, the same in all segments, so that runs of one series find each other."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from lakerunner_query.worker.metrics.places import ranges
from lakerunner_query.worker.metrics.series_table import SeriesTable
from resources.lake.streams import Labels

MOST = 3_000_000
"""Label sets that are remembered; beyond, all are forgotten and numbered anew."""
Int64s = npt.NDArray[np.int64]


class Interner:
    """Numbers are good until `MOST` is reached: `numbers` of one query must come from one `Numbering`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current = Numbering()

    def numbering(self) -> Numbering:
        with self._lock:
            if len(self._current.labels) > MOST:
                self._current = Numbering()
            return self._current


class Numbering:
    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self._numbers: dict[bytes, int] = {}
        """By names and values as numbers of texts, in order of names."""
        self._texts: dict[str, int] = {}
        self._of_table: WeakKeyDictionary[SeriesTable, Int64s] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, table: SeriesTable, chosen: Int64s) -> Int64s:
        """The numbers of these series of a table."""
        with self._lock:
            known = self._of_table.get(table)
            if known is None:
                known = np.full(table.count, -1, np.int64)
                self._of_table[table] = known
            self._fill(table, known, chosen[known[chosen] < 0])
            found: Int64s = known[chosen]
            return found

    def _fill(self, table: SeriesTable, known: Int64s, unknown: Int64s) -> None:
        """Labels are made into Python's objects only for sets that no other table had."""
        begins, sizes = table.offsets[unknown], table.offsets[unknown + 1] - table.offsets[unknown]
        entries = ranges(begins.astype(np.int64), sizes.astype(np.int64))
        pairs = self._of_texts(list(table.names), table.keys[entries]) << 32
        pairs |= self._of_texts(table.texts, table.values[entries])
        ends = np.cumsum(sizes).tolist()
        for series, begin, end in zip(unknown.tolist(), [0, *ends], ends, strict=False):
            key = pairs[begin:end].tobytes()
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self.labels)
                self.labels.append(table.labels(series))
            known[series] = number

    def _of_texts(self, texts: list[str], codes: npt.NDArray[np.int32]) -> Int64s:
        """The numbers of texts, the same for all tables."""
        used = np.unique(codes)
        numbers = [self._texts.setdefault(texts[code], len(self._texts)) for code in used.tolist()]
        found: Int64s = np.array(numbers, np.int64)[np.searchsorted(used, codes)]
        return found
