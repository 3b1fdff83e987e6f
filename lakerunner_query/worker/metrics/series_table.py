"""`SeriesTable` runs matchers on a segment's distinct label values, before any row is read.

Label sets are interned as numbers, the same in all segments, so that runs of one series meet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import pyarrow as pa
import xxhash

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
class LabelSets:
    """Label sets by series of a table; codes of a label are indexes into `texts`, -1 where it is absent."""

    offsets: Int32s
    keys: Int32s
    values: Int32s
    key_texts: pa.Array
    value_texts: pa.Array
    _codes: dict[str, Int32s] = field(default_factory=dict)
    _labels: dict[int, Labels] = field(default_factory=dict)
    _matches: ByteLru[tuple[Matcher, str], Flags] = field(default_factory=lambda: ByteLru(CACHED_MATCHERS))

    @classmethod
    def of(cls, labels: pa.MapArray) -> LabelSets:
        keys, values = labels.keys, labels.items
        return cls(
            labels.offsets.to_numpy(),
            keys.indices.to_numpy(),
            values.indices.to_numpy(),
            keys.dictionary,
            values.dictionary,
        )

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def key(self) -> tuple[int, ...]:
        """A key that equal label sets have in common."""
        return len(self.offsets), len(self.value_texts), xxhash.xxh3_64_intdigest(self.values.tobytes())

    def equals(self, other: LabelSets) -> bool:
        """Tell whether both are the same label sets, in the same order."""
        return (
            np.array_equal(self.values, other.values)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.offsets, other.offsets)
            and self.value_texts.equals(other.value_texts)
            and self.key_texts.equals(other.key_texts)
        )

    @cached_property
    def names(self) -> dict[str, int]:
        """Codes of label names in `keys`."""
        return {name: code for code, name in enumerate(self.key_texts.to_pylist())}

    @cached_property
    def texts(self) -> list[str]:
        found: list[str] = self.value_texts.to_pylist()
        return found

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

    def labels_of(self, numbers: Int64s) -> list[Labels]:
        """Return the label sets of many series."""
        sizes = (self.offsets[numbers + 1] - self.offsets[numbers]).astype(np.int64)
        entries = expand_runs(self.offsets[numbers].astype(np.int64), sizes)
        names, texts = list(self.names), self.texts
        pairs = [
            (names[key], texts[value])
            for key, value in zip(self.keys[entries].tolist(), self.values[entries].tolist(), strict=True)
        ]
        ends = np.cumsum(sizes)
        return [
            tuple(pairs[begin:end]) for begin, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)
        ]

    def matching(self, matchers: Sequence[Matcher], suffix: str = "") -> Flags:
        """Flag series that satisfy all matchers, with `suffix` behind their names."""
        found = np.ones(self.count, np.bool_)
        for matcher in matchers:
            behind = suffix if matcher.name == NAME_LABEL else ""
            found &= self._matching(matcher, behind)
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


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Columns by series, and their label sets."""

    sets: LabelSets
    tid: Int64s
    row: Int64s
    rows: Int64s
    first_ms: Int64s
    last_ms: Int64s
    base: Int64s
    exponent: Int32s

    @classmethod
    def of(cls, table: pa.Table, known: KnownLabelSets | None = None) -> SeriesTable:
        """Wrap the result of `series.read_table`; label sets that are known are shared."""
        numbers = {
            name: table.column(name).chunk(0).to_numpy()
            for name in ("tid", "row", "rows", "first_ms", "last_ms", "base", "exponent")
        }
        sets = LabelSets.of(table.column("labels").chunk(0))
        return cls(sets if known is None else known.one_of(sets), **numbers)

    @property
    def count(self) -> int:
        return len(self.row)

    @property
    def families(self) -> UInt64s:
        return self.sets.families

    def labels(self, number: int) -> Labels:
        return self.sets.labels(number)

    def matching(self, matchers: Sequence[Matcher], suffix: str = "") -> Flags:
        return self.sets.matching(matchers, suffix)

    def overlapping(self, from_ms: int, to_ms: int) -> Flags:
        """Flag series with a sample that may lie in `(from_ms, to_ms]`."""
        found: Flags = (self.last_ms > from_ms) & (self.first_ms <= to_ms)
        return found


