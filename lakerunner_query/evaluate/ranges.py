"""Range vectors as answers: the samples themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakerunner_query.evaluate.context import Window
from lakerunner_query.evaluate.failures import SAME_LABELS, EvaluationError
from lakerunner_query.evaluate.labels import without_metadata
from lakerunner_query.evaluate.vectors import Series
from lakerunner_query.windows.functions import Int64s


def trimmed(series: Series, window: Window) -> Series:
    """Only series that have samples, only samples of the window."""
    keep = (series.time_ms > window.grid.from_ms) & (series.time_ms <= window.grid.to_ms)
    return series_at(series, _owners(series)[keep], np.flatnonzero(keep))


def dropped(series: Series) -> Series:
    """Names dropped that have to go, and series merged that are the same then."""
    drop = np.zeros(series.count, np.bool_) if series.drop_name is None else series.drop_name
    labels = [
        without_metadata(labels) if drop else labels
        for labels, drop in zip(series.labels, drop.tolist(), strict=True)
    ]
    names = sorted(set(labels))
    number = {name: at for at, name in enumerate(names)}
    codes = np.array([number[name] for name in labels], np.int64)
    owners = codes[_owners(series)] if len(codes) else _owners(series)
    order = np.lexsort((series.time_ms, owners)).astype(np.int64)
    times, owned = series.time_ms[order], owners[order]
    if ((times[1:] == times[:-1]) & (owned[1:] == owned[:-1])).any():
        raise EvaluationError(SAME_LABELS)
    return series_at(replace(series, labels=names, drop_name=None), owned, order)


def series_at(series: Series, owners: Int64s, samples: Int64s) -> Series:
    """The samples of these numbers, `owners` saying whose they are; series without any are left out."""
    present, starts = np.unique(owners, return_index=True)
    return Series(
        [series.labels[at] for at in present.tolist()],
        np.append(starts, len(owners)).astype(np.int64),
        series.time_ms[samples],
        series.value[samples],
        None if series.histograms is None else series.histograms[samples],
        None if series.is_delta is None else series.is_delta[samples],
        None if series.start_ms is None else series.start_ms[samples],
        None if series.drop_name is None else series.drop_name[present],
    )


def _owners(series: Series) -> Int64s:
    return np.repeat(np.arange(series.count, dtype=np.int64), np.diff(series.offsets))
