"""Frames for tests of templates: labels as lists of texts, None where a row has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakerunner_query.logql.frame import Category, LogFrame, of_texts
from lakerunner_query.logql.templates.chains import compile_template
from lakerunner_query.logql.templates.columns import render

NOW_NS = 1_700_000_000_000_000_000


def frame_of(
    labels: dict[str, Sequence[str | None]], lines: Sequence[str] | None = None, start_ns: int = 0
) -> LogFrame:
    count = len(next(iter(labels.values()))) if lines is None else len(lines)
    columns = {
        name: of_texts(pa.array(texts, pa.string()), Category.STREAM) for name, texts in labels.items()
    }
    times = start_ns + np.arange(count, dtype=np.int64)
    return LogFrame(times, pa.array([""] * count if lines is None else lines, pa.string()), columns)


def texts_of(frame: LogFrame, name: str) -> list[str | None]:
    column = frame.labels.get(name)
    if column is None:
        return [None] * frame.count
    values = column.values.to_pylist()
    return [values[code] if code >= 0 else None for code in column.codes]


def text_of(template: str, **labels: str) -> str:
    """Of one row; an error is its message."""
    found = render(
        compile_template(template), frame_of({name: [text] for name, text in labels.items()}, [""]), NOW_NS
    )
    return found.messages[0] if found.failed else found.texts[0].as_py()
