"""`|= "a" or "b"`, `|~ "x.*y"`, `|> "<_> done"`, `|= ip("10.0.0.0/8")`: rows whose line holds something."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import ParseError
from lakerunner_query.evaluate.logs.addresses import AddressPatternError, address_range
from lakerunner_query.evaluate.logs.frame import LogFrame
from lakerunner_query.evaluate.logs.kernels.patterns import matching_rows
from lakerunner_query.evaluate.logs.kernels.searching import containing_rows
from lakerunner_query.evaluate.logs.kernels.text import text_of
from lakerunner_query.evaluate.logs.stages.pattern_text import filter_pattern
from lakerunner_query.gotext.regexp import literal
from lakerunner_query.lang.logql.ast import LineFilter
from resources.arrays import Flags


def line_filter(frame: LogFrame, stage: LineFilter) -> LogFrame:
    return frame.keep(passing(frame.line, stage))


def passing(lines: pa.StringArray, stage: LineFilter) -> Flags:
    """Which lines the filter lets through: those that match any alternative, or those that match none."""
    found = np.zeros(len(lines), np.bool_)
    for flags in _alternatives(lines, stage):
        found |= flags
    return ~found if stage.op.is_negative else found


def _alternatives(lines: pa.StringArray, stage: LineFilter) -> Iterator[Flags]:
    for value in stage.values:
        if stage.op.is_pattern:
            pattern = filter_pattern(value, stage.position)
            text = text_of(lines)
            about = pattern.parts, pattern.literals, pattern.literal_offsets
            yield matching_rows(text.data, text.offsets, *about)
        elif stage.op.is_regex and literal(value) is None:
            yield pc.match_substring_regex(lines, value).to_numpy(False)
        else:
            needle = np.frombuffer(value.encode() or b"\0", np.uint8)[: len(value.encode())]
            text = text_of(lines)
            yield containing_rows(text.data, text.offsets, needle)
    for value in stage.ips:
        try:
            yield address_range(value).held_by(lines)
        except AddressPatternError as error:
            raise ParseError(str(error), stage.position) from None
