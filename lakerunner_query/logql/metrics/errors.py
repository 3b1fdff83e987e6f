"""Errors of lines that reach a metric query: they fail it, in Loki's words, or become series."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import EvaluationError
from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.logql.frame import (
    ABSENT,
    Category,
    Column,
    LogFrame,
    has_text,
    holds,
    overlay,
)
from lakerunner_query.logql.lang.ast import ERROR, PRESERVE_ERROR, RangeAggregation
from lakerunner_query.logql.lang.conditions import names_in
from lakerunner_query.logql.lang.stages import condition_of
from lakerunner_query.logql.metrics.context import Naming
from lakerunner_query.logql.stages.extract import JSON_PARSER, LOGFMT_PARSER
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Flags

_OF_PARSERS = pa.array([JSON_PARSER, LOGFMT_PARSER])
"""Errors that become series where the query asks for errors; all others fail it."""


class PipelineError(EvaluationError):
    """Failure of a metric query over a line that a stage could not process."""

    status = 400
    code = "pipeline_error"

    def __init__(self, kind: str, labels: Labels) -> None:
        super().__init__(
            f"pipeline error: '{kind}' for series: '{label_set(labels)}'.\n"
            f'Use a label filter to intentionally skip this error. (e.g | __error__!="{kind}").\n'
            'All errors are skipped by | __error__="", which may also stand after unwrap.\n'
        )
        self.kind = kind


def flag_failing(frame: LogFrame, *, keeps_errors: bool) -> Flags:
    """Flag rows with an error that fails the query."""
    failed = has_text(frame, ERROR)
    return failed & ~_of_parsers(frame) if keeps_errors and failed.any() else failed


def mark_errors(frame: LogFrame) -> LogFrame:
    """Label the rows whose error the query asks for."""
    if ERROR not in frame.labels:
        return frame
    rows = np.flatnonzero(has_text(frame, ERROR)).astype(np.int64)
    yes = Column(np.zeros(len(rows), np.int32), pa.array(["true"]), Category.PARSED)
    labels = dict(frame.labels)
    labels[PRESERVE_ERROR] = overlay(labels.get(PRESERVE_ERROR), rows, yes, frame.count)
    return frame.with_labels(labels)


def raise_oldest(frame: LogFrame, failed: Flags) -> NoReturn:
    """Raise the error of the oldest of these rows."""
    rows = np.flatnonzero(failed).astype(np.int64)
    row = frame.take(rows[[np.argmin(frame.tsns[rows])]])
    labels = {
        name: str(column.values[int(column.codes[0])])
        for name, column in row.labels.items()
        if column.codes[0] != ABSENT
    }
    raise PipelineError(labels[ERROR], tuple(sorted(labels.items())))


def asks_for_errors(expr: RangeAggregation, naming: Naming) -> bool:
    """Tell whether the query groups by labels, and the grouping or a filter names `__error__`.

    Loki looks for errors as it looks for any other label, and it does so only where labels are named.
    """
    if naming.is_without:
        return False
    stages = (*expr.range.query.stages, *(expr.range.unwrap.filters if expr.range.unwrap else ()))
    conditions = [one for one in map(condition_of, stages) if one is not None]
    return ERROR in naming.names or any(ERROR in names_in(one) for one in conditions)


def _of_parsers(frame: LogFrame) -> Flags:
    return holds(frame.labels[ERROR], lambda values: pc.is_in(values, _OF_PARSERS))
