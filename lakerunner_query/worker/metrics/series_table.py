"""The series table of one segment as columns: matchers run on its distinct values, before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakerunner_query.gotext import regexp
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.metrics.families import families
from resources.arrays import Flags, Int32s, Int64s, UInt64s
from resources.lake.series import NAME_LABEL
from resources.lake.streams import Labels

ABSENT, NOWHERE = -1, -2
"""Codes of no value, and of a value that no series has."""
REMEMBERED = 128
"""Matchers of which a table knows the answer."""


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Rows of the table by number; `codes` of a label are places in `texts`, -1 where it is absent."""

    tid: Int64s
    row: Int64s
    rows: Int64s
    first_ms: Int64s
    last_ms: Int64s
    base: Int64s
    exponent: Int32s
    names: dict[str, int]
    """Label names, and their codes in `keys`."""
    texts: list[str]
    offsets: Int32s
    keys: Int32s
    values: Int32s
    _codes: dict[str, Int32s] = field(default_factory=dict)
    _labels: dict[int, Labels] = field(default_factory=dict)
    _found: dict[tuple[Matcher, str], Flags] = field(default_factory=dict)

    @classmethod
    def of(cls, table: pa.Table) -> SeriesTable:
        """From `series.read_table`."""
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

    @property
    def nbytes(self) -> int:
        """About what it takes in memory, label sets that were made into values included."""
        return 56 * self.count + 8 * len(self.keys) + sum(map(len, self.texts)) + 200 * len(self._labels)

    def has_labels_of(self, other: SeriesTable) -> bool:
        """Whether both have the same label sets, in the same order."""
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
        """The label set of one series."""
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
        """Which series satisfy all matchers, with `suffix` behind their names."""
        found = np.ones(self.count, np.bool_)
        for matcher in matchers:
            behind = suffix if matcher.name == NAME_LABEL else ""
            found &= self._satisfying(matcher, behind)
        return found

    def overlapping(self, from_ms: int, to_ms: int) -> Flags:
        """Which have a sample that may lie in `(from_ms, to_ms]`."""
        found: Flags = (self.last_ms > from_ms) & (self.first_ms <= to_ms)
        return found

    def _satisfying(self, matcher: Matcher, behind: str) -> Flags:
        """Remembered: dashboards ask for the same again and again."""
        found = self._found.get((matcher, behind))
        if found is None:
            found = (
                self._equal(matcher, behind) if not matcher.op.is_regex else self._fitting(matcher, behind)
            )
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            self._found[matcher, behind] = found
        return found

    def _equal(self, matcher: Matcher, behind: str) -> Flags:
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

    def _fitting(self, matcher: Matcher, behind: str) -> Flags:
        codes = self.codes(matcher.name)
        used = np.unique(codes)
        if not len(used):
            return np.zeros(0, np.bool_)
        texts = [behind if code < 0 else self.texts[code] + behind for code in used.tolist()]
        verdict = np.array(verdicts(matcher, texts), np.bool_)
        found: Flags = verdict[np.searchsorted(used, codes)]
        return found

    @cached_property
    def families(self) -> UInt64s:
        """By series: what decides its shard."""
        return families(self.names, self.texts, self.offsets, self.keys, self.values)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: code for code, text in enumerate(self.texts)}


def verdicts(matcher: Matcher, texts: list[str]) -> list[bool]:
    """Whether each text satisfies the matcher; an absent label is the empty text."""
    if matcher.op.is_regex:
        hits = regexp.full_matches(matcher.value, texts)
    else:
        hits = [text == matcher.value for text in texts]
    return [not hit for hit in hits] if matcher.op.is_negative else hits
