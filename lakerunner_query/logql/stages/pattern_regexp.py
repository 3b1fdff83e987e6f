"""`| pattern` and `| regexp`: parts of a line become labels.

    pattern `<method> <path> <_>` on "GET /x 200"  ->  method="GET", path="/x"

A line that does not match keeps its labels and has no error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import ParseError, Position
from lakerunner_query.gotext.regexp import InvalidRegexError, check, opens_capture, tokens
from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.kernels.fields import Tokens, gather_spans
from lakerunner_query.logql.kernels.logfmt import UNNAMED, capture_rows
from lakerunner_query.logql.kernels.strings import strings, text_of
from lakerunner_query.logql.lang.ast import Pattern, Regexp
from lakerunner_query.logql.lang.stage_functions import Names
from lakerunner_query.logql.stages.extract import Fields, grown_scan, is_wanted, label_name, place_labels
from resources.arrays import Bytes, Flags, Int32s, Int64s

_CAPTURE = re.compile(r"<([a-zA-Z_][a-zA-Z0-9_]*)>")
_NAMELESS = "_"


@dataclass(frozen=True, slots=True)
class LinePattern:
    """Pattern in the form that kernels read."""

    parts: Int32s
    """Numbers of literals; a capture is `-3 - number`, an unnamed one `UNNAMED`."""
    literals: Bytes
    literal_offsets: Int32s
    names: tuple[str, ...]


def compile_pattern(text: str, position: Position) -> LinePattern:
    """Split a pattern into literals and captures; brackets without a name are text.

    <ip> - <_> [<time>]  ->  capture ip, " - ", unnamed, " [", capture time, "]"
    """
    parts: list[int] = []
    literals: list[bytes] = []
    names: list[str] = []
    at = 0
    for found in _CAPTURE.finditer(text):
        if found.start() > at:
            parts.append(len(literals))
            literals.append(text[at : found.start()].encode())
        elif parts:
            raise ParseError(f"found consecutive capture '{found[0]}': invalid pattern", position)
        parts.append(UNNAMED if found[1] == _NAMELESS else -3 - len(names))
        names += [] if found[1] == _NAMELESS else [found[1]]
        at = found.end()
    if at < len(text):
        parts.append(len(literals))
        literals.append(text[at:].encode())
    offsets = np.cumsum([0, *map(len, literals)], dtype=np.int32)
    data = np.frombuffer(b"".join(literals), np.uint8)
    return LinePattern(np.array(parts, np.int32), data, offsets, tuple(names))


def parser_pattern(text: str, position: Position) -> LinePattern:
    """Compile a pattern of `| pattern`: at least one name, none twice."""
    pattern = compile_pattern(text, position)
    if not pattern.names:
        raise ParseError(f"at least one capture is required: invalid pattern '{text}'", position)
    if len(set(pattern.names)) < len(pattern.names):
        raise ParseError(f"duplicate capture name in pattern '{text}'", position)
    return pattern


def filter_pattern(text: str, position: Position) -> LinePattern:
    """Compile a pattern of `|>` and `!>`: no names."""
    pattern = compile_pattern(text, position)
    if pattern.names:
        raise ParseError(f"named captures are not allowed: invalid pattern '{text}'", position)
    return pattern


def pattern_captures(frame: LogFrame, stage: Pattern, wanted: Names) -> LogFrame:
    pattern = parser_pattern(stage.pattern, stage.position)
    text = text_of(frame.line)

    def scan(first: int, last: int, tokens: Tokens, counts: Int64s) -> int:
        about = pattern.parts, pattern.literals, pattern.literal_offsets
        return int(capture_rows(text.data, text.offsets, first, last, *about, tokens, counts))

    fields = grown_scan(text, scan, list(pattern.names))
    return place_labels(frame, fields, wanted, copy_text)


def copy_text(data: Bytes, start: Int64s, length: Int32s, escaped: Flags) -> pa.StringArray:
    del escaped
    return strings(*gather_spans(data, start, length))


def regexp_groups(frame: LogFrame, stage: Regexp, wanted: Names) -> LogFrame:
    pattern, names = named_groups(stage.pattern, stage.position)
    found = pc.extract_regex(frame.line, pattern)
    matched = np.flatnonzero(found.is_valid().to_numpy(False)).astype(np.int64)
    for number, name in enumerate(names):
        label = label_name(name)
        if label and is_wanted(label, wanted):
            texts = found.field(number).take(pa.array(matched))
            frame = place_labels(frame, _fields(texts, matched, label), wanted, copy_text)
    return frame


def _fields(texts: pa.StringArray, rows: Int64s, name: str) -> Fields:
    text = text_of(texts)
    starts = text.offsets[:-1].astype(np.int64)
    lengths = np.diff(text.offsets)
    none = np.zeros(len(rows), np.int32)
    return Fields(text.data, [name], none, rows.astype(np.int32), starts, lengths, none.astype(np.bool_))


def named_groups(pattern: str, position: Position) -> tuple[str, list[str]]:
    """Make groups without a name capture nothing; return the pattern and the names.

    >>> named_groups("(a|b) (?P<c>[(]+)", Position(1, 1))
    ('(?:a|b) (?P<c>[(]+)', ['c'])
    """
    try:
        check(pattern)
    except InvalidRegexError as error:
        raise ParseError(str(error), position) from None
    names: list[str] = []
    parts: list[str] = []
    for token in tokens(pattern):
        if token["name"] is not None:
            names.append(token["name"])
            parts.append(f"(?P<{token['name']}>")
        else:
            parts.append("(?:" if opens_capture(token) else token[0])
    if not names:
        raise ParseError("at least one named capture must be supplied", position)
    if len(set(names)) < len(names):
        raise ParseError("duplicate extracted label name", position)
    return "".join(parts), names
