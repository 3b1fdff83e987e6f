"""`| keep a, b="x"`, `| drop a, b="x"` and `| decolorize`: labels and colours are taken away.

    drop code="500" on code="500", zone="eu"  ->  zone="eu"

With a matcher a label is meant only in the rows where it matches. What says that a row has an error is kept
by `keep` always; `drop __error__` takes the details along from a row that has nothing but stream labels, as
Loki does.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.logql.frame import Category, LogFrame, without_rows
from lakerunner_query.logql.lang.ast import ERROR, ERROR_DETAILS, SPECIAL, Drop, Keep
from lakerunner_query.logql.stages.filters import matches
from lakerunner_query.syntax import Matcher
from resources.arrays import Flags

_ESCAPE, _CONTROL = "\x1b", "\x9b"
_CODES = (
    "[\x1b\x9b][\\[\\]()#;?]*"
    "(?:(?:(?:[a-zA-Z\\d]*(?:;[a-zA-Z\\d]*)*)?\x07)|(?:(?:\\d{1,4}(?:;\\d{0,4})*)?[\\dA-PRZcf-ntqry=><~]))"
)


def decolorize(frame: LogFrame) -> LogFrame:
    """Remove the codes that colour a terminal."""
    return frame.with_line(plain_lines(frame.line))


def plain_lines(lines: pa.StringArray) -> pa.StringArray:
    coloured = pc.or_(pc.match_substring(lines, _ESCAPE), pc.match_substring(lines, _CONTROL))
    if not pc.any(coloured).as_py():
        return lines
    return pc.replace_with_mask(
        lines, coloured, pc.replace_substring_regex(lines.filter(coloured), _CODES, "")
    )


Items = tuple[str | Matcher, ...]


def keep_labels(frame: LogFrame, stage: Keep) -> LogFrame:
    if not stage.items:
        return frame
    labels = {}
    for name, column in frame.labels.items():
        meant = np.ones(frame.count, np.bool_) if name in SPECIAL else _meant(frame, name, stage.items)
        if meant.any():
            labels[name] = column if meant.all() else without_rows(column, ~meant)
    return frame.with_labels(labels)


def drop_labels(frame: LogFrame, stage: Drop) -> LogFrame:
    labels = {}
    for name, column in frame.labels.items():
        meant = _meant(frame, name, stage.items)
        if name == ERROR_DETAILS:
            meant |= _meant(frame, ERROR, stage.items) & ~_has_more(frame)
        if not meant.all():
            labels[name] = without_rows(column, meant) if meant.any() else column
    return frame.with_labels(labels)


def _has_more(frame: LogFrame) -> Flags:
    """Flag rows with labels that are not their stream's, those of an error apart."""
    more = np.zeros(frame.count, np.bool_)
    for name, column in frame.labels.items():
        if name not in SPECIAL:
            more |= (column.codes >= 0) & np.not_equal(column.category, Category.STREAM)
    return more


def _meant(frame: LogFrame, name: str, items: Items) -> Flags:
    """Flag rows in which the items name this label."""
    meant = np.zeros(frame.count, np.bool_)
    for item in items:
        if item == name:
            return np.ones(frame.count, np.bool_)
        if isinstance(item, Matcher) and item.name == name:
            meant |= matches(frame, item)
    return meant
