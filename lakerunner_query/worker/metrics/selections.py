"""Selector results are bounded by `SelectorLimits` and cached between queries as `CachedSelection`.

Segments never change, so their keys, the matchers and the times determine a result; publishing a segment adds
a key. Nobody writes to a cached result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.promql.selectors import is_stale
from lakerunner_query.protocol.answers import Trait
from lakerunner_query.syntax import Matcher
from lakerunner_query.vectors.labels import SharedLabels
from lakerunner_query.vectors.vector import Series
from lakerunner_query.worker.metrics.row_groups import HISTOGRAM_BYTES
from lakerunner_query.worker.metrics.shards import Shard

LABELS_BYTES = 150
"""Bytes of a series besides its samples: its place in lists and what is derived from it; texts are shared."""


@dataclass(slots=True)
class SelectorLimits:
    """Upper bounds of what one selector may read, 0 for none; keeps the peak of all selectors."""

    max_series: int = 0
    max_samples: int = 0
    peak_series: int = 0
    peak_samples: int = 0

    def check_series(self, count: int) -> None:
        self.peak_series = max(self.peak_series, count)
        if self.max_series and count > self.max_series:
            raise LimitExceededError(
                f"a selector matches more than {self.max_series} series (query_max_series): "
                "add matchers, or narrow the time range"
            )

    def check_samples(self, count: int) -> None:
        self.peak_samples = max(self.peak_samples, count)
        if self.max_samples and count > self.max_samples:
            raise LimitExceededError(
                "query processing would load too many samples into memory in query execution: "
                f"more than {self.max_samples} (query_max_samples); add matchers, or narrow the time range"
            )


class SelectionKey(NamedTuple):
    """Everything that a selector's result depends on."""

    segment_keys: tuple[str, ...]
    matchers: tuple[Matcher, ...]
    from_ms: int
    to_ms: int
    starts: bool
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class CachedSelection:
    """The series that a selector found, and their size in memory."""

    series: Series
    nbytes: int
    traits: Trait = Trait.NOTHING

    @classmethod
    def of(cls, series: Series, traits: Trait = Trait.NOTHING) -> CachedSelection:
        known = series.labels
        labels = known.for_other_samples() if isinstance(known, SharedLabels) else SharedLabels(known)
        series = replace(series, labels=labels, are_real=series.are_real or not bool(is_stale(series).any()))
        arrays = (series.offsets, series.time_ms, series.value, series.is_delta, series.start_ms)
        size = sum(array.nbytes for array in arrays if array is not None) + LABELS_BYTES * series.count
        if series.histograms is not None:
            size += HISTOGRAM_BYTES * len(series.histograms)
        return cls(series, size, traits)
