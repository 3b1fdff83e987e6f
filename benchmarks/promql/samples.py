"""Series in memory, before they are given to a peer or written into a lake."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakerunner_query.histogram.model import Histogram
from lakerunner_query.vectors.vector import NAME, Labels
from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Doubles, Int64s

STALE = float(np.uint64(STALE_BITS).view(np.float64))


@dataclass(frozen=True, slots=True)
class Sampled:
    """Samples of one series, times ascending."""

    labels: Labels
    time_ms: Int64s
    value: Doubles
    histograms: tuple[Histogram | None, ...] | None = None
    """By sample, None where it is a float; None: all are."""

    @property
    def name(self) -> str:
        return dict(self.labels)[NAME]

    def between(self, after_ms: int, until_ms: int) -> Sampled:
        """Those in `(after_ms, until_ms]`."""
        low, high = np.searchsorted(self.time_ms, [after_ms, until_ms], "right").tolist()
        histograms = None if self.histograms is None else self.histograms[low:high]
        return Sampled(self.labels, self.time_ms[low:high], self.value[low:high], histograms)


def labels_of(name: str, **others: str) -> Labels:
    """
    >>> labels_of("up", job="a")
    (('__name__', 'up'), ('job', 'a'))
    """
    return tuple(sorted({NAME: name, **others}.items()))
