"""Events are counted by kept labels and by bucket of ten seconds.

    service  took  time            service  end       count  sum  least  greatest
    web      0.3   12:00:01        web      12:00:10      2  0.8    0.3       0.5
    web      0.5   12:00:10        web      12:00:20      1  0.2    0.2       0.2
    web      0.2   12:00:11

A bucket ends at a whole ten seconds, which it includes. One without events has no cell, hence no sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakerunner_query.rules.documents import DerivedMetric, Form
from lakerunner_query.vectors.vector import Labels
from resources.arrays import Doubles, Int64s
from resources.lake.columns import (
    CHQ_METRIC_TYPE,
    CHQ_OBJECT,
    CHQ_POSITION,
    CHQ_SERIES,
    CHQ_START_TSNS,
    CHQ_TID,
    CHQ_TIMESTAMP,
    CHQ_VALUE,
)
from resources.lake.series import NAME_LABEL
from resources.lake.streams import canonical, labels_to_text, stream_id
from resources.lake.timecut import HOUR_NS, SECOND_NS

BUCKET_NS = 10 * SECOND_NS
BUCKETS = HOUR_NS // BUCKET_NS
NS_PER_MS = 1_000_000
NO_OBJECT = 0
"""Raw object of derived rows: they have none."""
NO_NUMBERS: Doubles = np.zeros(0)


class RuleTextError(ValueError):
    """A rule of the index selects no events of its signal."""


class SourceUnreadableError(ValueError):
    """A segment of the hour cannot be read."""


@dataclass(frozen=True, slots=True)
class RuleTask:
    """A rule as a task derives it."""

    rule_id: int
    version: int
    metric: DerivedMetric


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """Result of a rule in one hour."""

    rule_id: int
    version: int
    metric: str
    rows: int = 0
    """Samples, of all forms."""
    series: int = 0
    errors: int = 0
    """Events without a value, or with an error that fails a query."""
    refusal: str = ""
    """Reason why the metric must not stand for its source in this hour; empty: it may."""


@dataclass(slots=True)
class RuleCells:
    """Cells of one rule and hour, which grow with the events that are added."""

    hour_ns: int
    most: int
    """Series that are kept; with one more the rule has overflowed, and has none."""
    with_values: bool
    errors: int = 0
    has_overflowed: bool = False
    refusals: set[str] = field(default_factory=set)
    """Reasons why the metric must not stand for its source in this hour."""
    _codes: dict[Labels, int] = field(default_factory=dict)
    _cells: list[Int64s] = field(default_factory=list)
    _counts: list[Int64s] = field(default_factory=list)
    _numbers: list[tuple[Doubles, Doubles, Doubles]] = field(default_factory=list)

    def add_counts(self, labels: Sequence[Labels], counts: Int64s, values: Sequence[Doubles] = ()) -> None:
        """Add counts by label set and bucket of the hour; `values` are sums, minima and maxima of those."""
        series, buckets = np.nonzero(counts)
        numbers = self._number(labels)
        if numbers is None or not len(series):
            return
        self._cells.append(numbers[series] * BUCKETS + buckets)
        self._counts.append(counts[series, buckets])
        if self.with_values:
            sums, least, most = (each[series, buckets] for each in values)
            self._check(sums)
            self._numbers.append((sums, least, most))

    def add_events(self, labels: Sequence[Labels], codes: Int64s, times: Int64s, values: Doubles) -> None:
        """Add events, each with the place of its label set; `values` only where the rule has any."""
        numbers = self._number(labels)
        if numbers is None or not len(codes):
            return
        bucket = (times - self.hour_ns - 1) // BUCKET_NS
        cell = numbers[codes] * BUCKETS + bucket
        order = np.argsort(cell, kind="stable")
        cell = cell[order]
        starts = np.flatnonzero(np.append(True, cell[1:] != cell[:-1]))
        self._cells.append(cell[starts])
        self._counts.append(np.diff(np.append(starts, len(cell))))
        if self.with_values:
            ordered = values[order]
            self._check(values)
            sums, least, most = (each.reduceat(ordered, starts) for each in (np.add, np.minimum, np.maximum))
            self._numbers.append((sums, least, most))

    def add_cells(
        self,
        labels: Sequence[Labels],
        codes: Int64s,
        buckets: Int64s,
        counts: Int64s,
        values: Sequence[Doubles] = (),
    ) -> None:
        """Add counts of cells, of which several may be the same; `values` as in `add_counts`."""
        numbers = self._number(labels)
        if numbers is None or not len(codes):
            return
        self._cells.append(numbers[codes] * BUCKETS + buckets)
        self._counts.append(counts)
        if self.with_values:
            sums, least, most = values
            self._check(sums)
            self._numbers.append((sums, least, most))

    def overflow(self) -> None:
        self.has_overflowed = True
        self.refuse(f"more than {self.most} series")
        self._cells, self._counts, self._numbers = [], [], []

    @property
    def series(self) -> int:
        return len(self._codes)

    def refuse(self, reason: str) -> None:
        self.refusals.add(reason)

    @property
    def refusal(self) -> str:
        """Return all reasons; empty: the metric may stand for its source."""
        failed = [f"{self.errors} events with an error or without a number"] if self.errors else []
        return "; ".join([*sorted(self.refusals), *failed])

    def tables(self, metric: DerivedMetric, position: int) -> Iterator[pa.Table]:
        """Yield the samples of each form, in the form of decoded metrics."""
        if not self._cells:
            return
        cell, place = np.unique(np.concatenate(self._cells), return_inverse=True)
        counts: Doubles = np.bincount(place, np.concatenate(self._counts), len(cell)).astype(np.float64)
        numbers = {Form.COUNT: counts, **self._merged(len(cell), place)}
        codes, buckets = np.divmod(cell, BUCKETS)
        ends_ms = (self.hour_ns + (buckets + 1) * BUCKET_NS) // NS_PER_MS
        for form, name in metric.series.items():
            yield _samples(name, form, list(self._codes), codes, ends_ms, numbers[form], position)
            position += len(cell)

    def _number(self, labels: Sequence[Labels]) -> Int64s | None:
        """Return the numbers of label sets; None once there are too many. Empty values count as absent."""
        if self.has_overflowed:
            return None
        if any(not value for each in labels for _, value in each):
            self.refuse("a kept label is there but empty, which is not the same as absent in LogQL")
        known = [tuple(sorted(pair for pair in each if pair[1])) for each in labels]
        numbers = np.array([self._codes.setdefault(each, len(self._codes)) for each in known], np.int64)
        if len(self._codes) > self.most:
            self.overflow()
            return None
        return numbers

    def _check(self, values: Doubles) -> None:
        """Sums of values that are not finite depend on their order."""
        if not np.isfinite(values).all():
            self.refuse("values that are not finite")

    def _merged(self, cells: int, place: Int64s) -> dict[Form, Doubles]:
        if not self.with_values:
            return {}
        sums, least, most = (np.concatenate(each) for each in zip(*self._numbers, strict=True))
        found = {
            Form.SUM: np.bincount(place, sums, cells),
            Form.MIN: np.full(cells, np.inf),
            Form.MAX: np.full(cells, -np.inf),
        }
        with np.errstate(invalid="ignore"):  # values that are no numbers were noted
            np.minimum.at(found[Form.MIN], place, least)
            np.maximum.at(found[Form.MAX], place, most)
        return found


def _samples(
    name: str,
    form: Form,
    label_sets: Sequence[Labels],
    codes: Int64s,
    ends_ms: Int64s,
    values: Doubles,
    position: int,
) -> pa.Table:
    named = [canonical({**dict(each), NAME_LABEL: name}) for each in label_sets]
    texts = pa.array([labels_to_text(each) for each in named])
    tids = np.array([stream_id(each) for each in named], np.int64)
    count = len(codes)
    is_sum = form in {Form.COUNT, Form.SUM}
    columns = {
        "metric_name": _repeated(name, count),
        CHQ_TID: tids[codes],
        CHQ_TIMESTAMP: ends_ms,
        CHQ_OBJECT: np.full(count, NO_OBJECT),
        CHQ_POSITION: np.arange(position, position + count),
        CHQ_SERIES: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), texts),
        CHQ_START_TSNS: ends_ms * NS_PER_MS - BUCKET_NS,
        "metric_description": _repeated(_DESCRIPTIONS[form], count),
        CHQ_METRIC_TYPE: _repeated("sum" if is_sum else "gauge", count),
        CHQ_VALUE: pa.array(values),
    }
    if is_sum:
        columns["metric_temporality"] = _repeated("delta", count)
        columns["metric_is_monotonic"] = pa.array(np.full(count, form is Form.COUNT))
    return pa.table(columns)


_DESCRIPTIONS = {
    Form.COUNT: "Events of ten seconds",
    Form.SUM: "Sum of the values of ten seconds",
    Form.MIN: "Least value of ten seconds",
    Form.MAX: "Greatest value of ten seconds",
}


def _repeated(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [text])
