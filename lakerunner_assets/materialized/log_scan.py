"""One scan over the lines of an hour serves all rules.

    {app="a"} |= "took" | logfmt    ┐            ┌ by app, of streams a
    {app="b"} |= "took" | logfmt    ├ |= "took" ─┤ logfmt ─ by app, of streams a, of streams b
    {app=~".+"} |= "took"           ┘            └ …

Rules form a tree by their stages. A stage runs once over the lines that any rule below it selects. Where
rules end, lines are counted by stream and labels, and each rule adds up the streams that it selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakerunner_assets.materialized.needles import Needles, is_plain
from lakerunner_assets.materialized.rule_cells import BUCKET_NS, BUCKETS, NO_NUMBERS, Numbers, RuleCells
from lakerunner_query.logql.frame import LogFrame, grouped_rows, has_text
from lakerunner_query.logql.lang.ast import ERROR, LineFilter, LogQuery, Stage, Unwrap
from lakerunner_query.logql.lang.stages import row_of
from lakerunner_query.logql.metrics.errors import flag_failing
from lakerunner_query.logql.pipeline import Demand, labels_before
from lakerunner_query.logql.stages.formats import unwrap_numbers
from lakerunner_query.logql.stages.registry import RUN_OF, Clock
from lakerunner_query.plan.logql import Nothing, RunStages
from lakerunner_query.plan.optimise import improve_cached
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.logs.labels import ScannedRows, columns_for, label_columns
from lakerunner_query.worker.logs.row_fetch import (
    MEANINGFUL_NULLS,
    MESSAGE,
    StreamRanks,
    integers,
    is_kept_coded,
    lines_of,
)
from lakerunner_query.worker.logs.samples import FRAME_BYTES, FRAME_ROWS, LakeLogSource
from lakerunner_query.worker.logs.scan_intervals import ScanInterval, rows_in_bytes
from lakerunner_query.worker.logs.segment_opener import OpenSegment
from lakerunner_query.worker.logs.stream_filter import StreamFilter
from resources.arrays import Doubles, Flags, Int64s
from resources.lake.columns import CHQ_STREAM_ID, CHQ_TSNS
from resources.lake.streams import Stream
from resources.lake.timecut import HOUR_NS

FEW = 0.5
"""Share of lines below which they are taken out before a stage runs over them."""
CELLS_PER_ROW = 8
"""Possible cells per line up to which cells are counted in a table of all."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Counting at the end of a pipeline, which rules may share."""

    keep: frozenset[str]
    unwrap: Unwrap | None
    measures_lines: bool


@dataclass(slots=True)
class SharedRule:
    """A rule whose lines come from the scan."""

    plan: RunStages
    demand: Demand
    ending: Ending
    cells: RuleCells
    selects: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Selected streams, by rank."""


def shared_rule(query: LogQuery, demand: Demand, ending: Ending, cells: RuleCells) -> SharedRule | None:
    """Return a rule that can be evaluated beside others; None where it looks at all labels there are."""
    plan = improve_cached(query).pipeline
    if isinstance(plan, Nothing) or any(row_of(stage).removes_labels for stage in plan.stages):
        return None
    if any(names is None for names in labels_before(plan.stages, demand)):
        return None
    return SharedRule(plan, demand, ending, cells)


@dataclass
class _Node:
    """Rules behind the same stages."""

    ends: dict[Ending, list[SharedRule]] = field(default_factory=dict)
    behind: dict[Stage, _Node] = field(default_factory=dict)
    labels: set[str] = field(default_factory=lambda: {ERROR})
    """Labels that something behind looks at, and those that the stage before reads."""
    after: set[str] = field(default_factory=set)
    """Labels that something behind looks at."""
    needs_line: bool = False
    needs_line_after: bool = False
    """The same without what the stage before reads."""
    selects: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Streams that a rule selects, by rank."""

    @cached_property
    def needles(self) -> Needles | None:
        """Texts that the next stages look for."""
        plain = [stage for stage in self.behind if isinstance(stage, LineFilter) and is_plain(stage)]
        return Needles.of(plain) if plain else None

    def add(self, rule: SharedRule, number: int = 0) -> None:
        stages = rule.plan.stages
        names = labels_before(stages, rule.demand)
        self.after |= names[number] or set()
        self.labels |= names[max(0, number - 1)] or set()
        self.needs_line |= rule.demand.line or any(map(_looks_at_line, stages[max(0, number - 1) :]))
        self.needs_line_after |= rule.demand.line or any(map(_looks_at_line, stages[number:]))
        self.selects = rule.selects | self.selects if len(self.selects) else rule.selects
        if number == len(stages):
            self.ends.setdefault(rule.ending, []).append(rule)
        else:
            self.behind.setdefault(stages[number], _Node()).add(rule, number + 1)


def _looks_at_line(stage: Stage) -> bool:
    row = row_of(stage)
    return row.needs_line or row.reads_line(stage)


