"""Label sets as small numbers, the same in all segments, so that runs of one series find each other."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

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
        self._numbers: dict[Labels, int] = {}
        self._of_table: WeakKeyDictionary[SeriesTable, Int64s] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, table: SeriesTable, chosen: Int64s) -> Int64s:
        """The numbers of these series of a table."""
        with self._lock:
            known = self._of_table.get(table)
            if known is None:
                known = np.full(table.count, -1, np.int64)
                self._of_table[table] = known
            for series in chosen[known[chosen] < 0].tolist():
                known[series] = self._number(table.labels(series))
            found: Int64s = known[chosen]
            return found

    def _number(self, labels: Labels) -> int:
        found = self._numbers.get(labels)
        if found is None:
            found = len(self.labels)
            self._numbers[labels] = found
            self.labels.append(labels)
        return found
