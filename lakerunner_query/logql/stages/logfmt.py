"""`| logfmt`: every pair of a line becomes a label.

    level=info msg="a b" empty= a-b=1  ->  level="info", msg="a b", a_b="1"; with --keep-empty also empty=""

Broken pairs are passed over; with --strict the first of them gives the line
`__error__="LogfmtParserErr"` and ends it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import LogFrame, is_base, was_parsed
from lakerunner_query.logql.kernels import logfmt
from lakerunner_query.logql.kernels.fields import Paths, Tokens
from lakerunner_query.logql.kernels.json_text import unescaped_spans
from lakerunner_query.logql.kernels.logfmt import scan_pairs
from lakerunner_query.logql.kernels.strings import strings, text_of
from lakerunner_query.logql.lang.ast import Extraction, Logfmt
from lakerunner_query.logql.lang.stage_functions import Names
from lakerunner_query.logql.stages.extract import (
    LOGFMT_PARSER,
    REPLACEMENT,
    Choice,
    Fields,
    Scanner,
    fill_missing,
    holds_replacement,
    is_wanted,
    label_name,
    mark_failed,
    place_labels,
    repair_text,
)
from resources.arrays import Bytes, Flags, Int8s, Int32s, Int64s

DETAILS = {
    logfmt.EQUALS_ERROR: "unexpected '='",
    logfmt.QUOTE_ERROR: "unexpected '\"'",
    logfmt.KEY_ERROR: "invalid key",
    logfmt.UNTERMINATED_ERROR: "unterminated quoted value",
    logfmt.QUOTED_ERROR: "invalid quoted value",
}


def logfmt_pairs(frame: LogFrame, stage: Logfmt, wanted: Names) -> LogFrame:
    fields, errors, places = pairs_of(frame, stage, wanted)
    fields = fields.where(fields.length > 0) if not stage.keep_empty else fields
    return with_logfmt_errors(place_labels(frame, fields, wanted, unescaped_logfmt), errors, places)


def pairs_of(frame: LogFrame, stage: Logfmt, wanted: Names) -> tuple[Fields, Int8s, Int32s]:
    """Scan the pairs that have a name; return them, and each row's error and its place."""
    text = text_of(frame.line)
    errors, places = np.zeros(frame.count, np.int8), np.zeros(frame.count, np.int32)

    def scan(first: int, last: int, tokens: Tokens, paths: Paths, counts: Int64s) -> int:
        room = tokens, paths, counts, errors, places
        return int(scan_pairs(text.data, text.offsets, first, last, stage.strict, *room))

    fields = Scanner(text, _name, _key_text, wanted).run(scan)
    has_name = np.array([bool(name) for name in fields.names], np.bool_)
    return (fields if has_name.all() else fields.where(has_name[fields.name])), errors, places


def with_logfmt_errors(frame: LogFrame, errors: Int8s, places: Int32s) -> LogFrame:
    rows = np.flatnonzero(errors).astype(np.int64)
    said = np.stack((places[rows].astype(np.int64) + 1, errors[rows].astype(np.int64)), axis=1)
    distinct, codes = np.unique(said, axis=0, return_inverse=True)
    texts = [f"logfmt syntax error at pos {place} : {DETAILS[error]}" for place, error in distinct.tolist()]
    return mark_failed(frame, rows, LOGFMT_PARSER, codes.astype(np.int32).reshape(-1), texts)


def unescaped_logfmt(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> pa.StringArray:
    return repair_text(strings(*unescaped_spans(data, start, length, escaped, False)))


def _key_text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _name(parent: str | None, key: str) -> str:
    del parent
    return label_name(key)


def logfmt_keys(frame: LogFrame, stage: Logfmt, wanted: Names) -> LogFrame:
    """Make labels of the values of these keys only.

        logfmt x="status", y="no" on "status=200 level=info"  ->  x="200", y=""

    A pair with the label's own name counts as well, and the last one wins. Another key counts no more once an
    earlier parser has made a label of it. A label that no pair gives is empty, whatever a parser gave before.
    """
    chosen = [one for one in stage.extractions if is_wanted(one.name, wanted)]
    keys = frozenset(key for one in chosen for key in _keys(one))
    found, errors, places = pairs_of(frame, stage, keys)
    found = _not_parsed_before(frame, found, {one.name for one in chosen})
    code = {key: number for number, key in enumerate(found.names)}
    fields = found.relabelled([(one.name, code[key]) for one in chosen for key in _keys(one) if key in code])
    missing = {one.name: ~_has(fields, one.name, frame.count) & ~is_base(frame, one.name) for one in chosen}
    frame = place_labels(frame, fields, wanted, _unescape, Choice.LATEST_OF_OWN_NAME)
    frame = fill_missing(frame, missing, wanted)
    return with_logfmt_errors(frame, errors, places)


def _keys(extraction: Extraction) -> dict[str, None]:
    return dict.fromkeys((str(extraction.path[0]), extraction.name))


def _has(fields: Fields, name: str, count: int) -> Flags:
    """Flag rows that have a field of this name."""
    flags = np.zeros(count, np.bool_)
    if name in fields.names:
        flags[fields.row[fields.name == fields.names.index(name)]] = True
    return flags


def _not_parsed_before(frame: LogFrame, found: Fields, labels: set[str]) -> Fields:
    for number, key in enumerate(found.names):
        if key not in labels:
            found = found.where(~((found.name == number) & was_parsed(frame, key)[found.row]))
    return found


def _unescape(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> pa.StringArray:
    """Resolve escapes; a text with U+FFFD is empty here."""
    values = strings(*unescaped_spans(data, start, length, escaped, False))
    if holds_replacement(values):
        values = pc.if_else(pc.match_substring(values, REPLACEMENT), "", values)
    return values
