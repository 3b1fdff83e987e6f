"""Rules from metrics are evaluated over the samples that PromQL selects, as they were sent.

    node_load1{job="node"}                      samples, counted by what the rule keeps
    node_load1{job="node"}, value sample        sum, count, least and greatest of the samples
    requests_total{job="web"}, value increase   the same of what each sample is greater than the one before

    12:59:50  7    13:00:05  9    13:00:20  4   →   13:00:10  2    13:00:20  4

A sample that is less than the one before it began at zero. Samples are compared if they are at most five
minutes apart, also over the start of the hour; the first of a series grew by 0. A delta is its own increase.
Derived and recorded metrics are no source: their segments name an origin and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakerunner_assets.materialized.rule_cells import NO_NUMBERS, RuleCells, RuleTask, SourceUnreadableError
from lakerunner_query.promql.lang.parser import parse_selector
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.documents import INCREASE
from lakerunner_query.vectors.vector import Labels, Series
from lakerunner_query.windows.functions import STALE_BITS
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.metrics.selections import SelectorLimits
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from resources.arrays import Doubles, Flags
from resources.duckdb import Cancellation
from resources.lake.signals import MARGIN_NS
from resources.lake.timecut import HOUR_NS

CACHE_BYTES = 64 << 20
NS_PER_MS = 1_000_000
MOST_SERIES, MOST_SAMPLES = 1_000_000, 50_000_000
"""Bounds of what one rule reads at once, beyond which the hour cannot be derived."""


def derive_samples(
    rules: Sequence[RuleTask],
    own: Sequence[SegmentRef],
    beside: Sequence[SegmentRef],
    hour_ns: int,
    most: int,
    place: SegmentsInPlace,
) -> dict[int, RuleCells]:
    """Return the cells of each rule by its id."""
    opener = MetricOpener(place, CACHE_BYTES)
    from_ms, to_ms = hour_ns // NS_PER_MS, (hour_ns + HOUR_NS) // NS_PER_MS
    found: dict[int, RuleCells] = {}
    with opener.open_unit(Cancellation()) as reader:
        for rule in rules:
            limits = SelectorLimits(MOST_SERIES, MOST_SAMPLES)
            grows = rule.metric.value == INCREASE
            segments, before_ms = ([*own, *beside], MARGIN_NS // NS_PER_MS) if grows else (own, 0)
            source = LakeSource(reader, segments, opener.interner.numbers(), limits=limits)
            series = source.select(parse_selector(rule.metric.select), from_ms - before_ms, to_ms)
            cells = RuleCells(hour_ns, most, with_values=bool(rule.metric.value))
            _add(series, rule.metric.keep, cells, grows=grows)
            found[rule.rule_id] = cells
        for missing in reader.report().missing:
            raise SourceUnreadableError(f"segment {missing.segment_id}: {missing.reason}")
    return found


def _add(series: Series, keep: Sequence[str], cells: RuleCells, *, grows: bool) -> None:
    kept = frozenset(keep)
    label_sets: dict[Labels, int] = {}
    codes = np.array(
        [
            label_sets.setdefault(tuple(pair for pair in labels if pair[0] in kept), len(label_sets))
            for labels in series.labels
        ],
        np.int64,
    )
    of_sample = np.repeat(codes, np.diff(series.offsets))
    is_histogram = _histograms(series)
    times = series.time_ms * NS_PER_MS
    is_own = (times > cells.hour_ns) & (times <= cells.hour_ns + HOUR_NS)
    cells.errors += int((is_histogram & is_own).sum())
    is_number = ~is_histogram & (series.value.view(np.int64) != STALE_BITS)
    wanted = is_number & is_own
    values = NO_NUMBERS
    if cells.with_values:
        values = _increases(series, is_number)[wanted] if grows else series.value[wanted]
    cells.add_events(list(label_sets), of_sample[wanted], times[wanted], values)


def _increases(series: Series, is_number: Flags) -> Doubles:
    """Return what each number grew by since the one before it in its series."""
    rows = np.flatnonzero(is_number)
    of_row = np.repeat(np.arange(series.count), np.diff(series.offsets))[rows]
    values, times = series.value[rows], series.time_ms[rows]
    grown = np.zeros(len(rows))
    if len(rows):
        with np.errstate(invalid="ignore"):  # values that are no numbers are noted where they are added
            since = np.where(values[1:] < values[:-1], values[1:], values[1:] - values[:-1])
        follows = (of_row[1:] == of_row[:-1]) & (np.diff(times) <= MARGIN_NS // NS_PER_MS)
        grown[1:] = np.where(follows, since, 0.0)
    if series.is_delta is not None:
        grown = np.where(series.is_delta[rows], values, grown)
    found = np.zeros(len(series.value))
    found[rows] = grown
    return found


def _histograms(series: Series) -> Flags:
    """Flag samples that are no numbers."""
    if series.histograms is None:
        return np.zeros(len(series.time_ms), np.bool_)
    return np.array([one is not None for one in series.histograms], np.bool_)
