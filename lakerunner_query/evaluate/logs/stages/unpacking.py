"""`| unpack`: what the `pack` stage of an agent put together is taken apart again.

    {"app":"web","n":1,"_entry":"the line"}  ->  app="web", and "the line"

Only fields with text become labels, and only of lines that have an `_entry`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels.fields import Paths, Tokens
from lakerunner_query.evaluate.logs.kernels.json_scan import scan_rows
from lakerunner_query.evaluate.logs.kernels.json_tokens import OBJECT_ERROR, QUOTE
from lakerunner_query.evaluate.logs.kernels.text import strings, text_of
from lakerunner_query.evaluate.logs.stages.failures import JSON_PARSER, failed
from lakerunner_query.evaluate.logs.stages.json_fields import DETAILS, key_text, unescaped_json
from lakerunner_query.evaluate.logs.stages.names import sanitised
from lakerunner_query.evaluate.logs.stages.placing import placed
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Scanner, Wanted
from lakerunner_query.windows.functions import Flags, Int8s, Int64s

ENTRY = "_entry"
_LINE, _NESTED = "\0line", ""
"""Names that no label has: of the entry, and of what is no label."""
_NO_OBJECT = "expecting json object(6), but it is not"


def unpacked(frame: LogFrame, wanted: Wanted) -> LogFrame:
    text = text_of(frame.line)
    errors = np.zeros(frame.count, np.int8)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        return int(scan_rows(text.data, text.offsets, first, last, tokens, paths, counts, errors))

    asked = None if wanted is None else wanted | {_LINE}
    fields = Scanner(text, _named, key_text, asked).run(scan)
    errors[np.diff(text.offsets) == 0] = 0
    fields = fields.where(_is_text(fields) & (errors == 0)[fields.row])
    entries = fields.where(_is_entry(fields))
    packed = np.zeros(frame.count, np.bool_)
    packed[entries.row] = True
    labels = fields.where(packed[fields.row] & ~_is_entry(fields))
    frame = placed(frame, labels, wanted, unescaped_json)
    return _with_errors(_with_entries(frame, entries, packed), errors)


def _named(parent: str | None, key: str) -> str:
    """Fields of objects within have no name, and are dropped by it."""
    return _NESTED if parent is not None else _LINE if key == ENTRY else sanitised(key)


def _is_text(fields: Fields) -> Flags:
    has_name = np.array([name != _NESTED for name in fields.names], np.bool_)
    quoted: Flags = fields.data[fields.start - 1] == QUOTE
    return quoted & has_name[fields.name] if len(has_name) else quoted


def _is_entry(fields: Fields) -> Flags:
    is_entry: Flags = np.array([name == _LINE for name in fields.names], np.bool_)
    return is_entry[fields.name] if len(is_entry) else np.zeros(0, np.bool_)


def _with_entries(frame: LogFrame, entries: Fields, packed: Flags) -> LogFrame:
    if not packed.any():
        return frame
    rows, first = np.unique(entries.row, return_index=True)
    del rows
    one = entries.take(first.astype(np.int64))
    lines = strings(*unescaped_json(one.data, one.start, one.length, one.escaped))
    return frame.with_line(pc.replace_with_mask(frame.line, pa.array(packed), lines))


def _with_errors(frame: LogFrame, errors: Int8s) -> LogFrame:
    rows = np.flatnonzero(errors).astype(np.int64)
    texts = list((DETAILS | {OBJECT_ERROR: _NO_OBJECT}).values())
    return failed(frame, rows, JSON_PARSER, errors[rows].astype(np.int32) - 1, texts)