class HourScan(LakeLogSource):
    """Scan of all lines of an hour."""

    def evaluate(self, rules: Sequence[SharedRule], hour_ns: int) -> None:
        """Add the lines of the hour to the cells of the rules."""
        labels = frozenset(
            name
            for rule in rules
            for names in labels_before(rule.plan.stages, rule.demand)[:1]
            for name in names or ()
        )
        line = any(rule.demand.line or any(map(_looks_at_line, rule.plan.stages)) for rule in rules)
        clock = Clock(self.now_ns, self.resources.cancellation.check)
        root: _Node | None = None
        for frame, ranks in self._all(hour_ns, Demand(labels, line), rules):
            if root is None:
                root = _Node()
                for rule in rules:
                    rule.selects = _selected(rule.plan, ranks, hour_ns)
                    root.add(rule)
            _visit(root, frame, clock, hour_ns)

    def _all(
        self, hour_ns: int, demand: Demand, rules: Sequence[SharedRule]
    ) -> Iterator[tuple[LogFrame, StreamRanks]]:
        """Yield all lines in frames; `row_position` has the ranks of their streams."""
        matchers = {rule.plan.source.matchers for rule in rules}
        query = LogQuery(matchers.pop() if len(matchers) == 1 else ())
        plan = improve_cached(query).pipeline
        if isinstance(plan, Nothing):
            return
        with self._open(query, plan, hour_ns, hour_ns + HOUR_NS) as (files, scanned):
            scanned.add(ScanInterval(hour_ns + 1, hour_ns + HOUR_NS + 1, tuple(files.opened)))
            ranks = StreamRanks.of(stream for one in files.opened for stream in one.streams)
            for one in files.opened:
                self.resources.cancellation.check()
                for frame in _frames(one, ranks, demand, hour_ns):
                    yield frame, ranks


def _frames(one: OpenSegment, ranks: StreamRanks, demand: Demand, hour_ns: int) -> Iterator[LogFrame]:
    """Read row groups as they are stored: texts that are kept coded stay so."""
    names = [name for name in columns_for([one.footer], demand.labels) if name != MESSAGE]
    columns = [CHQ_TSNS, CHQ_STREAM_ID, *names, *([MESSAGE] if demand.line else [])]
    coded = [name for name in names if is_kept_coded(one.footer, name)]
    source, metadata = one.file.source(), one.footer.metadata
    with pq.ParquetFile(source, metadata=metadata, read_dictionary=coded, pre_buffer=False) as file:
        for numbers in _batches(one, hour_ns):
            table = file.read_row_groups(numbers, columns=columns, use_threads=False).unify_dictionaries()
            yield _frame(one, _with_meaningful_nulls(table), ranks, demand, hour_ns)


def _batches(one: OpenSegment, hour_ns: int) -> Iterator[list[int]]:
    """Cut the row groups of the hour into runs of so many rows as a frame has."""
    most = rows_in_bytes([one], FRAME_BYTES, FRAME_ROWS)
    found: list[int] = []
    rows = 0
    for number in np.flatnonzero(one.matching_groups(hour_ns + 1, hour_ns + HOUR_NS + 1)).tolist():
        found.append(number)
        rows += int(one.footer.groups.first[number + 1] - one.footer.groups.first[number])
        if rows >= most:
            yield found
            found, rows = [], 0
    if found:
        yield found


