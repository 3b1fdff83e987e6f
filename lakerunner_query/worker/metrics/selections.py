"""What a selector found, kept in memory between queries: the next one that asks the same reads nothing.

Segments never change, so that their keys, the matchers and the times say all; a published segment is another
key. Nobody writes to what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from lakerunner_query.promql.selectors import is_stale
from lakerunner_query.protocol.answers import Trait
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.vectors.vector import Series
from lakerunner_query.worker.metrics.families import Shard
from lakerunner_query.worker.metrics.row_groups import HISTOGRAM_BYTES

LABELS_BYTES = 150
"""Of a series: its place in lists, and in what is worked out about it. The label texts are everybody's."""


class Selected(NamedTuple):
    """All that an answer depends on."""

    keys: tuple[str, ...]
    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int
    starts: bool
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    series: Series
    nbytes: int
    traits: Trait = Trait.NOTHING

    @classmethod
    def of(cls, series: Series, traits: Trait = Trait.NOTHING) -> Selection:
        known = series.labels
        labels = known.for_other_samples() if isinstance(known, SharedLabels) else SharedLabels(known)
        series = replace(series, labels=labels, are_real=not bool(is_stale(series).any()))
        arrays = (series.offsets, series.time_ms, series.value, series.is_delta, series.start_ms)
        size = sum(array.nbytes for array in arrays if array is not None) + LABELS_BYTES * series.count
        if series.histograms is not None:
            size += HISTOGRAM_BYTES * len(series.histograms)
        return cls(series, size, traits)
