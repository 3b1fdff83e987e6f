"""`| logfmt`: every pair of a line becomes a label.

    level=info msg="a b" empty= a-b=1  ->  level="info", msg="a b", a_b="1"; with --keep-empty also empty=""

Broken pairs are passed over; with --strict the first of them gives the line
`__error__="LogfmtParserErr"` and ends it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels import logfmt_scan
from lakerunner_query.evaluate.logs.kernels.escapes import unescaped_spans
from lakerunner_query.evaluate.logs.kernels.fields import Paths, Tokens
from lakerunner_query.evaluate.logs.kernels.logfmt_scan import scan_pairs
from lakerunner_query.evaluate.logs.kernels.text import strings, text_of
from lakerunner_query.evaluate.logs.stages.failures import LOGFMT_PARSER, failed
from lakerunner_query.evaluate.logs.stages.names import sanitised
from lakerunner_query.evaluate.logs.stages.placing import placed, repaired
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Scanner, Wanted
from lakerunner_query.lang.logql.ast import Logfmt
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s

DETAILS = {
    logfmt_scan.EQUALS_ERROR: "unexpected '='",
    logfmt_scan.QUOTE_ERROR: "unexpected '\"'",
    logfmt_scan.KEY_ERROR: "invalid key",
    logfmt_scan.UNTERMINATED_ERROR: "unterminated quoted value",
    logfmt_scan.QUOTED_ERROR: "invalid quoted value",
}


def logfmt_pairs(frame: LogFrame, stage: Logfmt, wanted: Wanted) -> LogFrame:
    fields, errors, places = pairs_of(frame, stage, wanted)
    fields = fields.where(fields.length > 0) if not stage.keep_empty else fields
    return with_logfmt_errors(placed(frame, fields, wanted, unescaped_logfmt), errors, places)


def pairs_of(frame: LogFrame, stage: Logfmt, wanted: Wanted) -> tuple[Fields, Int8s, Int32s]:
    """The pairs that have a name; of each row its error and the place of it."""
    text = text_of(frame.line)
    errors, places = np.zeros(frame.count, np.int8), np.zeros(frame.count, np.int32)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        room = tokens, paths, counts, errors, places
        return int(scan_pairs(text.data, text.offsets, first, last, stage.strict, *room))

    fields = Scanner(text, _named, _key_text, wanted).run(scan)
    has_name = np.array([bool(name) for name in fields.names], np.bool_)
    return (fields if has_name.all() else fields.where(has_name[fields.name])), errors, places


def with_logfmt_errors(frame: LogFrame, errors: Int8s, places: Int32s) -> LogFrame:
    rows = np.flatnonzero(errors).astype(np.int64)
    said = np.stack((places[rows].astype(np.int64) + 1, errors[rows].astype(np.int64)), axis=1)
    distinct, codes = np.unique(said, axis=0, return_inverse=True)
    texts = [f"logfmt syntax error at pos {place} : {DETAILS[error]}" for place, error in distinct.tolist()]
    return failed(frame, rows, LOGFMT_PARSER, codes.astype(np.int32).reshape(-1), texts)


def unescaped_logfmt(
    data: Bytes, start: Int64s, length: Int32s, escaped: Flags
) -> tuple[pa.StringArray, bool]:
    values, is_repaired = repaired(strings(*unescaped_spans(data, start, length, escaped, False)))
    return values, is_repaired or bool(escaped.any())


def _key_text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _named(parent: str | None, key: str) -> str:
    del parent
    return sanitised(key)
