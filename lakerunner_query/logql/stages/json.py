"""`| json` and `| unpack`: fields of an object become labels, objects within it flattened.

    {"a":1,"b":{"c":"x"},"d":[1],"e":null}  ->  a="1", b_c="x"

Arrays and nulls are skipped, numbers and booleans are the text they are written as. A line that is no object
keeps its labels and gets `__error__="JSONParserErr"`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import ABSENT, LogFrame, is_base, present
from lakerunner_query.logql.kernels import json_text
from lakerunner_query.logql.kernels.fields import Paths, Tokens
from lakerunner_query.logql.kernels.json_scan import DEEPEST, Tree, scan_paths, scan_rows
from lakerunner_query.logql.kernels.json_text import (
    OBJECT_ERROR,
    OPEN_OBJECT,
    QUOTE,
    START_ERROR,
    unescaped_spans,
)
from lakerunner_query.logql.kernels.strings import Text, strings, text_of
from lakerunner_query.logql.lang.ast import Extraction
from lakerunner_query.logql.lang.stage_functions import Names
from lakerunner_query.logql.stages.extract import (
    JSON_PARSER,
    Choice,
    Fields,
    Scanner,
    fill_missing,
    grown_scan,
    is_wanted,
    label_name,
    mark_failed,
    nested_name,
    place_labels,
    repair_text,
)
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s

DETAILS = {
    json_text.OBJECT_ERROR: "Value looks like object, but can't find closing '}' symbol",
    json_text.JSON_ERROR: "Malformed JSON error",
    json_text.STRING_ERROR: "Value is string, but can't find closing '\"' symbol",
    json_text.ARRAY_ERROR: "Value is array, but can't find closing ']' symbol",
    json_text.UNKNOWN_ERROR: "Unknown value type",
    json_text.ESCAPE_ERROR: "Encountered an invalid escape sequence in a string",
    json_text.DEPTH_ERROR: f"more than {DEEPEST} objects within objects",
}
_CODES = np.full(json_text.LAST_ERROR + 1, ABSENT, np.int32)
_CODES[list(DETAILS)] = range(len(DETAILS))


def json_fields(frame: LogFrame, wanted: Names) -> LogFrame:
    text = text_of(frame.line)
    errors = np.zeros(frame.count, np.int8)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        return int(scan_rows(text.data, text.offsets, first, last, False, tokens, paths, counts, errors))

    fields = Scanner(text, _name, _key_text, wanted).run(scan)
    found = place_labels(frame, fields, wanted, unescaped_json)
    return with_json_errors(found, np.where(_is_complete(found, wanted), 0, errors).astype(np.int8))


def _is_complete(frame: LogFrame, wanted: Names) -> Flags:
    """Flag rows whose line has all wanted labels: Loki reads no further and sees no error there.

    Where `__error__` is wanted there is none: no line has such a field.
    """
    names = wanted or frozenset()
    found = np.full(frame.count, bool(names))
    for name in names:
        found &= present(frame, name) & ~is_base(frame, name)
    return found


def with_json_errors(frame: LogFrame, errors: Int8s) -> LogFrame:
    rows = np.flatnonzero(errors).astype(np.int64)
    return mark_failed(frame, rows, JSON_PARSER, _CODES[errors[rows]], list(DETAILS.values()))


def unescaped_json(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> pa.StringArray:
    """Resolve escapes; a text with a broken one is empty."""
    return repair_text(strings(*unescaped_spans(data, start, length, escaped, True)))


def key_text(raw: bytes) -> str:
    """Resolve the escapes of a key."""
    data = np.frombuffer(raw, np.uint8)
    span = np.zeros(1, np.int64), np.array([len(raw)], np.int32), np.ones(1, np.bool_)
    text, _ = unescaped_spans(data, *span, False)
    return text.tobytes().decode(errors="replace")


def _key_text(raw: bytes) -> str:
    return key_text(raw) if b"\\" in raw else raw.decode(errors="replace")


def _name(parent: str | None, key: str) -> str:
    return label_name(key) if parent is None else nested_name(parent, key)


Path = tuple[str | int, ...]


def json_paths(frame: LogFrame, extractions: tuple[Extraction, ...], wanted: Names) -> LogFrame:
    """Make labels of the values at these paths only.

        json x="user.id", y="no" on {"user":{"id":7}}  ->  x="7", y=""

    Objects and arrays are their text. A path that leads nowhere gives an empty label, unless the row has one
    of that name.
    """
    chosen = [one for one in extractions if is_wanted(one.name, wanted)]
    text = text_of(frame.line)
    tree, node_of = tree_of(one.path for one in chosen)
    errors = np.zeros(frame.count, np.int8)
    deepest = max((len(one.path) for one in chosen), default=0)

    def scan(first: int, last: int, tokens: Tokens, counts: Int64s) -> int:
        return int(scan_paths(text.data, text.offsets, first, last, tree, deepest, tokens, counts, errors))

    found = grown_scan(text, scan, [""] * len(tree.ends))
    fields = found.relabelled([(one.name, node_of[one.path]) for one in chosen])
    frame = place_labels(frame, fields, wanted, unescaped_json, Choice.LATEST)
    parsed = (np.diff(text.offsets) > 0) & (errors != START_ERROR)
    frame = fill_missing(frame, {one.name: parsed & ~present(frame, one.name) for one in chosen}, wanted)
    return with_json_errors(frame, errors)


def tree_of(paths: Iterable[Path]) -> tuple[Tree, dict[Path, int]]:
    """Merge paths into one tree; return it and the node at which each path ends."""
    edges: dict[tuple[int, str | int], int] = {}
    ends: dict[Path, int] = {}
    for path in paths:
        node = 0
        for part in path:
            node = edges.setdefault((node, part), len(edges) + 1)
        ends[path] = node
    keys = [part.encode() if isinstance(part, str) else b"" for _, part in edges]
    marked = np.zeros(len(edges) + 1, np.bool_)
    marked[list(ends.values())] = True
    leads_on = np.zeros(len(edges) + 1, np.bool_)
    leads_on[[parent for parent, _ in edges]] = True
    return Tree(
        np.array([parent for parent, _ in edges], np.int32),
        np.frombuffer(b"".join(keys), np.uint8),
        np.cumsum([0, *map(len, keys)], dtype=np.int32),
        np.array([-1 if isinstance(part, str) else part for _, part in edges], np.int64),
        marked,
        leads_on,
    ), ends


ENTRY = "_entry"
_LINE = "\0line"
"""Name that no label has, for the packed line."""
_NO_OBJECT = "expecting json object(6), but it is not"


def unpack(frame: LogFrame, wanted: Names) -> LogFrame:
    """Take apart what the `pack` stage of an agent put together.

        {"app":"web","n":1,"_entry":"the line"}  ->  app="web", and "the line"

    Only fields with text become labels, and only of lines that have an `_entry`.
    """
    text = text_of(frame.line)
    errors = np.zeros(frame.count, np.int8)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        return int(scan_rows(text.data, text.offsets, first, last, True, tokens, paths, counts, errors))

    scanned = None if wanted is None else wanted | {_LINE}
    fields = Scanner(text, _name_entry, key_text, scanned).run(scan)
    is_object, is_empty = _begins(text)
    errors[~is_object] = OBJECT_ERROR
    errors[is_empty] = 0
    fields = fields.where(_is_text(fields) & (errors == 0)[fields.row])
    entries = fields.where(_is_entry(fields))
    packed = np.zeros(frame.count, np.bool_)
    packed[entries.row] = True
    labels = fields.where(packed[fields.row] & ~_is_entry(fields))
    frame = place_labels(frame, labels, wanted, unescaped_json, Choice.LAST)
    frame = with_json_errors(_with_entries(frame, entries, packed), np.where(is_object, errors, 0))
    rows = np.flatnonzero(~is_object & (errors != 0)).astype(np.int64)
    return mark_failed(frame, rows, JSON_PARSER, np.zeros(len(rows), np.int32), [_NO_OBJECT])


def _name_entry(parent: str | None, key: str) -> str:
    del parent
    return _LINE if key == ENTRY else label_name(key)


def _begins(text: Text) -> tuple[Flags, Flags]:
    """Flag lines that begin with an opening brace, and empty lines."""
    is_empty = np.diff(text.offsets) == 0
    if not len(text.data):
        return ~is_empty, is_empty
    first = text.data[np.minimum(text.offsets[:-1], len(text.data) - 1)]
    return (first == OPEN_OBJECT) & ~is_empty, is_empty


def _is_text(fields: Fields) -> Flags:
    has_name = np.array([bool(name) for name in fields.names], np.bool_)
    quoted: Flags = fields.data[fields.start - 1] == QUOTE
    return quoted & has_name[fields.name] if len(has_name) else quoted


def _is_entry(fields: Fields) -> Flags:
    is_entry: Flags = np.array([name == _LINE for name in fields.names], np.bool_)
    return is_entry[fields.name] if len(is_entry) else np.zeros(0, np.bool_)


def _with_entries(frame: LogFrame, entries: Fields, packed: Flags) -> LogFrame:
    if not packed.any():
        return frame
    is_last = np.append(np.diff(entries.row) != 0, True)
    last = entries.where(is_last)
    lines = strings(*unescaped_spans(last.data, last.start, last.length, last.escaped, True))
    return frame.with_line(pc.replace_with_mask(frame.line, pa.array(packed), lines))
