"""`| json`: every field of an object becomes a label, objects within it flattened.

    {"a":1,"b":{"c":"x"},"d":[1],"e":null}  ->  a="1", b_c="x"

Arrays and nulls are skipped, numbers and booleans are the text they are written as. A line that is no object
keeps its labels and gets `__error__="JSONParserErr"`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.logs.columns import is_base, present
from lakerunner_query.evaluate.logs.frame import ABSENT, LogFrame
from lakerunner_query.evaluate.logs.kernels import json_tokens
from lakerunner_query.evaluate.logs.kernels.escapes import unescaped_spans
from lakerunner_query.evaluate.logs.kernels.fields import Paths, Tokens
from lakerunner_query.evaluate.logs.kernels.json_scan import DEEPEST, scan_rows
from lakerunner_query.evaluate.logs.kernels.text import strings, text_of
from lakerunner_query.evaluate.logs.stages.failures import JSON_PARSER, failed
from lakerunner_query.evaluate.logs.stages.names import joined, sanitised
from lakerunner_query.evaluate.logs.stages.placing import placed, repaired
from lakerunner_query.evaluate.logs.stages.scanning import Scanner, Wanted
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s

DETAILS = {
    json_tokens.OBJECT_ERROR: "Value looks like object, but can't find closing '}' symbol",
    json_tokens.JSON_ERROR: "Malformed JSON error",
    json_tokens.STRING_ERROR: "Value is string, but can't find closing '\"' symbol",
    json_tokens.ARRAY_ERROR: "Value is array, but can't find closing ']' symbol",
    json_tokens.UNKNOWN_ERROR: "Unknown value type",
    json_tokens.ESCAPE_ERROR: "Encountered an invalid escape sequence in a string",
    json_tokens.DEPTH_ERROR: f"more than {DEEPEST} objects within objects",
}
_CODES = np.full(json_tokens.LAST_ERROR + 1, ABSENT, np.int32)
_CODES[list(DETAILS)] = range(len(DETAILS))


def json_fields(frame: LogFrame, wanted: Wanted) -> LogFrame:
    text = text_of(frame.line)
    errors = np.zeros(frame.count, np.int8)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        return int(scan_rows(text.data, text.offsets, first, last, False, tokens, paths, counts, errors))

    fields = Scanner(text, _named, _key_text, wanted).run(scan)
    found = placed(frame, fields, wanted, unescaped_json)
    return with_json_errors(found, np.where(_is_complete(found, wanted), 0, errors).astype(np.int8))


def _is_complete(frame: LogFrame, wanted: Wanted) -> Flags:
    """Rows whose line has all that anybody looks at: Loki reads no further and sees no error there.

    Unless errors are what it looks for: no line has a field `__error__`.
    """
    names = wanted or frozenset()
    found = np.full(frame.count, bool(names))
    for name in names:
        found &= present(frame, name) & ~is_base(frame, name)
    return found


def with_json_errors(frame: LogFrame, errors: Int8s) -> LogFrame:
    rows = np.flatnonzero(errors).astype(np.int64)
    return failed(frame, rows, JSON_PARSER, _CODES[errors[rows]], list(DETAILS.values()))


def unescaped_json(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> tuple[pa.StringArray, bool]:
    """Texts; one with a broken escape is empty."""
    values, is_repaired = repaired(strings(*unescaped_spans(data, start, length, escaped, True)))
    return values, is_repaired or bool(escaped.any())


def key_text(raw: bytes) -> str:
    """A key with its escapes resolved."""
    data = np.frombuffer(raw, np.uint8)
    span = np.zeros(1, np.int64), np.array([len(raw)], np.int32), np.ones(1, np.bool_)
    text, _ = unescaped_spans(data, *span, False)
    return text.tobytes().decode(errors="replace")


def _key_text(raw: bytes) -> str:
    return key_text(raw) if b"\\" in raw else raw.decode(errors="replace")


def _named(parent: str | None, key: str) -> str:
    return sanitised(key) if parent is None else joined(parent, key)
