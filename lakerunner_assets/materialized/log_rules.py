"""Rules from logs run through the pipeline that answers LogQL.

    {namespace="shop"} | json | status >= 500      lines, counted by what the rule keeps
    {namespace="shop"} | json, value duration(took)      lines with a number behind `unwrap`

A line with an error would fail a query, so it is counted as such, and the hour stays with the raw lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from lakerunner_assets.materialized.log_scan import (
    Ending,
    HourScan,
    SharedRule,
    shared_rule,
    worth_sharing,
)
from lakerunner_assets.materialized.rule_cells import (
    BUCKET_NS,
    BUCKETS,
    NO_NUMBERS,
    RuleCells,
    RuleTask,
    RuleTextError,
    SourceUnreadableError,
)
from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql.frame import LogFrame, has_text
from lakerunner_query.logql.lang.ast import LogRange, RangeAggregation
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.logql.metrics.context import Naming, SeriesTable
from lakerunner_query.logql.metrics.demand import demand_of, simplify
from lakerunner_query.logql.metrics.errors import flag_failing
from lakerunner_query.logql.pipeline import LogSource
from lakerunner_query.logql.stages.formats import unwrap_numbers
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.documents import LINE_BYTES, DerivedMetric
from lakerunner_query.syntax import Matcher
from lakerunner_query.worker.logs.samples import LakeLogSource, UnreadableSegments
from lakerunner_query.worker.logs.segment_opener import ScanResources, SegmentOpener
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from resources.arrays import Doubles
from resources.duckdb import Cancellation, DuckSession
from resources.lake.timecut import HOUR_NS


class _SameForAll(dict[tuple[Matcher, ...], Sequence[SegmentRef]]):
    """Segments of an hour, whatever is selected from them."""

    def __init__(self, segments: Sequence[SegmentRef]) -> None:
        super().__init__()
        self._segments = segments

    def __missing__(self, matchers: tuple[Matcher, ...]) -> Sequence[SegmentRef]:
        return self._segments


@dataclass(frozen=True, slots=True)
class LogRule:
    """A rule as an aggregation of LogQL over ten seconds."""

    expr: RangeAggregation
    naming: Naming
    measures_lines: bool

    @classmethod
    def of(cls, metric: DerivedMetric) -> LogRule:
        measures = metric.value == LINE_BYTES
        naming = Naming(frozenset(metric.keep), is_without=False)
        parsed = parse_expr(aggregation_text(metric))
        if not isinstance(parsed, RangeAggregation):
            raise RuleTextError(f"{metric.metric}: expected a selection of lines, found {metric.select}")
        return cls(parsed, naming, measures)

    @property
    def has_values(self) -> bool:
        return self.measures_lines or self.expr.range.unwrap is not None

    @property
    def ranged(self) -> LogRange:
        return simplify(self.expr.range, self.naming, of_bytes=self.measures_lines)


def aggregation_text(metric: DerivedMetric) -> str:
    """Return the LogQL that a rule stands for, without its grouping.

    >>> aggregation_text(DerivedMetric("m", Signal.LOGS, '{a="b"} | json', value="duration(took)"))
    'sum_over_time({a="b"} | json | unwrap duration(took) [10s])'
    """
    if not metric.value:
        return f"count_over_time({metric.select} [10s])"
    if metric.value == LINE_BYTES:
        return f"bytes_over_time({metric.select} [10s])"
    return f"sum_over_time({metric.select} | unwrap {metric.value} [10s])"


def derive_logs(
    rules: Sequence[RuleTask],
    segments: Sequence[SegmentRef],
    hour_ns: int,
    most: int,
    place: SegmentsInPlace,
    session: DuckSession,
) -> dict[int, RuleCells]:
    """Return the cells of each rule by its id."""
    resources = ScanResources(SegmentOpener(place), session, Cancellation())
    known = {rule.rule_id: LogRule.of(rule.metric) for rule in rules}
    shared = {number: one for number, rule in known.items() if (one := _shared(rule, hour_ns, most))}
    found: dict[int, RuleCells] = {}
    if worth_sharing(shared):
        scan = HourScan(_SameForAll(segments), resources, UnreadableSegments(), hour_ns + HOUR_NS)
        scan.evaluate(list(shared.values()), hour_ns)
        _check(scan)
        found = {number: rule.cells for number, rule in shared.items()}
    for number, rule in known.items():
        if number not in found:
            source = LakeLogSource(_SameForAll(segments), resources, UnreadableSegments(), hour_ns + HOUR_NS)
            found[number] = _derive(rule, source, hour_ns, most)
            _check(source)
    return found


def _check(source: LakeLogSource) -> None:
    for missing in source.report().missing:
        raise SourceUnreadableError(f"segment {missing.segment_id}: {missing.reason}")


def _shared(rule: LogRule, hour_ns: int, most: int) -> SharedRule | None:
    ending = Ending(rule.naming.names, rule.expr.range.unwrap, rule.measures_lines)
    cells = RuleCells(hour_ns, most, with_values=rule.has_values)
    return shared_rule(rule.ranged.query, demand_of(rule.expr, rule.naming), ending, cells)


def _derive(rule: LogRule, source: LogSource, hour_ns: int, most: int) -> RuleCells:
    cells = RuleCells(hour_ns, most, with_values=rule.has_values)
    ranged = rule.ranged
    if not cells.with_values:
        by = tuple(sorted(rule.naming.names))
        try:
            counted = source.buckets(ranged.query, by, hour_ns, BUCKET_NS, BUCKETS, with_bytes=False)
        except LimitExceededError:  # more groups than an answer may have are too many here
            cells.overflow()
            return cells
        if counted is not None:
            cells.add_counts(counted.labels, counted.counts)
            return cells
    for every, numbers in _events(rule, ranged, source, hour_ns):
        passed = ~flag_failing(every, keeps_errors=False)
        cells.errors += every.count - int(passed.sum())
        frame = every.keep(passed)
        table = SeriesTable(rule.naming)
        codes = table.numbers(frame)
        cells.add_events(table.labels, codes, frame.tsns, numbers[passed] if len(numbers) else numbers)
        if cells.has_overflowed:
            break
    return cells


def _events(
    rule: LogRule, ranged: LogRange, source: LogSource, hour_ns: int
) -> Iterator[tuple[LogFrame, Doubles]]:
    demand = demand_of(rule.expr, rule.naming)
    for frame in source.rows(ranged.query, hour_ns, hour_ns + HOUR_NS, demand):
        if ranged.unwrap is not None:
            yield unwrap_numbers(frame.keep(has_text(frame, ranged.unwrap.label)), ranged.unwrap)
        elif rule.measures_lines:
            sizes = pc.binary_length(frame.line).to_numpy(zero_copy_only=False)
            yield frame, sizes.astype(np.float64)
        else:
            yield frame, NO_NUMBERS
