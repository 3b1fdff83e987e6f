"""Label sets are interned as numbers, the same in all segments, so runs of one series meet."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary, ref

import numpy as np

from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.worker.metrics.series_table import SeriesTable, expand_runs
from lakerunner_query.worker.shared.lru import ByteLru
from resources.arrays import Flags, Int32s, Int64s
from resources.lake.streams import Labels

MAX_INTERNED = 3_000_000
"""Label sets that are interned; beyond, all are forgotten and numbered anew."""
MAX_ORDERED = 64
"""Sets of series whose order is cached: parts of many queries have them in common."""


class SeriesInterner:
    """Holds the current `SeriesNumbers`; all numbers of one query must come from the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current = SeriesNumbers()

    def numbers(self) -> SeriesNumbers:
        with self._lock:
            if len(self._current.labels) > MAX_INTERNED:
                self._current = SeriesNumbers()
            return self._current


class SeriesNumbers:
    """Numbers of label sets, which are compared as numbers of their texts, whole tables at once."""

    def __init__(self) -> None:
        self.labels: list[Labels] = []
        self._numbers: dict[bytes, int] = {}
        """Numbers by names and values as numbers of texts, in order of names."""
        self._by_id: dict[int, int] = {}
        """Numbers by series id: the first label set with this id, nearly always the only one."""
        self._texts: dict[str, int] = {}
        self._pairs: Int64s = np.zeros(1024, np.int64)
        """Names and values of all label sets as numbers of texts, end to end."""
        self._ends: list[int] = [0]
        self._ordered: ByteLru[bytes, tuple[Int64s, SharedLabels]] = ByteLru(MAX_ORDERED)
        self._last: ref[SeriesTable] | None = None
        self._of_table: WeakKeyDictionary[SeriesTable, Int64s] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, table: SeriesTable, chosen: Int64s) -> Int64s:
        """Return the numbers of these series of a table."""
        with self._lock:
            known = self._of_table.get(table)
            if known is None:
                known = self._of_table[table] = self._numbers_of_last(table)
                self._last = ref(table)
            unknown = chosen[known[chosen] < 0]
            if len(unknown):
                self._fill(table, known, unknown)
            found: Int64s = known[chosen]
            return found

    def in_order(self, numbers: Int64s) -> tuple[Int64s, SharedLabels]:
        """Return the order of these numbers by labels, and the labels in that order."""
        with self._lock:
            return self._ordered.get_or_make(numbers.tobytes(), lambda: self._in_order(numbers))

    def _in_order(self, numbers: Int64s) -> tuple[Int64s, SharedLabels]:
        labels = [self.labels[number] for number in numbers.tolist()]
        order = np.array(sorted(range(len(labels)), key=labels.__getitem__), np.int64)
        return order, SharedLabels(labels[place] for place in order.tolist())

    def _numbers_of_last(self, table: SeriesTable) -> Int64s:
        """Copy the numbers of the last table where it has the same series, as hour after hour has."""
        last = self._last() if self._last is not None else None
        if last is not None and last.has_labels_of(table):
            return self._of_table[last].copy()
        return np.full(table.count, -1, np.int64)

    def _fill(self, table: SeriesTable, known: Int64s, unknown: Int64s) -> None:
        sizes = (table.offsets[unknown + 1] - table.offsets[unknown]).astype(np.int64)
        entries = expand_runs(table.offsets[unknown].astype(np.int64), sizes)
        pairs = self._text_numbers(list(table.names), table.keys[entries]) << 32
        pairs |= self._text_numbers(table.texts, table.values[entries])
        guessed = np.array([self._by_id.get(tid, -1) for tid in table.tid[unknown].tolist()], np.int64)
        right = self._have_pairs(guessed, sizes, pairs)
        known[unknown[right]] = guessed[right]
        ends = np.cumsum(sizes)
        for at in np.flatnonzero(~right).tolist():
            series, end = int(unknown[at]), int(ends[at])
            known[series] = self._number(table, series, pairs[end - int(sizes[at]) : end])

    def _have_pairs(self, guessed: Int64s, sizes: Int64s, pairs: Int64s) -> Flags:
        """Tell of each number whether its label set consists of these pairs."""
        ends = np.array(self._ends, np.int64)
        begins = ends[guessed]
        right = (guessed >= 0) & (ends[np.minimum(guessed + 1, len(ends) - 1)] - begins == sizes)
        rows = np.repeat(right, sizes)
        same = np.zeros(len(pairs), np.bool_)
        same[rows] = self._pairs[expand_runs(begins[right], sizes[right])] == pairs[rows]
        running = np.concatenate(([0], np.cumsum(same)))
        after = np.cumsum(sizes)
        found: Flags = right & (running[after] - running[after - sizes] == sizes)
        return found

    def _number(self, table: SeriesTable, series: int, pairs: Int64s) -> int:
        """Intern one label set; labels become Python objects only where no other table had them."""
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

    def _text_numbers(self, texts: list[str], codes: Int32s) -> Int64s:
        """Return the numbers of texts, the same for all tables."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))
        numbers = [self._texts.setdefault(texts[code], len(self._texts)) for code in used.tolist()]
        by_code = np.zeros(len(texts), np.int64)
        by_code[used] = numbers
        found: Int64s = by_code[codes]
        return found
