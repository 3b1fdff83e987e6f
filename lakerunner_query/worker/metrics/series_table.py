"""`SeriesTable` runs matchers on a segment's distinct label values, before any row is read.

Label sets are interned as numbers, the same in all segments, so that runs of one series meet.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary, ref

import numpy as np
import pyarrow as pa

from lakerunner_query.gotext import regexp
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.worker.metrics.shards import family_hashes
from lakerunner_query.worker.shared.lru import ByteLru
from resources.arrays import Flags, Int32s, Int64s, UInt64s
from resources.lake.series import NAME_LABEL
from resources.lake.streams import Labels

ABSENT, NOWHERE = -1, -2
"""Codes of no value, and of a value that no series has."""
CACHED_MATCHERS = 128
"""Matchers whose result a table keeps: dashboards repeat them."""

MAX_INTERNED = 3_000_000
"""Label sets that are interned; beyond, all are forgotten and numbered anew."""
MAX_ORDERED = 64
"""Sets of series whose order is cached: parts of many queries have them in common."""


def expand_runs(begin: Int64s, sizes: Int64s) -> Int64s:
    """Return all rows of all runs, end to end.

    >>> expand_runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    found: Int64s = np.arange(total) + np.repeat(begin - (ends - sizes), sizes)
    return found


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Columns by series; codes of a label are indexes into `texts`, -1 where it is absent."""

    tid: Int64s
    row: Int64s
    rows: Int64s
    first_ms: Int64s
    last_ms: Int64s
    base: Int64s
    exponent: Int32s
    names: dict[str, int]
    """Codes of label names in `keys`."""
    texts: list[str]
    offsets: Int32s
    keys: Int32s
    values: Int32s
    _codes: dict[str, Int32s] = field(default_factory=dict)
    _labels: dict[int, Labels] = field(default_factory=dict)
    _matches: ByteLru[tuple[Matcher, str], Flags] = field(default_factory=lambda: ByteLru(CACHED_MATCHERS))

    @classmethod
    def of(cls, table: pa.Table) -> SeriesTable:
        """Wrap the result of `series.read_table`."""
        numbers = {
            name: table.column(name).chunk(0).to_numpy()
            for name in ("tid", "row", "rows", "first_ms", "last_ms", "base", "exponent")
        }
        labels = table.column("labels").chunk(0)
        keys, values = labels.keys, labels.items
        return cls(
            **numbers,
            names={name: code for code, name in enumerate(keys.dictionary.to_pylist())},
            texts=values.dictionary.to_pylist(),
            offsets=labels.offsets.to_numpy(),
            keys=keys.indices.to_numpy(),
            values=values.indices.to_numpy(),
        )

    @property
    def count(self) -> int:
        return len(self.row)

    def has_labels_of(self, other: SeriesTable) -> bool:
        """Tell whether both have the same label sets, in the same order."""
        return (
            np.array_equal(self.values, other.values)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.offsets, other.offsets)
            and self.texts == other.texts
            and list(self.names) == list(other.names)
        )

    def codes(self, label: str) -> Int32s:
        found = self._codes.get(label)
        if found is None:
            found = np.full(self.count, -1, np.int32)
            if label in self.names:
                places = np.flatnonzero(self.keys == self.names[label])
                found[np.searchsorted(self.offsets, places, "right") - 1] = self.values[places]
            self._codes[label] = found
        return found

    def labels(self, number: int) -> Labels:
        """Return the label set of one series."""
        found = self._labels.get(number)
        if found is None:
            begin, end = int(self.offsets[number]), int(self.offsets[number + 1])
            names = list(self.names)
            found = tuple(
                (names[key], self.texts[value])
                for key, value in zip(
                    self.keys[begin:end].tolist(), self.values[begin:end].tolist(), strict=True
                )
            )
            self._labels[number] = found
        return found

    def matching(self, matchers: Sequence[Matcher], suffix: str = "") -> Flags:
        """Flag series that satisfy all matchers, with `suffix` behind their names."""
        found = np.ones(self.count, np.bool_)
        for matcher in matchers:
            behind = suffix if matcher.name == NAME_LABEL else ""
            found &= self._matching(matcher, behind)
        return found

    def overlapping(self, from_ms: int, to_ms: int) -> Flags:
        """Flag series with a sample that may lie in `(from_ms, to_ms]`."""
        found: Flags = (self.last_ms > from_ms) & (self.first_ms <= to_ms)
        return found

    def _matching(self, matcher: Matcher, behind: str) -> Flags:
        found = self._matches.get((matcher, behind))
        if found is None:
            match = self._match_regex if matcher.op.is_regex else self._match_text
            found = match(matcher, behind)
            self._matches.put((matcher, behind), found)
        return found

    def _match_text(self, matcher: Matcher, behind: str) -> Flags:
        codes = self.codes(matcher.name)
        if not matcher.value:  # absent, unless something stands behind the name
            equal = codes < 0 if not behind else np.zeros(self.count, np.bool_)
        elif not matcher.value.endswith(behind):
            equal = np.zeros(self.count, np.bool_)
        else:
            stored = matcher.value[: len(matcher.value) - len(behind)]
            code = self._places.get(stored, ABSENT if not stored else NOWHERE)
            equal = codes == code
        found: Flags = ~equal if matcher.op.is_negative else equal
        return found

    def _match_regex(self, matcher: Matcher, behind: str) -> Flags:
        codes = self.codes(matcher.name)
        used = np.unique(codes)
        if not len(used):
            return np.zeros(0, np.bool_)
        texts = [behind if code < 0 else self.texts[code] + behind for code in used.tolist()]
        matches = np.array(match_texts(matcher, texts), np.bool_)
        found: Flags = matches[np.searchsorted(used, codes)]
        return found

    @cached_property
    def families(self) -> UInt64s:
        """Return the family hash of each series, which decides its shard."""
        return family_hashes(self.names, self.texts, self.offsets, self.keys, self.values)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: code for code, text in enumerate(self.texts)}


def match_texts(matcher: Matcher, texts: list[str]) -> list[bool]:
    """Tell of each text whether it satisfies the matcher; an absent label is the empty text."""
    if matcher.op.is_regex:
        hits = regexp.full_matches(matcher.value, texts)
    else:
        hits = [text == matcher.value for text in texts]
    return [not hit for hit in hits] if matcher.op.is_negative else hits


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
    """Numbers of label sets, compared as numbers of their texts, whole tables at once."""

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
        """Copy the last table's numbers where series are the same, as hour after hour."""
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
