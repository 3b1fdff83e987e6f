"""`| unpack`: what the `pack` stage of an agent put together is taken apart again.

    {"app":"web","n":1,"_entry":"the line"}  ->  app="web", and "the line"

Only fields with text become labels, and only of lines that have an `_entry`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels.escapes import unescaped_spans
from lakerunner_query.evaluate.logs.kernels.fields import Paths, Tokens
from lakerunner_query.evaluate.logs.kernels.json_scan import scan_rows
from lakerunner_query.evaluate.logs.kernels.json_tokens import OBJECT_ERROR, OPEN_OBJECT, QUOTE
from lakerunner_query.evaluate.logs.kernels.text import Text, strings, text_of
from lakerunner_query.evaluate.logs.stages.failures import JSON_PARSER, failed
from lakerunner_query.evaluate.logs.stages.json_fields import key_text, unescaped_json, with_json_errors
from lakerunner_query.evaluate.logs.stages.names import sanitised
from lakerunner_query.evaluate.logs.stages.placing import Which, placed
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Scanner, Wanted
from resources.arrays import Flags, Int64s

ENTRY = "_entry"
_LINE = "\0line"
"""A name that no label has."""
_NO_OBJECT = "expecting json object(6), but it is not"


def unpacked(frame: LogFrame, wanted: Wanted) -> LogFrame:
    text = text_of(frame.line)
    errors = np.zeros(frame.count, np.int8)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        return int(scan_rows(text.data, text.offsets, first, last, True, tokens, paths, counts, errors))

    asked = None if wanted is None else wanted | {_LINE}
    fields = Scanner(text, _named, key_text, asked).run(scan)
    is_object, is_empty = _begins(text)
    errors[~is_object] = OBJECT_ERROR
    errors[is_empty] = 0
    fields = fields.where(_is_text(fields) & (errors == 0)[fields.row])
    entries = fields.where(_is_entry(fields))
    packed = np.zeros(frame.count, np.bool_)
    packed[entries.row] = True
    labels = fields.where(packed[fields.row] & ~_is_entry(fields))
    frame = placed(frame, labels, wanted, unescaped_json, Which.LAST)
    frame = with_json_errors(_with_entries(frame, entries, packed), np.where(is_object, errors, 0))
    rows = np.flatnonzero(~is_object & (errors != 0)).astype(np.int64)
    return failed(frame, rows, JSON_PARSER, np.zeros(len(rows), np.int32), [_NO_OBJECT])


def _named(parent: str | None, key: str) -> str:
    del parent
    return _LINE if key == ENTRY else sanitised(key)


def _begins(text: Text) -> tuple[Flags, Flags]:
    """Which lines have an opening brace first, which nothing at all."""
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