def _with_meaningful_nulls(table: pa.Table) -> pa.Table:
    """Decode columns whose null is a value: a dictionary has none."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if name in MEANINGFUL_NULLS and column.null_count and pa.types.is_dictionary(column.type):
            table = table.set_column(place, name, column.cast(column.type.value_type))
    return table


def _frame(one: OpenSegment, table: pa.Table, ranks: StreamRanks, demand: Demand, hour_ns: int) -> LogFrame:
    by_id = {stream.stream_id: ranks.rank_of[stream.labels] for stream in one.streams}
    ids = np.array(sorted(by_id), np.int64)
    sent = integers(table, CHQ_STREAM_ID)
    places = np.minimum(np.searchsorted(ids, sent), len(ids) - 1)
    times = integers(table, CHQ_TSNS)
    there = (ids[places] == sent) & (times > hour_ns) & (times <= hour_ns + HOUR_NS)
    of_row = np.array([by_id[identity] for identity in ids.tolist()], np.int64)[places]
    rows = ScannedRows(
        table, np.zeros(len(times), np.int32), of_row.astype(np.int32), [one.footer], ranks.labels
    )
    frame = LogFrame(times, lines_of(table), label_columns(rows, demand.labels), None, of_row)
    return frame.keep(there)


def _selected(plan: RunStages, ranks: StreamRanks, hour_ns: int) -> Flags:
    """Flag the streams that a rule selects, by rank."""
    start_ns, end_ns = hour_ns + 1, hour_ns + HOUR_NS + 1
    streams = [Stream(0, labels, 1, start_ns, hour_ns + HOUR_NS) for labels in ranks.rank_of]
    found = np.zeros(len(ranks.labels), np.bool_)
    for stream in StreamFilter.of(plan.source, start_ns, end_ns).select(streams):
        found[ranks.rank_of[stream.labels]] = True
    return found


def _visit(node: _Node, frame: LogFrame, clock: Clock, hour_ns: int) -> None:
    for ending, rules in node.ends.items():
        _count(frame, ending, rules, hour_ns)
    searched = node.needles.test(frame.line) if node.needles is not None else {}
    for stage, behind in node.behind.items():
        if isinstance(stage, LineFilter) and stage in searched:
            passed = _lines_of(frame, searched[stage], behind)
        else:
            part = _pruned(frame, behind)
            passed = RUN_OF[type(stage)](part, stage, frozenset(behind.after), clock)
        if passed.count:
            _visit(behind, passed, clock, hour_ns)


def _lines_of(frame: LogFrame, flags: Flags, node: _Node) -> LogFrame:
    """Return the lines that passed, with what is looked at behind."""
    labels = {name: column for name, column in frame.labels.items() if name in node.after or name == ERROR}
    rows = np.flatnonzero(flags)
    if not node.selects.all():
        rows = rows[node.selects[_ranks(frame)[rows]]]
    if node.needs_line_after:
        return replace(frame, labels=labels).take(rows)
    return replace(frame, labels=labels, line=_no_lines(frame.count)).take(rows)


def _pruned(frame: LogFrame, node: _Node) -> LogFrame:
    """Leave out what nothing behind looks at, and lines of streams that no rule behind selects."""
    labels = {name: column for name, column in frame.labels.items() if name in node.labels}
    line = frame.line if node.needs_line else _no_lines(frame.count)
    part = replace(frame, labels=labels, line=line)
    if node.selects.all():
        return part
    wanted = node.selects[_ranks(frame)]
    return part.keep(wanted) if wanted.mean() < FEW else part


@lru_cache(maxsize=2)
def _no_lines(count: int) -> pa.StringArray:
    """Return empty lines; all frames of a scan have about the same number."""
    return pa.repeat(pa.scalar("", pa.string()), count)


def _ranks(frame: LogFrame) -> Int64s:
    """Return the ranks of the streams, which stand where other frames have the positions of rows."""
    if frame.row_position is None:
        raise ValueError("a stage lost the streams of its lines")
    return frame.row_position


def _count(frame: LogFrame, ending: Ending, rules: Sequence[SharedRule], hour_ns: int) -> None:
    """Count lines by stream, labels and bucket, then for each rule those of its streams."""
    rows, numbers = _measured(frame, ending)
    passed = ~flag_failing(rows, keeps_errors=False)
    failed = np.bincount(_ranks(rows)[~passed], minlength=len(rules[0].selects))
    rows, numbers = rows.keep(passed), numbers[passed] if len(numbers) else numbers
    codes, sets = grouped_rows(rows, ending.keep)
    found = _cells_of(rows, codes.astype(np.int64), len(sets), hour_ns, numbers)
    for rule in rules:
        rule.cells.errors += int(failed[rule.selects].sum())
        found.add_to(rule, sets)


def _measured(frame: LogFrame, ending: Ending) -> tuple[LogFrame, Doubles]:
    if ending.unwrap is not None:
        return unwrap_numbers(frame.keep(has_text(frame, ending.unwrap.label)), ending.unwrap)
    if ending.measures_lines:
        return frame, pc.binary_length(frame.line).to_numpy(zero_copy_only=False).astype(np.float64)
    return frame, NO_NUMBERS


@dataclass(frozen=True, slots=True)
class _Counted:
    """Lines by stream, label set and bucket."""

    ranks: Int64s
    codes: Int64s
    buckets: Int64s
    counts: Int64s
    values: Numbers | None

    def add_to(self, rule: SharedRule, sets: Sequence[Labels]) -> None:
        mine = np.flatnonzero(rule.selects[self.ranks])
        if len(mine):
            used, codes = np.unique(self.codes[mine], return_inverse=True)
            labels = [sets[code] for code in used.tolist()]
            values = None if self.values is None else self.values.take(mine)
            rule.cells.add_cells(labels, codes, self.buckets[mine], self.counts[mine], values)


def _cells_of(frame: LogFrame, codes: Int64s, groups: int, hour_ns: int, numbers: Doubles) -> _Counted:
    ranks = _ranks(frame)
    buckets = (frame.tsns - hour_ns - 1) // BUCKET_NS
    keys = (ranks * groups + codes) * BUCKETS + buckets
    possible = int(ranks.max() + 1) * groups * BUCKETS if len(ranks) else 0
    values: Numbers | None = None
    if len(numbers):
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        cells, counts = ordered[starts], np.diff(np.append(starts, len(ordered)))
        values = Numbers.of_events(numbers[order], starts)
    elif possible <= CELLS_PER_ROW * len(keys):
        table = np.bincount(keys, minlength=possible)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cells, counts = np.unique(keys, return_counts=True)
    rest, bucket = np.divmod(cells, BUCKETS)
    rank, code = np.divmod(rest, max(1, groups))
    return _Counted(rank, code, bucket, counts, values)


def worth_sharing(rules: Mapping[int, SharedRule]) -> bool:
    """Tell if one scan costs less than a look for each: counts of whole streams need no lines."""
    return len(rules) > 2 and any(rule.plan.stages or rule.cells.with_values for rule in rules.values())
