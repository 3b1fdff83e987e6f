"""Range vectors as answers: the samples themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from lakerunner_query.errors import SAME_LABELS, EvaluationError
from lakerunner_query.evaluate.context import Window
from lakerunner_query.lang.promql.ast import Reach
from lakerunner_query.vectors.labels import without_metadata
from lakerunner_query.vectors.vector import Series
from resources.arrays import Doubles, Int64s


def trimmed(series: Series, window: Window) -> Series:
    """Only series that have samples, only samples of the window."""
    keep = (series.time_ms > window.grid.from_ms) & (series.time_ms <= window.grid.to_ms)
    return series_at(series, _owners(series)[keep], np.flatnonzero(keep))


def extended(series: Series, window: Window) -> Series:
    """With a sample at either edge of the window: `anchored` takes the nearest, `smoothed` what lies between.

    x[1m] smoothed at 60 s   samples 1 at -10 s, 3 at 10 s, 5 at 70 s   ->   2 at 0 s, 3 at 10 s, 4.7 at 60 s
    """
    if series.histograms is not None:
        raise EvaluationError("smoothed and anchored modifiers do not work with native histograms")
    grid, is_smoothed = window.grid, window.reach == Reach.SMOOTHED
    times, values, owners = [], [], []
    for row, (low, high) in enumerate(pairwise(series.offsets.tolist())):
        at, value = series.time_ms[low:high], series.value[low:high]
        inside = (at > grid.from_ms) & (at < grid.to_ms)
        if not (at > grid.from_ms).any() or not (is_smoothed or (at <= grid.to_ms).any()):
            continue
        edges = [_at_edge(at, value, edge, is_smoothed) for edge in (grid.from_ms, grid.to_ms)]
        times.append(np.concatenate(([grid.from_ms], at[inside], [grid.to_ms])))
        values.append(np.concatenate((edges[:1], value[inside], edges[1:])))
        owners.append(np.full(len(times[-1]), row, np.int64))
    if not times:
        return series_at(series, np.zeros(0, np.int64), np.zeros(0, np.int64))
    flat = replace(
        series, time_ms=np.concatenate(times), value=np.concatenate(values), is_delta=None, start_ms=None
    )
    return series_at(flat, np.concatenate(owners), np.arange(len(flat.time_ms)))


def _at_edge(at: Int64s, value: Doubles, edge: int, is_smoothed: bool) -> float:
    """The newest sample up to there, or the oldest after it."""
    before = int(np.searchsorted(at, edge, side="right")) - 1
    if before < 0 or not is_smoothed or before + 1 == len(at) or at[before] == edge:
        return float(value[max(before, 0)])
    share = float(edge - at[before]) / float(at[before + 1] - at[before])
    with np.errstate(all="ignore"):
        return float(value[before] + (value[before + 1] - value[before]) * share)


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
