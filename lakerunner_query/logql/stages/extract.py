"""Parsers of lines: fields are scanned, named, and placed as labels of a frame.

Scanners number keys as they meet them. After a first run over few lines the keys are told apart into wanted
and unwanted ones, so that only fields that somebody looks at are written down from then on; fields of keys
that turned up later are dropped behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.frame import (
    ABSENT,
    Category,
    Column,
    LogFrame,
    encode_column,
    is_base,
    of_texts,
    overlay,
    was_parsed,
)
from lakerunner_query.logql.kernels.fields import (
    PATHS,
    TOKENS,
    Paths,
    Tokens,
    by_code,
    place_paths,
)
from lakerunner_query.logql.kernels.strings import Text
from lakerunner_query.logql.lang.ast import ERROR, ERROR_DETAILS, EXTRACTED
from lakerunner_query.logql.lang.stage_functions import Names
from resources.arrays import Bytes, Flags, Int32s, Int64s

_REFUSED = re.compile(r"[^a-zA-Z0-9_]")


def label_name(key: str, *, begins: bool = True) -> str:
    """Make a label name, or a later part of one, out of a key; other characters become underscores.

    >>> label_name(" cou-nter "), label_name("1 1"), label_name("1", begins=False)
    ('cou_nter', '_1_1', '1')
    """
    key = key.strip()
    if begins and key[:1].isascii() and key[:1].isdigit():
        key = "_" + key
    return _REFUSED.sub("_", key)


def nested_name(parent: str, key: str) -> str:
    """Name a field within an object; an empty name leaves no trace.

    >>> nested_name("pod", "uuid"), nested_name("", "uuid"), nested_name("pod", " ")
    ('pod_uuid', 'uuid', 'pod')
    """
    own = label_name(key, begins=not parent)
    return f"{parent}_{own}" if parent and own else parent or own


Scan = Callable[[int, int, Tokens, Paths, Int64s], int]
"""Scan rows [first, last); return the first one that had no room any more, or last."""
TokenScan = Callable[[int, int, Tokens, Int64s], int]
"""Scan without paths."""
Named = Callable[[str | None, str], str]
"""Name a key within the name of its parent."""
FIRST_ROWS, NEXT_ROWS = 1 << 10, 1 << 16
FEW_PATHS, MOST_PATHS = 1 << 8, 1 << 20


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of lines: field i is label `names[name[i]]` of row `row[i]`."""

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
        """Copy fields under these labels, each with the number of a name; two labels may share a name."""
        picked = [np.flatnonzero(self.name == number) for _, number in labels]
        index = np.concatenate([*picked, np.zeros(0, np.int64)]).astype(np.int64)
        names = list(dict.fromkeys(label for label, _ in labels))
        code = np.array([names.index(label) for label, _ in labels], np.int32)
        name = np.repeat(code, [len(one) for one in picked])
        order = np.argsort(index, kind="stable")
        return replace(self.take(index[order]), names=names, name=name[order])


def is_wanted(name: str, wanted: Names) -> bool:
    """Tell whether a field of this name may become a label that is looked at."""
    return wanted is None or name in wanted or name + EXTRACTED in wanted


class Scanner:
    """One scan over all lines: room that grows, and names of the keys that were met."""

    def __init__(self, text: Text, named: Named, key_text: Callable[[bytes], str], wanted: Names) -> None:
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
        """Name the paths met since the last time, and mark those that nobody looks at."""
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
    """Run a scanner that knows all names beforehand: its paths are numbers of `names`."""
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


def fill_missing(frame: LogFrame, missing: dict[str, Flags], wanted: Names) -> LogFrame:
    """Set labels that an extraction names and a line does not have: empty, not absent."""
    labels = dict(frame.labels)
    for name, flags in missing.items():
        rows = np.flatnonzero(flags).astype(np.int64)
        if len(rows) and (wanted is None or name in wanted):
            empty = Column(np.zeros(len(rows), np.int32), pa.array([""], pa.string()), Category.PARSED)
            labels[name] = overlay(labels.get(name), rows, empty, frame.count)
    return frame.with_labels(labels)


JSON_PARSER = "JSONParserErr"
LOGFMT_PARSER = "LogfmtParserErr"
LABEL_FILTER = "LabelFilterErr"
SAMPLE_EXTRACTION = "SampleExtractionErr"


def mark_failed(frame: LogFrame, rows: Int64s, kind: str, details: Int32s, texts: Sequence[str]) -> LogFrame:
    """Set `__error__` of rows that a stage could not process; `details` are codes of `texts`, or `ABSENT`."""
    if not len(rows):
        return frame
    error = Column(np.zeros(len(rows), np.int32), pa.array([kind], pa.string()), Category.PARSED)
    there = details >= 0
    said = encode_column(details[there], pa.array(list(texts), pa.string()), Category.PARSED)
    labels = dict(frame.labels)
    labels[ERROR] = overlay(labels.get(ERROR), rows, error, frame.count)
    if there.any():
        labels[ERROR_DETAILS] = overlay(labels.get(ERROR_DETAILS), rows[there], said, frame.count)
    return frame.with_labels(labels)


