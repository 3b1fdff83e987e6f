"""`line_format`, `label_format` and `unwrap`: templates make lines and labels anew, labels become samples.

    label_format svc=app, id="{{.pod}}/{{.n}}"   on   app="web", pod="a", n="1"
    →   svc="web", id="a/1", pod="a", n="1"

A rename takes the value of its source, and the source is gone. The templates of one `label_format` all see
the labels as they were before the first template. A row on which a template fails keeps what it had and is
marked with `__error__`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow.compute as pc

from lakerunner_query.gotext.conversions import convert_values, duration_seconds, number, size
from lakerunner_query.logql.frame import (
    Category,
    Column,
    LogFrame,
    column_of,
    of_texts,
    overlay,
    without_rows,
)
from lakerunner_query.logql.lang.ast import SPECIAL, Assign, Conversion, Rename, Unwrap
from lakerunner_query.logql.stages.extract import SAMPLE_EXTRACTION, mark_failed
from lakerunner_query.logql.stages.filters import test_rows
from lakerunner_query.logql.templates.chains import compile_template
from lakerunner_query.logql.templates.columns import Rendered, render
from resources.arrays import Doubles, Int64s

_CONVERT: dict[Conversion, Callable[[str], float]] = {
    Conversion.NONE: number,
    Conversion.DURATION: duration_seconds,
    Conversion.BYTES: size,
}


def unwrap_numbers(frame: LogFrame, unwrap: Unwrap) -> tuple[LogFrame, Doubles]:
    """Return the rows that have the label and pass the filters behind `unwrap`, and their numbers.

        unwrap duration(latency):   "250ms" -> 0.25;   no latency: no sample;   "x" -> 0 and an error

    The label itself stays in the frame: whether it is part of a series depends on the grouping. Rows whose
    value is no number have `__error__="SampleExtractionErr"` and the number 0.
    """
    column = column_of(frame, unwrap.label)
    there = column.codes >= 0
    frame, codes = frame.keep(there), column.codes[there]
    if not len(codes):
        return frame, np.zeros(0)
    found = convert_values(column.values, _CONVERT[unwrap.conversion])
    if found.failures:
        wrong = np.zeros(len(column.values), np.bool_)
        wrong[list(found.failures)] = True
        rows = np.flatnonzero(wrong[codes]).astype(np.int64)
        texts = [found.failures.get(code, "") for code in range(len(column.values))]
        frame = mark_failed(frame, rows, SAMPLE_EXTRACTION, codes[rows], texts)
    numbers = found.numbers[codes]
    for stage in unwrap.filters:
        frame, kept = test_rows(frame, stage.condition)
        frame, numbers = frame.keep(kept), numbers[kept]
    return frame, numbers


TEMPLATE_FORMAT = "TemplateFormatErr"
Check = Callable[[], None]


def line_format(frame: LogFrame, template: str, now_ns: int, check: Check | None = None) -> LogFrame:
    made = render(compile_template(template), frame, now_ns, check)
    if not made.failed:
        return frame.with_line(made.texts)
    lines = pc.if_else(made.failure < 0, made.texts, frame.line)
    return _with_errors(frame.with_line(lines), made)


def label_format(
    frame: LogFrame, operations: Sequence[Rename | Assign], now_ns: int, check: Check | None = None
) -> LogFrame:
    """Apply the operations one after the other."""
    seen: LogFrame | None = None
    for operation in operations:
        if isinstance(operation, Rename):
            frame = _rename(frame, operation)
        else:
            seen = seen or frame
            made = render(compile_template(operation.template, "label"), seen, now_ns, check)
            frame = _assign(frame, operation.name, made)
    return frame


def _rename(frame: LogFrame, operation: Rename) -> LogFrame:
    source = column_of(frame, operation.source)
    there = source.codes >= 0
    if not there.any() or operation.source in SPECIAL:
        return frame
    rows = np.flatnonzero(there).astype(np.int64)
    taken = Column(source.codes[rows], source.values, Category.PARSED)
    labels = dict(frame.labels)
    labels[operation.name] = overlay(labels.get(operation.name), rows, taken, frame.count)
    labels[operation.source] = without_rows(source, there)
    return frame.with_labels(labels)


def _assign(frame: LogFrame, name: str, made: Rendered) -> LogFrame:
    rows = np.flatnonzero(made.failure < 0).astype(np.int64)
    texts = of_texts(made.texts)
    labels = dict(frame.labels)
    if len(rows):
        labels[name] = _set(labels.get(name), rows, texts, frame.count)
    return _with_errors(frame.with_labels(labels), made)


def _set(under: Column | None, rows: Int64s, texts: Column, count: int) -> Column:
    return texts if len(rows) == count else overlay(under, rows, texts.take(rows), count)


def _with_errors(frame: LogFrame, made: Rendered) -> LogFrame:
    rows = np.flatnonzero(made.failure >= 0).astype(np.int64)
    return mark_failed(frame, rows, TEMPLATE_FORMAT, made.failure[rows], made.messages)