class KnownLabelSets:
    """Label sets of tables in memory: hour after hour has the same, which are matched and numbered once."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[int, ...], LabelSets] = WeakValueDictionary()

    def one_of(self, sets: LabelSets) -> LabelSets:
        """Return those of an earlier table if they are the same."""
        key = sets.key
        found = self._known.get(key)
        if found is not None and found.equals(sets):
            return found
        self._known[key] = sets
        return sets


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
        self._of_sets: WeakKeyDictionary[LabelSets, Int64s] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, table: SeriesTable, chosen: Int64s) -> Int64s:
        """Return the numbers of these series of a table."""
        with self._lock:
            known = self._of_sets.get(table.sets)
            if known is None:
                known = self._of_sets[table.sets] = np.full(table.count, -1, np.int64)
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

    def _fill(self, table: SeriesTable, known: Int64s, unknown: Int64s) -> None:
        sets = table.sets
        sizes = (sets.offsets[unknown + 1] - sets.offsets[unknown]).astype(np.int64)
        entries = expand_runs(sets.offsets[unknown].astype(np.int64), sizes)
        pairs = self._text_numbers(list(sets.names), sets.keys[entries]) << 32
        pairs |= self._text_numbers(sets.texts, sets.values[entries])
        guessed = np.array([self._by_id.get(tid, -1) for tid in table.tid[unknown].tolist()], np.int64)
        right = self._have_pairs(guessed, sizes, pairs)
        known[unknown[right]] = guessed[right]
        wrong = np.flatnonzero(~right)
        if len(wrong):
            entries = expand_runs((np.cumsum(sizes) - sizes)[wrong], sizes[wrong])
            known[unknown[wrong]] = self._intern(table, unknown[wrong], sizes[wrong], pairs[entries])

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

    def _intern(self, table: SeriesTable, series: Int64s, sizes: Int64s, pairs: Int64s) -> list[int]:
        """Number label sets; labels become Python objects only where no other table had them."""
        raw, ends = pairs.tobytes(), np.cumsum(sizes)
        bounds = np.stack((ends - sizes, ends), axis=1) * pairs.itemsize
        keys = [raw[begin:end] for begin, end in bounds.tolist()]
        new: dict[bytes, int] = {}
        for place, key in enumerate(keys):
            if key not in self._numbers:
                new.setdefault(key, place)
        if new:
            chosen = np.fromiter(new.values(), np.int64, len(new))
            entries = expand_runs((ends - sizes)[chosen], sizes[chosen])
            self._append(new, table.sets.labels_of(series[chosen]), table.tid[series[chosen]], pairs[entries])
            self._ends += (self._ends[-1] + np.cumsum(sizes[chosen])).tolist()
        return [self._numbers[key] for key in keys]

    def _append(self, keys: Iterable[bytes], labels: list[Labels], ids: Int64s, pairs: Int64s) -> None:
        first = len(self.labels)
        self.labels += labels
        self._numbers.update(zip(keys, range(first, len(self.labels)), strict=True))
        for number, tid in enumerate(ids.tolist(), first):
            self._by_id.setdefault(tid, number)
        begin, end = self._ends[-1], self._ends[-1] + len(pairs)
        if end > len(self._pairs):
            more = np.zeros(max(len(self._pairs), len(pairs)), np.int64)
            self._pairs = np.concatenate([self._pairs, more])
        self._pairs[begin:end] = pairs

    def _text_numbers(self, texts: list[str], codes: Int32s) -> Int64s:
        """Return the numbers of texts, the same for all tables."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(texts)))
        numbers = [self._texts.setdefault(texts[code], len(self._texts)) for code in used.tolist()]
        by_code = np.zeros(len(texts), np.int64)
        by_code[used] = numbers
        found: Int64s = by_code[codes]
        return found
