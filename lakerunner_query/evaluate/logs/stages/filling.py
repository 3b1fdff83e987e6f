"""Labels that an extraction names and a line does not have: empty, not absent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.logs.columns import overlaid
from lakerunner_query.evaluate.logs.frame import Category, Column, LogFrame
from lakerunner_query.evaluate.logs.stages.scanning import Wanted
from resources.arrays import Flags


def filled(frame: LogFrame, missing: dict[str, Flags], wanted: Wanted) -> LogFrame:
    """Each label, where it is missing, as an empty one."""
    labels = dict(frame.labels)
    for name, flags in missing.items():
        rows = np.flatnonzero(flags).astype(np.int64)
        if len(rows) and (wanted is None or name in wanted):
            empty = Column(np.zeros(len(rows), np.int32), pa.array([""], pa.string()), Category.PARSED)
            labels[name] = overlaid(labels.get(name), rows, empty, frame.count)
    return frame.with_labels(labels)
