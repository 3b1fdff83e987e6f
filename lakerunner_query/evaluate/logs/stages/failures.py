"""Rows that a stage could not process: kept, with the label `__error__` and what it says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.logs.columns import ERROR, ERROR_DETAILS, coded, overlaid
from lakerunner_query.evaluate.logs.frame import Category, Column, LogFrame
from resources.arrays import Int32s, Int64s

JSON_PARSER = "JSONParserErr"
LOGFMT_PARSER = "LogfmtParserErr"
LABEL_FILTER = "LabelFilterErr"
SAMPLE_EXTRACTION = "SampleExtractionErr"


def failed(frame: LogFrame, rows: Int64s, kind: str, details: Int32s, texts: Sequence[str]) -> LogFrame:
    """`rows` with an error of this kind; `details` are codes into `texts`, `ABSENT` where there are none."""
    if not len(rows):
        return frame
    error = Column(np.zeros(len(rows), np.int32), pa.array([kind], pa.string()), Category.PARSED)
    there = details >= 0
    said = coded(details[there], pa.array(list(texts), pa.string()), Category.PARSED)
    labels = dict(frame.labels)
    labels[ERROR] = overlaid(labels.get(ERROR), rows, error, frame.count)
    if there.any():
        labels[ERROR_DETAILS] = overlaid(labels.get(ERROR_DETAILS), rows[there], said, frame.count)
    return frame.with_labels(labels)
