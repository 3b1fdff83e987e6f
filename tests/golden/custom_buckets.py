"""Classic histograms as histograms with custom buckets, as `load_with_nhcb` adds them.

h_bucket{le="1"} 2, h_bucket{le="+Inf"} 5, h_sum 7   ->   h {bounds [1], buckets [2, 3], count 5, sum 7}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakerunner_query.histogram.model import CUSTOM, Histogram, buckets_at
from lakerunner_query.vectors.vector import NAME, Labels


@dataclass(slots=True)
class _Gathered:
    buckets: dict[float, float] = field(default_factory=dict)
    count: float | None = None
    sum: float = 0.0

    def histogram(self) -> Histogram:
        cumulative = dict(sorted(self.buckets.items()))
        count = self.count
        if count is None:
            count = list(cumulative.values())[-1] if cumulative else 0.0
        cumulative.setdefault(math.inf, count)
        counts, before = [], 0.0
        for reached in cumulative.values():
            if reached < before:
                raise ValueError(f"counts {list(cumulative.values())}: expected none below the one before")
            counts.append(reached - before)
            before = reached
        bounds = tuple(bound for bound in cumulative if bound != math.inf)
        return Histogram(CUSTOM, count, self.sum, positive=buckets_at(0, counts), bounds=bounds)


Floats = tuple[Labels, list[tuple[int, float]]]
"""A series: times and numbers."""


def with_custom_buckets(series: Iterable[Floats]) -> dict[Labels, list[tuple[int, Histogram]]]:
    found: dict[Labels, dict[int, _Gathered]] = {}
    for labels, samples in series:
        told = dict(labels)
        name, _, suffix = told.get(NAME, "").rpartition("_")
        if suffix not in {"bucket", "count", "sum"}:
            continue
        bound = _bound(told.pop("le", "")) if suffix == "bucket" else None
        if suffix == "bucket" and bound is None:
            continue
        told.pop("le", None)
        of_base = found.setdefault(tuple(sorted({**told, NAME: name}.items())), {})
        for time_ms, value in samples:
            at = of_base.setdefault(time_ms, _Gathered())
            if bound is not None:
                at.buckets[bound] = value
            elif suffix == "count":
                at.count = value
            else:
                at.sum = value
    return {
        labels: [(time_ms, one.histogram()) for time_ms, one in sorted(times.items())]
        for labels, times in found.items()
    }


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
