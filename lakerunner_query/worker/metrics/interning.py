"""Label sets as small numbers, the same in all segments, so that runs of one series find each other."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.worker.metrics.places import ranges
from lakerunner_query.worker.metrics.series_table import SeriesTable
from resources.arrays import Int64s
from resources.lake.streams import Labels

MOST = 3_000_000
"""Label sets that are remembered; beyond, all are forgotten and numbered anew."""
REMEMBERED = 64
"""Sets of label sets, which many parts of many queries have in common."""


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
    """Label sets are compared as numbers of their texts, whole tables at once."""

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self._numbers: dict[bytes, int] = {}
        """By names and values as numbers of texts, in order of names."""
        self._by_id: dict[int, int] = {}
        """By series id: the first label set with this id, which nearly always is the only one."""
        self._texts: dict[str, int] = {}
        self._pairs: Int64s = np.zeros(1024, np.int64)
        """Of all label sets, end to end."""
        self._ends: list[int] = [0]
        self._ordered: dict[bytes, tuple[Int64s, SharedLabels]] = {}
        self._last: ref[SeriesTable] | None = None
        self._of_table: WeakKeyDictionary[SeriesTable, Int64s] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, table: SeriesTable, chosen: Int64s) -> Int64s:
        """The numbers of these series of a table."""
        with self._lock:
            known = self._of_table.get(table)
            if known is None:
                known = self._of_table[table] = self._of_last(table)
                self._last = ref(table)
            unknown = chosen[known[chosen] < 0]
            if len(unknown):
                self._fill(table, known, unknown)
            found: Int64s = known[chosen]
            return found

    def in_order(self, numbers: Int64s) -> tuple[Int64s, SharedLabels]:
        """Places of these numbers in order of their labels, and the labels in that order."""
        key = numbers.tobytes()
        with self._lock:
            if key not in self._ordered:
                if len(self._ordered) >= REMEMBERED:
                    self._ordered.clear()
                labels = [self.labels[number] for number in numbers.tolist()]
                order = np.array(sorted(range(len(labels)), key=labels.__getitem__), np.int64)
                self._ordered[key] = order, SharedLabels(labels[place] for place in order.tolist())
            return self._ordered[key]

    def _of_last(self, table: SeriesTable) -> Int64s:
        """Hour after hour has the same series: then they have the same numbers as in the table before."""
        last = self._last() if self._last is not None else None
        if last is not None and last.has_labels_of(table):
            return self._of_table[last].copy()
        return np.full(table.count, -1, np.int64)

    def _fill(self, table: SeriesTable, known: Int64s, unknown: Int64s) -> None:
        sizes = (table.offsets[unknown + 1] - table.offsets[unknown]).astype(np.int64)
        entries = ranges(table.offsets[unknown].astype(np.int64), sizes)
        pairs = self._of_texts(list(table.names), table.keys[entries]) << 32
        pairs |= self._of_texts(table.texts, table.values[entries])
        guessed = np.array([self._by_id.get(tid, -1) for tid in table.tid[unknown].tolist()], np.int64)
        right = self._are(guessed, sizes, pairs)
        known[unknown[right]] = guessed[right]
        ends = np.cumsum(sizes)
        for at in np.flatnonzero(~right).tolist():
            series, end = int(unknown[at]), int(ends[at])
            known[series] = self._number(table, series, pairs[end - int(sizes[at]) : end])

    def _are(self, guessed: Int64s, sizes: Int64s, pairs: Int64s) -> npt.NDArray[np.bool_]:
        """Whether these are the label sets with these numbers."""
        ends = np.array(self._ends, np.int64)
        begins = ends[guessed]
        right = (guessed >= 0) & (ends[np.minimum(guessed + 1, len(ends) - 1)] - begins == sizes)
        rows = np.repeat(right, sizes)
        same = np.zeros(len(pairs), np.bool_)
        same[rows] = self._pairs[ranges(begins[right], sizes[right])] == pairs[rows]
        running = np.concatenate(([0], np.cumsum(same)))
        after = np.cumsum(sizes)
        found: npt.NDArray[np.bool_] = right & (running[after] - running[after - sizes] == sizes)
        return found

    def _number(self, table: SeriesTable, series: int, pairs: Int64s) -> int:
        """Labels are made into Python's objects only for sets that no other table had."""
        key = pairs.tobytes()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.labels)
            self.labels.append(table.labels(series))
            self._by_id.setdefault(int(table.tid[series]), number)
            begin, end = self._ends[-1], self._ends[-1] + len(pairs)
            if end > len(self._pairs):
                self._pairs = np.concatenate(
                    [self._pairs, np.zeros(max(len(self._pairs), len(pairs)), np.int64)]
                )
            self._pairs[begin:end] = pairs
            self._ends.append(end)
        return number

    def _of_texts(self, texts: list[str], codes: npt.NDArray[np.int32]) -> Int64s:
        """The numbers of texts, the same for all tables."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))
        numbers = [self._texts.setdefault(texts[code], len(self._texts)) for code in used.tolist()]
        by_code = np.zeros(len(texts), np.int64)
        by_code[used] = numbers
        found: Int64s = by_code[codes]
        return found
