"""Histograms of rollup rows, in logical form (`resources.lake.rollup_columns.filled`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_query.windows.histograms import HistogramRows
from lakerunner_query.windows.rollup_rows import flags, integers, kinds, one
from resources.lake import rollup_columns as names

HISTOGRAM_COLUMNS = (
    names.COUNT, names.FIRST_TS, names.LAST_TS, names.LAST_STALE, names.HIST_COUNT, names.HIST_FIRST,
    names.HIST_LAST, names.HIST_SUM, names.HIST_RESETS, names.HIST_MIXED,
)  # fmt: skip
"""What `histograms_of` needs of `filled`."""


def histograms_of(
    table: pa.Table, series: npt.NDArray[np.integer], width_ms: int, count: int
) -> HistogramRows:
    """Rows of the logical form, sorted by series and bucket; `series` has the code of each."""
    return HistogramRows(
        series=series,
        end_ms=integers(table, names.TIMESTAMP),
        width_ms=np.full(table.num_rows, width_ms, np.int64),
        first=one(table.column(names.HIST_FIRST)),
        last=one(table.column(names.HIST_LAST)),
        total=one(table.column(names.HIST_SUM)),
        first_ts=integers(table, names.FIRST_TS),
        last_ts=integers(table, names.LAST_TS),
        last_stale=flags(table, names.LAST_STALE),
        counts=integers(table, names.HIST_COUNT),
        resets=integers(table, names.HIST_RESETS),
        unclear=flags(table, names.HIST_MIXED) | (integers(table, names.COUNT) > 0),
        kind=kinds(table),
        count=count,
    )
