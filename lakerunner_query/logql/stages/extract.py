"""Runs a scanner of fields over all lines, with as much room as it turns out to need.

The scanner numbers keys as it meets them. After a first run over few lines those are told apart into wanted
and unwanted, so that only fields that somebody looks at are written down from then on; fields of keys that
turned up later are dropped behind.
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
    ERROR,
    ERROR_DETAILS,
    Category,
    Column,
    LogFrame,
    coded,
    is_base,
    overlaid,
    was_parsed,
)
from lakerunner_query.logql.kernels.distinct import (
    PATHS,
    TOKENS,
    Paths,
    Tokens,
    by_code,
    code_spans,
    place_paths,
)
from lakerunner_query.logql.kernels.strings import Text
from resources.arrays import Bytes, Flags, Int32s, Int64s

# << Label names out of the keys of lines: what Prometheus would not take becomes an underscore.

_REFUSED = re.compile(r"[^a-zA-Z0-9_]")
EXTRACTED = "_extracted"


def sanitised(key: str, *, begins: bool = True) -> str:
    """A key as a label name, or as a later part of one.

    >>> sanitised(" cou-nter "), sanitised("1 1"), sanitised("1", begins=False)
    ('cou_nter', '_1_1', '1')
    """
    key = key.strip()
    if begins and key[:1].isascii() and key[:1].isdigit():
        key = "_" + key
    return _REFUSED.sub("_", key)


def joined(parent: str, key: str) -> str:
    """The name of a field within an object; an empty name leaves no trace.

    >>> joined("pod", "uuid"), joined("", "uuid"), joined("pod", " ")
    ('pod_uuid', 'uuid', 'pod')
    """
    own = sanitised(key, begins=not parent)
    return f"{parent}_{own}" if parent and own else parent or own


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


# << Labels that an extraction names and a line does not have: empty, not absent.


def filled(frame: LogFrame, missing: dict[str, Flags], wanted: Wanted) -> LogFrame:
    """Each label, where it is missing, as an empty one."""
    labels = dict(frame.labels)
    for name, flags in missing.items():
        rows = np.flatnonzero(flags).astype(np.int64)
        if len(rows) and (wanted is None or name in wanted):
            empty = Column(np.zeros(len(rows), np.int32), pa.array([""], pa.string()), Category.PARSED)
            labels[name] = overlaid(labels.get(name), rows, empty, frame.count)
    return frame.with_labels(labels)


# << Rows that a stage could not process: kept, with the label `__error__` and what it says.

JSON_PARSER = "JSONParserErr"
LOGFMT_PARSER = "LogfmtParserErr"
LABEL_FILTER = "LabelFilterErr"
SAMPLE_EXTRACTION = "SampleExtractionErr"


def failed(frame: LogFrame, rows: Int64s, kind: str, details: Int32s, texts: Sequence[str]) -> LogFrame:
    """`rows` with an error of this kind; `details` are codes into `texts`, `ABSENT` where there are none."""
    if not len(rows):
        return frame
    error = Column(np.zeros(len(rows), np.int32), pa.array([kind], pa.string()), Category.PARSED)
    there = details >= 0
    said = coded(details[there], pa.array(list(texts), pa.string()), Category.PARSED)
    labels = dict(frame.labels)
    labels[ERROR] = overlaid(labels.get(ERROR), rows, error, frame.count)
    if there.any():
        labels[ERROR_DETAILS] = overlaid(labels.get(ERROR_DETAILS), rows[there], said, frame.count)
    return frame.with_labels(labels)


# << Makes labels of the fields that a parser found.
# <<
# <<     stream app="web", line app=db app=x  ->  app="web", app_extracted="db"
# <<
# << What a row has from its stream or its metadata keeps its name, the parsed value moves to
# << `<name>_extracted`;
# << of fields with one name the first stands, and so does what an earlier parser found. A label that was
# << taken
# << away since does not come back.

Decode = Callable[[Bytes, Int64s, Int32s, Flags], tuple[pa.StringArray, bool]]
"""Slices as texts, escapes resolved, and whether some may have become equal by it."""

MOST_CELLS = 1 << 28
REPLACEMENT = "\ufffd"
"""What bytes that are no UTF-8 have become when they came in; Prometheus would not take it in a label."""


class Which(Enum):
    """Which of several values of one name a row gets."""

    FIRST = "first"
    """Or none, if an earlier stage has given it that label."""
    LAST = "last"
    """Or none, as well."""
    LATEST = "latest"
    """The last, whatever earlier stages have given it."""
    LATEST_OF_OWN_NAME = "latest of own name"
    """The same, but under another name, where the own one is taken, as `FIRST`."""


def placed(
    frame: LogFrame, fields: Fields, wanted: Wanted, decode: Decode, which: Which = Which.FIRST
) -> LogFrame:
    """The frame with the fields as labels, those that are wanted."""
    renamed = _renamed(frame, fields)
    order, begins = by_code(renamed.name, len(renamed.names))
    labels = dict(frame.labels)
    for number, name in _found(renamed.names, begins, wanted, frame.count):
        found = order[begins[number] : begins[number + 1]]
        meant = _meant(which, clashes=number >= len(fields.names))
        chosen = _one_of_each(renamed.row, found, is_last=meant is not Which.FIRST)
        if meant is not Which.LATEST:
            chosen = chosen[~was_parsed(frame, name)[renamed.row[chosen]]]
        if len(chosen):
            values = _column(renamed, chosen, decode)
            at = renamed.row[chosen].astype(np.int64)
            labels[name] = overlaid(labels.get(name), at, values, frame.count)
    return frame.with_labels(labels)


def _meant(which: Which, *, clashes: bool) -> Which:
    if which is Which.LATEST_OF_OWN_NAME:
        return Which.FIRST if clashes else Which.LATEST
    return which


def _found(names: list[str], begins: Int64s, wanted: Wanted, rows: int) -> Iterator[tuple[int, str]]:
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


def _renamed(frame: LogFrame, fields: Fields) -> Fields:
    """Fields of rows that have the label already, from elsewhere, under their other name."""
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
    """Of fields in the order of rows, one of each row."""
    rows = row[found]
    chosen = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=chosen[:-1] if is_last else chosen[1:])
    return found if chosen.all() else found[chosen]


def _column(fields: Fields, chosen: Int64s, decode: Decode) -> Column:
    start, length, escaped = fields.start[chosen], fields.length[chosen], fields.escaped[chosen]
    codes, first = code_spans(fields.data, start, length, escaped)
    values, may_repeat = decode(fields.data, start[first], length[first], escaped[first])
    return coded(codes, values, Category.PARSED) if may_repeat else Column(codes, values, Category.PARSED)


def repaired(values: pa.StringArray, replacement: str = " ") -> tuple[pa.StringArray, bool]:
    """Values with a space for what was no UTF-8, and whether there was any."""
    if not holds_replacement(values):
        return values, False
    return pc.replace_substring(values, REPLACEMENT, replacement), True


def holds_replacement(values: pa.StringArray) -> bool:
    """Quickly: in the bytes of all of them."""
    data = values.buffers()[2]
    return data is not None and REPLACEMENT.encode() in data.to_pybytes()