Decode = Callable[[Bytes, Int64s, Int32s, Flags], pa.StringArray]
"""Decode slices to texts."""

MOST_CELLS = 1 << 28
REPLACEMENT = "\ufffd"
"""Character that bytes outside UTF-8 became when they came in; no label of Prometheus may have it."""


class Choice(Enum):
    """Rule that chooses between several values of one name."""

    FIRST = "first"
    """First value, or none if an earlier stage has given the row that label."""
    LAST = "last"
    """Last value, or none in the same case."""
    LATEST = "latest"
    """Last value, whatever earlier stages have given the row."""
    LATEST_OF_OWN_NAME = "latest of own name"
    """Last value under its own name; as `FIRST` where that is taken and the field goes under another."""


def place_labels(
    frame: LogFrame, fields: Fields, wanted: Names, decode: Decode, choice: Choice = Choice.FIRST
) -> LogFrame:
    """Add the wanted fields to the frame as labels.

        stream app="web", line app=db app=x  ->  app="web", app_extracted="db"

    A label of the stream or the metadata keeps its name, the parsed value moves to `<name>_extracted`; of
    fields with one name the first stands, and so does a value that an earlier parser found. A label that was
    taken away since does not come back.
    """
    renamed = _avoid_clashes(frame, fields)
    order, begins = by_code(renamed.name, len(renamed.names))
    labels = dict(frame.labels)
    for number, name in _found(renamed.names, begins, wanted, frame.count):
        found = order[begins[number] : begins[number + 1]]
        rule = _choice_for(choice, clashes=number >= len(fields.names))
        chosen = _one_of_each(renamed.row, found, is_last=rule is not Choice.FIRST)
        if rule is not Choice.LATEST:
            chosen = chosen[~was_parsed(frame, name)[renamed.row[chosen]]]
        if len(chosen):
            values = _column(renamed, chosen, decode)
            at = renamed.row[chosen].astype(np.int64)
            labels[name] = overlay(labels.get(name), at, values, frame.count)
    return frame.with_labels(labels)


def _choice_for(choice: Choice, *, clashes: bool) -> Choice:
    if choice is Choice.LATEST_OF_OWN_NAME:
        return Choice.FIRST if clashes else Choice.LATEST
    return choice


def _found(names: list[str], begins: Int64s, wanted: Names, rows: int) -> Iterator[tuple[int, str]]:
    chosen = [
        (number, name)
        for number, name in enumerate(names)
        if begins[number + 1] > begins[number] and (wanted is None or name in wanted)
    ]
    if len(chosen) * rows > MOST_CELLS:
        raise LimitExceededError(
            f"a parser makes {len(chosen)} labels of {rows} lines; keep the wanted ones (| keep a, b), or "
            'name them: | json a="b"'
        )
    yield from chosen


def _avoid_clashes(frame: LogFrame, fields: Fields) -> Fields:
    """Rename fields of rows that have the label already, from their stream or metadata."""
    name = fields.name
    names = list(fields.names)
    code = {known: number for number, known in enumerate(names)}
    for number, known in enumerate(fields.names):
        base = is_base(frame, known)
        if base.any():
            other = code.setdefault(known + EXTRACTED, len(names))
            if other == len(names):
                names.append(known + EXTRACTED)
            name = np.where((fields.name == number) & base[fields.row], other, name).astype(np.int32)
    return Fields(fields.data, names, name, fields.row, fields.start, fields.length, fields.escaped)


def _one_of_each(row: Int32s, found: Int64s, *, is_last: bool) -> Int64s:
    """Choose one field of each row; they come in the order of rows."""
    rows = row[found]
    chosen = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=chosen[:-1] if is_last else chosen[1:])
    return found if chosen.all() else found[chosen]


def _column(fields: Fields, chosen: Int64s, decode: Decode) -> Column:
    start, length, escaped = fields.start[chosen], fields.length[chosen], fields.escaped[chosen]
    return of_texts(decode(fields.data, start, length, escaped))


def repair_text(values: pa.StringArray) -> pa.StringArray:
    """Put a space for every U+FFFD."""
    return pc.replace_substring(values, REPLACEMENT, " ") if holds_replacement(values) else values


def holds_replacement(values: pa.StringArray) -> bool:
    """Look for U+FFFD in the bytes of all values at once."""
    data = values.buffers()[2]
    return data is not None and REPLACEMENT.encode() in data.to_pybytes()
