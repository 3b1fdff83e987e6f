"""Runs a scanner of fields over all lines, with as much room as it turns out to need.

The scanner numbers keys as it meets them. After a first run over few lines those are told apart into wanted
and unwanted, so that only fields that somebody looks at are written down from then on; fields of keys that
turned up later are dropped behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.evaluate.logs.frame import ABSENT
from lakerunner_query.evaluate.logs.kernels.fields import PATHS, TOKENS, Paths, Tokens, place_paths
from lakerunner_query.evaluate.logs.kernels.text import Text
from lakerunner_query.evaluate.logs.stages.names import EXTRACTED
from resources.arrays import Bytes, Flags, Int32s, Int64s

Scan = Callable[[int, int, Tokens, Paths, Int64s], int]
"""Scan rows [first, last) and say which could not be scanned any more for want of room."""
TokenScan = Callable[[int, int, Tokens, Int64s], int]
"""The same without paths."""
Named = Callable[[str | None, str], str]
"""The label name of a key within the name of its parent."""
Wanted = frozenset[str] | None

FIRST_ROWS, NEXT_ROWS = 1 << 10, 1 << 16
FEW_PATHS, MOST_PATHS = 1 << 8, 1 << 20


@dataclass(frozen=True, slots=True)
class Fields:
    """What was found: field i is label `names[name[i]]` of row `row[i]`."""

    data: Bytes
    names: list[str]
    name: Int32s
    row: Int32s
    start: Int64s
    length: Int32s
    escaped: Flags

    def where(self, kept: Flags) -> Fields:
        return self if kept.all() else self.take(np.flatnonzero(kept).astype(np.int64))

    def take(self, index: Int64s) -> Fields:
        return Fields(
            self.data,
            self.names,
            self.name[index],
            self.row[index],
            self.start[index],
            self.length[index],
            self.escaped[index],
        )

    def relabelled(self, labels: list[tuple[str, int]]) -> Fields:
        """As these labels, each with the name it stands for; two may ask for one name."""
        picked = [np.flatnonzero(self.name == number) for _, number in labels]
        index = np.concatenate([*picked, np.zeros(0, np.int64)]).astype(np.int64)
        names = list(dict.fromkeys(label for label, _ in labels))
        code = np.array([names.index(label) for label, _ in labels], np.int32)
        name = np.repeat(code, [len(one) for one in picked])
        order = np.argsort(index, kind="stable")
        return replace(self.take(index[order]), names=names, name=name[order])


def is_wanted(name: str, wanted: Wanted) -> bool:
    """Whether a field of this name may become a label that is looked at."""
    return wanted is None or name in wanted or name + EXTRACTED in wanted


class Scanner:
    """The room of one scan, and the names of what it found."""

    def __init__(self, text: Text, named: Named, key_text: Callable[[bytes], str], wanted: Wanted) -> None:
        self._text = text
        self._named = named
        self._key_text = key_text
        self._wanted = wanted
        self._rows = len(text.offsets) - 1
        self._tokens = _tokens(max(1 << 12, self._rows * (8 if wanted is None else len(wanted) + 1)))
        self._paths = _paths(FEW_PATHS)
        self._counts = np.zeros(2, np.int64)
        self._names: list[str] = []

    def run(self, scan: Scan) -> Fields:
        row = 0
        for last in self._blocks():
            while row < last:
                row = scan(row, last, self._tokens, self._paths, self._counts)
                if row < last:
                    self._make_room()
            self._name_paths()
        return self._fields()

    def _blocks(self) -> Iterator[int]:
        yield min(FIRST_ROWS, self._rows)
        yield from range(FIRST_ROWS + NEXT_ROWS, self._rows, NEXT_ROWS)
        yield self._rows

    def _make_room(self) -> None:
        if self._counts[PATHS] == len(self._paths.parent):
            if len(self._paths.parent) == MOST_PATHS:
                raise LimitExceededError(
                    f"the lines have more than {MOST_PATHS} different keys; name the wanted ones: "
                    '| json a="b" or | logfmt a="b"'
                )
            self._paths = _larger_paths(self._paths)
        else:
            self._tokens = _larger_tokens(self._tokens)

    def _name_paths(self) -> None:
        """Name what was met since the last time, and say whether anybody looks at it."""
        for path in range(len(self._names), int(self._counts[PATHS])):
            start, length = int(self._paths.start[path]), int(self._paths.length[path])
            key = self._key_text(self._text.data[start : start + length].tobytes())
            parent = int(self._paths.parent[path])
            name = self._named(None if parent < 0 else self._names[parent], key)
            self._names.append(name)
            self._paths.unwanted[path] = not is_wanted(name, self._wanted)

    def _fields(self) -> Fields:
        names = list(dict.fromkeys(self._names))
        code = {name: number for number, name in enumerate(names)}
        of_path = np.array([code[name] for name in self._names], np.int32)
        used = int(self._counts[TOKENS])
        path = self._tokens.path[:used]
        fields = Fields(
            self._text.data,
            names,
            of_path[path] if len(of_path) else np.zeros(0, np.int32),
            self._tokens.row[:used],
            self._tokens.start[:used],
            self._tokens.length[:used],
            self._tokens.escaped[:used],
        )
        return fields.where(~self._paths.unwanted[path])


def _tokens(count: int) -> Tokens:
    return Tokens(
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int32),
        np.empty(count, np.bool_),
    )


def _larger_tokens(tokens: Tokens) -> Tokens:
    count = len(tokens.row)
    larger = _tokens(count * 2)
    larger.row[:count] = tokens.row
    larger.path[:count] = tokens.path
    larger.start[:count] = tokens.start
    larger.length[:count] = tokens.length
    larger.escaped[:count] = tokens.escaped
    return larger


def _paths(count: int) -> Paths:
    return Paths(
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int32),
        np.empty(count, np.uint64),
        np.full(count + 1, ABSENT, np.int32),
        np.zeros(count, np.bool_),
        np.full(count * 2, ABSENT, np.int32),
    )


def _larger_paths(paths: Paths) -> Paths:
    count = len(paths.parent)
    larger = _paths(count * 4)
    larger.parent[:count] = paths.parent
    larger.start[:count] = paths.start
    larger.length[:count] = paths.length
    larger.hash[:count] = paths.hash
    larger.follower[: count + 1] = paths.follower
    larger.unwanted[:count] = paths.unwanted
    place_paths(larger.table, larger.hash, count)
    return larger


def grown_scan(text: Text, scan: TokenScan, names: list[str]) -> Fields:
    """What a scanner finds that knows all names beforehand: its paths are numbers of `names`."""
    rows = len(text.offsets) - 1
    tokens, counts = _tokens(max(1 << 10, rows * len(names))), np.zeros(2, np.int64)
    row = 0
    while row < rows:
        row = scan(row, rows, tokens, counts)
        if row < rows:
            tokens = _larger_tokens(tokens)
    used = int(counts[TOKENS])
    name, row_of = tokens.path[:used], tokens.row[:used]
    span = tokens.start[:used], tokens.length[:used], tokens.escaped[:used]
    return Fields(text.data, names, name, row_of, *span)
