"""`| logfmt`: every pair of a line becomes a label.

    level=info msg="a b" empty= a-b=1  ->  level="info", msg="a b", a_b="1"; with --keep-empty also empty=""

Broken pairs are passed over; with --strict the first of them gives the line
`__error__="LogfmtParserErr"` and ends it.
"""

from __future__ import annotations

import numpy as np

from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels import logfmt_scan
from lakerunner_query.evaluate.logs.kernels.escapes import unescaped_spans
from lakerunner_query.evaluate.logs.kernels.fields import Paths, Tokens
from lakerunner_query.evaluate.logs.kernels.logfmt_scan import scan_pairs
from lakerunner_query.evaluate.logs.kernels.text import Bytes, Int32s, text_of
from lakerunner_query.evaluate.logs.stages.failures import LOGFMT_PARSER, failed
from lakerunner_query.evaluate.logs.stages.names import sanitised
from lakerunner_query.evaluate.logs.stages.placing import placed
from lakerunner_query.evaluate.logs.stages.scanning import Fields, Scanner, Wanted
from lakerunner_query.lang.logql.ast import Logfmt
from lakerunner_query.windows.functions import Flags, Int8s, Int64s

DETAILS = {
    logfmt_scan.EQUALS_ERROR: "unexpected '='",
    logfmt_scan.QUOTE_ERROR: "unexpected '\"'",
    logfmt_scan.KEY_ERROR: "invalid key",
    logfmt_scan.UNTERMINATED_ERROR: "unterminated quoted value",
    logfmt_scan.QUOTED_ERROR: "invalid quoted value",
}


def logfmt_pairs(frame: LogFrame, stage: Logfmt, wanted: Wanted) -> LogFrame:
    fields, errors, places = pairs_of(frame, stage, wanted)
    return with_logfmt_errors(placed(frame, fields, wanted, unescaped_logfmt), errors, places)


def pairs_of(frame: LogFrame, stage: Logfmt, wanted: Wanted) -> tuple[Fields, Int8s, Int32s]:
    """The pairs that count; of each row its error and the place of it."""
    text = text_of(frame.line)
    errors, places = np.zeros(frame.count, np.int8), np.zeros(frame.count, np.int32)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        room = tokens, paths, counts, errors, places
        return int(scan_pairs(text.data, text.offsets, first, last, stage.strict, *room))

    fields = Scanner(text, _named, _key_text, wanted).run(scan)
    return fields.where(_is_kept(fields, stage.keep_empty)), errors, places


def _is_kept(fields: Fields, keep_empty: bool) -> Flags:
    has_name = np.array([bool(name) for name in fields.names], np.bool_)
    kept: Flags = has_name[fields.name] if len(has_name) else np.zeros(0, np.bool_)
    return kept if keep_empty else kept & (fields.length > 0)


def with_logfmt_errors(frame: LogFrame, errors: Int8s, places: Int32s) -> LogFrame:
    rows = np.flatnonzero(errors).astype(np.int64)
    said = np.stack((places[rows].astype(np.int64) + 1, errors[rows].astype(np.int64)), axis=1)
    distinct, codes = np.unique(said, axis=0, return_inverse=True)
    texts = [f"logfmt syntax error at pos {place} : {DETAILS[error]}" for place, error in distinct.tolist()]
    return failed(frame, rows, LOGFMT_PARSER, codes.astype(np.int32).reshape(-1), texts)


def unescaped_logfmt(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> tuple[Bytes, Int32s]:
    return unescaped_spans(data, start, length, escaped, False)


def _key_text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _named(parent: str | None, key: str) -> str:
    del parent
    return sanitised(key)
