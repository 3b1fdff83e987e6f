"""`SeriesTable` runs matchers on the distinct label values of a segment, before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakerunner_query.gotext import regexp
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.metrics.shards import family_hashes
from lakerunner_query.worker.shared.lru import ByteLru
from resources.arrays import Flags, Int32s, Int64s, UInt64s
from resources.lake.series import NAME_LABEL
from resources.lake.streams import Labels

ABSENT, NOWHERE = -1, -2
"""Codes of no value, and of a value that no series has."""
CACHED_MATCHERS = 128
"""Matchers whose result a table keeps: dashboards repeat them."""


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
