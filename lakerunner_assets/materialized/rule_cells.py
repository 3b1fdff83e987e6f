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

from lakerunner_assets.materialized.sum_kernels import sum_exactly
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
    CHQ_VALUE_REST,
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
    refusals: tuple[str, ...] = ()
    """The same without the errors, one by one."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Values of the events of some cells."""

    places: Int64s
    """Number of the cell of each part; a cell may have several."""
    parts: Doubles
    """Doubles whose exact sum is the sum of the values."""
    least: Doubles
    most: Doubles

    @classmethod
    def of_events(cls, values: Doubles, starts: Int64s) -> Numbers:
        """Take values in runs, one for each cell; run n begins at `starts[n]`."""
        places, parts = exact_parts(values, np.append(starts, len(values)))
        return cls(places, parts, np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts))

    def take(self, cells: Int64s) -> Numbers:
        """Choose cells; their order stays."""
        numbers = np.full(len(self.least), -1)
        numbers[cells] = np.arange(len(cells))
        chosen = numbers[self.places] >= 0
        return Numbers(numbers[self.places[chosen]], self.parts[chosen], self.least[cells], self.most[cells])


def exact_parts(values: Doubles, ends: Int64s) -> tuple[Int64s, Doubles]:
    """Return few doubles for each run of values, and the run of each: together they are its exact sum."""
    sums, rests = np.empty(len(ends) - 1), np.empty(len(ends) - 1)
    sum_exactly(values, ends, sums, rests)
    two = np.flatnonzero(rests != 0)  # where two are too few, the values stay as they are
    if not len(two):
        return np.arange(len(sums)), sums
    whole = ~np.isnan(rests)
    of_value = np.repeat(np.arange(len(sums)), np.diff(ends))
    single = ~whole[of_value]
    second = two[whole[two]]
    places = np.concatenate((np.flatnonzero(whole), second, of_value[single]))
    return places, np.concatenate((sums[whole], rests[second], values[single]))


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
    is_exact: bool = True
    """False once a sum needs more than two doubles: nothing can be added to what is written of it."""
    _codes: dict[Labels, int] = field(default_factory=dict)
    _cells: list[Int64s] = field(default_factory=list)
    _counts: list[Int64s] = field(default_factory=list)
    _numbers: list[Numbers] = field(default_factory=list)

    def add_counts(self, labels: Sequence[Labels], counts: Int64s, values: Sequence[Doubles] = ()) -> None:
        """Add counts by label set and bucket of the hour; `values` are sums, minima and maxima of those."""
        series, buckets = np.nonzero(counts)
        found = None
        if self.with_values:
            sums, least, most = (each[series, buckets] for each in values)
            found = Numbers(np.arange(len(sums)), sums, least, most)
        self.add_cells(labels, series, buckets, counts[series, buckets], found)

    def add_events(self, labels: Sequence[Labels], codes: Int64s, times: Int64s, values: Doubles) -> None:
        """Add events, each with the place of its label set; `values` only where the rule has any."""
        cell = codes * BUCKETS + (times - self.hour_ns - 1) // BUCKET_NS
        order = np.argsort(cell, kind="stable")
        cell = cell[order]
        starts = np.flatnonzero(np.append(True, cell[1:] != cell[:-1])) if len(cell) else cell
        found = Numbers.of_events(values[order], starts) if self.with_values and len(cell) else None
        counts = np.diff(np.append(starts, len(cell)))
        self.add_cells(labels, *np.divmod(cell[starts], BUCKETS), counts, found)

    def add_cells(
        self,
        labels: Sequence[Labels],
        codes: Int64s,
        buckets: Int64s,
        counts: Int64s,
        values: Numbers | None = None,
    ) -> None:
        """Add counts of cells, of which several may be the same."""
        numbers = self._number(labels)
        if numbers is None or not len(codes):
            return
        self._cells.append(numbers[codes] * BUCKETS + buckets)
        self._counts.append(counts)
        if values is not None:
            if not np.isfinite(values.parts).all():  # such sums depend on their order
                self.refuse("values that are not finite")
            self._numbers.append(values)

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
        """Yield the samples of each form, in the form of decoded metrics.

        Label sets are in their own order: which events came first does not show.
        """
        if not self._cells:
            return
        label_sets = sorted(self._codes)
        ranks = np.empty(len(label_sets), np.int64)
        ranks[[self._codes[each] for each in label_sets]] = np.arange(len(label_sets))
        all_cells = np.concatenate(self._cells)
        all_cells = ranks[all_cells // BUCKETS] * BUCKETS + all_cells % BUCKETS
        cell, place = np.unique(all_cells, return_inverse=True)
        counts: Doubles = np.bincount(place, np.concatenate(self._counts), len(cell)).astype(np.float64)
        merged, rests = self._merged(len(cell), place)
        codes, buckets = np.divmod(cell, BUCKETS)
        ends_ms = (self.hour_ns + (buckets + 1) * BUCKET_NS) // NS_PER_MS
        for form, name in metric.series.items():
            values = counts if form is Form.COUNT else merged[form]
            table = _samples(name, form, label_sets, codes, ends_ms, values, position)
            if form is Form.SUM and (rests != 0).any():
                table = table.append_column(
                    CHQ_VALUE_REST, pa.array(rests, mask=rests == 0, from_pandas=False)
                )
            yield table
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

    def _merged(self, cells: int, place: Int64s) -> tuple[dict[Form, Doubles], Doubles]:
        """Return the values of each form, and what rounding took from the sums."""
        if not self.with_values:
            return {}, NO_NUMBERS
        firsts = np.cumsum([0, *map(len, self._cells)])
        places = np.concatenate(
            [each.places + first for each, first in zip(self._numbers, firsts.tolist(), strict=False)]
        )
        of_part = place[places]
        order = np.argsort(of_part, kind="stable")
        parts = np.concatenate([each.parts for each in self._numbers])[order]
        ends = np.searchsorted(of_part[order], np.arange(cells + 1))
        found = {form: np.empty(cells) for form in (Form.SUM, Form.MIN, Form.MAX)}
        rests = np.empty(cells)
        sum_exactly(parts, ends, found[Form.SUM], rests)
        self.is_exact &= not bool(np.isnan(rests).any())
        found[Form.MIN].fill(np.inf)
        found[Form.MAX].fill(-np.inf)
        with np.errstate(invalid="ignore"):  # values that are no numbers were noted
            np.minimum.at(found[Form.MIN], place, np.concatenate([each.least for each in self._numbers]))
            np.maximum.at(found[Form.MAX], place, np.concatenate([each.most for each in self._numbers]))
        return {form: values + 0.0 for form, values in found.items()}, rests  # no -0.0


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
