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

from lakerunner_query.evaluate.logs.columns import SPECIAL, column_of, of_texts, overlaid, without_rows
from lakerunner_query.evaluate.logs.frame import Category, Column, LogFrame
from lakerunner_query.evaluate.logs.stages.failures import failed
from lakerunner_query.evaluate.logs.templates.rendering import Rendered, rendered
from lakerunner_query.evaluate.logs.templates.template import compiled
from lakerunner_query.lang.logql.ast import Assign, LabelFormat, LineFormat, Rename
from resources.arrays import Int64s

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
