"""Which series, label names and label values there are: series tables answer, and of histograms a few rows.

Classic series of histograms are listed like stored ones. Their buckets are told by rows, so only those of the
series that a selection wants are read, and only if it may want classic series at all.
"""

from __future__ import annotations

from lakerunner_query.protocol.answers import SeriesAnswer
from lakerunner_query.protocol.units import SeriesUnit, UnitReport
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.opening import MetricOpener
from resources.duckdb import Cancellation


class SeriesLister:
    """Everything a worker process shares between such questions."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: SeriesUnit, cancellation: Cancellation) -> SeriesAnswer:
        with self._opener.reading(cancellation) as reading:
            source = LakeSource(reading, unit.segments, self._opener.interner.numbering())
            found: set[Labels] = set()
            for selection in unit.selections:
                found.update(source.series(selection.matchers, selection.from_ms, selection.to_ms))
            report = UnitReport(missing=tuple(reading.missing.values()), segments_opened=len(reading.opened))
        if unit.want == "series":
            ordered = sorted(found)
            cut = unit.limit and len(ordered) > unit.limit
            return SeriesAnswer(tuple(ordered[: unit.limit or None]), (), bool(cut), report)
        texts = sorted(_texts(found, unit))
        cut = unit.limit and len(texts) > unit.limit
        return SeriesAnswer((), tuple(texts[: unit.limit or None]), bool(cut), report)


def _texts(found: set[Labels], unit: SeriesUnit) -> set[str]:
    if unit.want == "names":
        return {name for labels in found for name, _ in labels}
    return {value for labels in found for name, value in labels if name == unit.label}
