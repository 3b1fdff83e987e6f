"""`line_format` and `label_format`: templates that make the line or a label anew.

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

from lakerunner_query.gotext.conversions import converted, duration_seconds, number, size
from lakerunner_query.logql.frame import (
    SPECIAL,
    Category,
    Column,
    LogFrame,
    column_of,
    of_texts,
    overlaid,
    without_rows,
)
from lakerunner_query.logql.lang.ast import Assign, Conversion, LabelFormat, LineFormat, Rename, Unwrap
from lakerunner_query.logql.stages.extract import SAMPLE_EXTRACTION, failed
from lakerunner_query.logql.stages.filters import tested
from lakerunner_query.logql.templates.chains import compiled
from lakerunner_query.logql.templates.columns import Rendered, rendered
from resources.arrays import Doubles, Int64s

# << `| unwrap duration(latency)`: the label that becomes the sample.
# <<
# << latency="250ms"  ->  0.25;   no latency: no sample;   latency="x"  ->  0 and an error

_CONVERT: dict[Conversion, Callable[[str], float]] = {
    Conversion.NONE: number,
    Conversion.DURATION: duration_seconds,
    Conversion.BYTES: size,
}


def unwrapped(frame: LogFrame, unwrap: Unwrap) -> tuple[LogFrame, Doubles]:
    """The rows that have the label, and its numbers; the filters behind `unwrap` have been applied.

    The label itself stays in the frame: whether it is part of a series depends on the grouping. Rows whose
    value is no number have `__error__="SampleExtractionErr"` and the number 0.
    """
    column = column_of(frame, unwrap.label)
    there = column.codes >= 0
    frame, codes = frame.keep(there), column.codes[there]
    if not len(codes):
        return frame, np.zeros(0)
    found = converted(column.values, _CONVERT[unwrap.conversion])
    wrong = np.zeros(len(column.values), np.bool_)
    wrong[list(found.failures)] = True
    rows = np.flatnonzero(wrong[codes]).astype(np.int64)
    texts = [found.failures.get(code, "") for code in range(len(column.values))]
    frame = failed(frame, rows, SAMPLE_EXTRACTION, codes[rows], texts)
    numbers = found.numbers[codes]
    for stage in unwrap.filters:
        frame, kept = tested(frame, stage.condition)
        frame, numbers = frame.keep(kept), numbers[kept]
    return frame, numbers


TEMPLATE_FORMAT = "TemplateFormatErr"
Check = Callable[[], None]


def line_format(frame: LogFrame, template: str, now_ns: int, check: Check | None = None) -> LogFrame:
    made = rendered(compiled(template), frame, now_ns, check)
    if not made.failed:
        return frame.with_line(made.texts)
    lines = pc.if_else(made.failure < 0, made.texts, frame.line)
    return _marked(frame.with_line(lines), made)


def label_format(
    frame: LogFrame, operations: Sequence[Rename | Assign], now_ns: int, check: Check | None = None
) -> LogFrame:
    """One operation after the other."""
    seen: LogFrame | None = None
    for operation in operations:
        if isinstance(operation, Rename):
            frame = _renamed(frame, operation)
        else:
            seen = seen or frame
            made = rendered(compiled(operation.template, "label"), seen, now_ns, check)
            frame = _assigned(frame, operation.name, made)
    return frame


def labels_read(stage: LineFormat | LabelFormat) -> frozenset[str] | None:
    """The labels a stage looks at, None for all."""
    if isinstance(stage, LineFormat):
        return compiled(stage.template).reads.labels
    names: set[str] = set()
    for operation in stage.operations:
        if isinstance(operation, Rename):
            names.add(operation.source)
        elif (read := compiled(operation.template, "label").reads.labels) is None:
            return None
        else:
            names |= read
    return frozenset(names)


def _renamed(frame: LogFrame, operation: Rename) -> LogFrame:
    source = column_of(frame, operation.source)
    there = source.codes >= 0
    if not there.any() or operation.source in SPECIAL:
        return frame
    rows = np.flatnonzero(there).astype(np.int64)
    taken = Column(source.codes[rows], source.values, Category.PARSED)
    labels = dict(frame.labels)
    labels[operation.name] = overlaid(labels.get(operation.name), rows, taken, frame.count)
    labels[operation.source] = without_rows(source, there)
    return frame.with_labels(labels)


def _assigned(frame: LogFrame, name: str, made: Rendered) -> LogFrame:
    rows = np.flatnonzero(made.failure < 0).astype(np.int64)
    texts = of_texts(made.texts)
    labels = dict(frame.labels)
    if len(rows):
        labels[name] = _set(labels.get(name), rows, texts, frame.count)
    return _marked(frame.with_labels(labels), made)


def _set(under: Column | None, rows: Int64s, texts: Column, count: int) -> Column:
    return texts if len(rows) == count else overlaid(under, rows, texts.take(rows), count)


def _marked(frame: LogFrame, made: Rendered) -> LogFrame:
    rows = np.flatnonzero(made.failure >= 0).astype(np.int64)
    return failed(frame, rows, TEMPLATE_FORMAT, made.failure[rows], made.messages)
