"""LakeQL's functions for the engine: plan a statement, locate its tables, cut schemas and scans into units.

What drives them stands in `lakeql`: a statement runs several cuts over the segments of one look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakerunner_query.coordinator.engine import (
    NOTHING_TO_DO,
    Cut,
    Limits,
    PreparedQuery,
    all_at_once,
    hour_affinity,
)
from lakerunner_query.coordinator.locate import NS_PER_MS, Lookup, RollupLookup
from lakerunner_query.coordinator.merge import COUNTS
from lakerunner_query.errors import TooLargeError
from lakerunner_query.lakeql.tables import ColumnKeys
from lakerunner_query.plan.lakeql import (
    OPEN_NS,
    FunctionRead,
    LakePlan,
    LakeQLRequest,
    TableRead,
    plan_lakeql,
)
from lakerunner_query.plan.lakeql_pushdown import Scan
from lakerunner_query.plan.logql import LOGS
from lakerunner_query.plan.shares import Share, cut_shares, place_of
from lakerunner_query.plan.slices import RowSliceSizes, cut_slices
from lakerunner_query.protocol.units import Missing, SchemaUnit, TableUnit, UnitReport, segment_ref
from resources.index.types import CountQuery, Segment, SegmentQuery
from resources.lake.currency import current_partitions
from resources.lake.frequency import AS_SENT, ROLLUPS, rollup_of
from resources.lake.timecut import HOUR_NS, cut, to_datetime

TableAnswer = tuple[pa.Table, UnitReport]
LakeQuery = PreparedQuery[LakeQLRequest, LakePlan, TableAnswer, "Tables"]
SLOW = "narrow the time range, select fewer rows, or let aggregates do the work"
SCHEMA_SEGMENTS = 64
"""Segments whose columns one unit tells."""
NS_PER_US = 1_000
SCAN_SIZES = RowSliceSizes(rows=6_000_000, bytes=512 << 20, first=1.0)
SPARK_SIZES = RowSliceSizes(rows=1_000_000, bytes=128 << 20, first=1.0)
"""Sizes of units that are tasks of Spark: it has many, and holds one result in memory for each."""
SPARK_BYTES = 1 << 30
"""Bytes of the result of one of them."""
FIRST_SIZES = RowSliceSizes()
MOST_BYTES = 1 << 30
"""Bytes of one scan's result."""


@dataclass(slots=True)
class Tables:
    """Collects answers in the order of their units."""

    enough: int = 0
    rows: int = 0
    bytes: int = 0
    missing: dict[str, Missing] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    is_small: bool = True

    @property
    def is_full(self) -> bool:
        return bool(self.enough) and self.rows >= self.enough

    def add(self, answer: TableAnswer) -> pa.Table:
        table, report = answer
        self.rows, self.bytes = self.rows + table.num_rows, self.bytes + table.nbytes
        if self.bytes > MOST_BYTES:
            raise TooLargeError(
                f"a table of the statement brings more than {MOST_BYTES >> 20} MiB to be joined: {SLOW}"
            )
        self.missing.update((lost.segment_id, lost) for lost in report.missing)
        for name in COUNTS:
            self.counts[name] = self.counts.get(name, 0) + getattr(report, name)
        return table

    def result(self) -> Tables:
        return self


def plan_statement(text: str, request: LakeQLRequest, _: Limits) -> LakePlan:
    return plan_lakeql(text, request)


def look_up_tables(plan: LakePlan, request: LakeQLRequest) -> Lookup:
    """Ask for the segments of every table, and how current its rollups are, all as of one moment."""
    segments = tuple(_segments_of(read, request.org) for read in plan.tables)
    counted = CountQuery(request.org, LOGS) if plan.is_explained else None
    rolled = [read for read in plan.tables if read.table.frequency_ms]
    if not rolled:
        return Lookup(segments, counted=counted)
    coarsest = max(read.table.frequency_ms for read in rolled)
    frequencies = tuple(one.frequency_ms for one in ROLLUPS if one.frequency_ms <= coarsest)
    first = min(read.start_ns for read in rolled) // NS_PER_MS
    last = min(max(read.end_ns for read in rolled), plan.now_ns) // NS_PER_MS
    return Lookup(segments, RollupLookup(request.org, frequencies, first, max(first, last)), counted)


def outdated_rollups(query: LakeQuery) -> Iterator[str]:
    """Say which rollup tables lack the newest samples: they are read as they are."""
    partitions = query.tiers.partitions
    current = current_partitions(partitions) if partitions else {}
    for read in query.plan.tables:
        rollup = rollup_of(read.table.frequency_ms) if read.table.frequency_ms else None
        if rollup is None:
            continue
        known = {
            cut(one.start_ns + 1, rollup.partition_ns)
            for one in partitions
            if one.frequency_ms == AS_SENT and one.version > 0
            and one.start_ns < read.end_ns and one.start_ns + HOUR_NS > read.start_ns
        }  # fmt: skip
        late = known - current.get(rollup.frequency_ms, set())
        if late:
            yield (
                f"{read.table.name} is not built from the newest samples yet in {len(late)} of {len(known)} "
                f"partitions, the first from {to_datetime(min(late)):%Y-%m-%dT%H:%MZ}"
            )


def _segments_of(read: TableRead, org: str) -> SegmentQuery:
    start_ns, end_ns = read.start_ns, min(read.end_ns, OPEN_NS)
    if read.table.in_milliseconds:  # the index has exact times, the table those of whole milliseconds
        start_ns, end_ns = start_ns // NS_PER_MS * NS_PER_MS, end_ns // NS_PER_MS * NS_PER_MS + NS_PER_MS - 1
    return SegmentQuery(org, read.table.dataset, read.table.frequency_ms, start_ns, end_ns, read.terms)


def cut_schemas(query: LakeQuery, _workers: int, _limits: Limits) -> Cut:
    """Ask for the columns of all segments of all tables."""
    units = [unit for _, unit in schema_units(query)]
    return all_at_once(units) if units else NOTHING_TO_DO


def schema_units(query: LakeQuery) -> Iterator[tuple[int, SchemaUnit]]:
    for read, segments in zip(query.plan.tables, query.segments, strict=True):
        if not read.table.has_labels:
            continue  # it has the columns of its own, and no others
        for at in range(0, len(segments), SCHEMA_SEGMENTS):
            part = segments[at : at + SCHEMA_SEGMENTS]
            affinity = hour_affinity(query.request.org, read.table.dataset, part)
            yield read.number, SchemaUnit(affinity, read.table.name, tuple(map(segment_ref, part)))


def schema_key(unit: SchemaUnit) -> tuple[str, tuple[str, ...]]:
    return unit.table, tuple(one.segment_id for one in unit.segments)


def unite_types(found: dict[str, str], types: Mapping[str, str]) -> None:
    """Add columns; those of one name but for case are one, spelled as the first."""
    spelled = {name.lower(): name for name in found}
    for name, kind in types.items():
        known = spelled.setdefault(name.lower(), name)
        if found.setdefault(known, kind) != kind:
            found[known] = "VARCHAR"


def scan_cut(
    query: LakeQuery, scan: Scan, segments: Sequence[Segment], keys: Sequence[ColumnKeys], workers: int
) -> Cut:
    """Share a scan among workers; one that may end early is cut by time, in the order that it needs."""
    sizes = FIRST_SIZES if scan.enough else SCAN_SIZES
    units = scan_units(query, scan, segments, keys, sizes, MOST_BYTES, workers)
    if scan.enough and segments:
        return Cut(units, 1)
    listed = list(units)
    return all_at_once(listed) if listed else NOTHING_TO_DO


def scan_units(
    query: LakeQuery,
    scan: Scan,
    segments: Sequence[Segment],
    keys: Sequence[ColumnKeys],
    sizes: RowSliceSizes,
    max_bytes: int,
    workers: int = 1,
) -> Iterator[TableUnit]:
    """Yield the units of a scan."""
    if not segments:
        return
    read, tick = scan.read, _tick(scan)
    originals = {one.segment_id: one for one in segments}
    for share in _shares(scan, segments, tick, sizes, max(1, workers)):
        yield TableUnit(
            affinity=f"{query.request.org}/{read.table.dataset}",
            org=query.request.org,
            table=read.table.name,
            segments=tuple(segment_ref(originals[one.segment_id]) for one in share.part.segments),
            start_ns=share.part.start_ns * tick,
            end_ns=share.part.end_ns * tick - 1,
            columns=scan.columns,
            sql=scan.sql,
            keys=(*scan.keys, *keys),
            turn=share.worker,
            max_bytes=max_bytes,
        )


def _tick(scan: Scan) -> int:
    """Return the nanoseconds that no cut may divide: rows in them have one `timestamp`."""
    if scan.read.table.in_milliseconds:
        return NS_PER_MS
    return NS_PER_US if scan.enough else 1


def _shares(
    scan: Scan, segments: Sequence[Segment], tick: int, sizes: RowSliceSizes, workers: int
) -> Iterator[Share]:
    """Cut a scan; times are in ticks."""
    last_ns = min(scan.read.end_ns, max(one.max_ns for one in segments))
    start, end = scan.read.start_ns // tick, last_ns // tick + 1
    if tick > 1:
        segments = [replace(one, min_ns=one.min_ns // tick, max_ns=one.max_ns // tick) for one in segments]
    if not scan.enough:
        yield from cut_shares(segments, start, end, workers, sizes)
        return
    for part in cut_slices(segments, start, end, reverse=scan.is_newest_first, sizes=sizes):
        heaviest = max(part.segments, key=lambda one: (one.bytes, one.segment_id))
        yield Share(place_of(heaviest.hour_ns, workers), part)


def merge_tables(_query: LakeQuery, _limits: Limits) -> Tables:
    return Tables()


def explain_tables(query: LakeQuery, _: Cut) -> Iterator[str]:
    for read, segments in zip(query.plan.tables, query.segments, strict=True):
        until = "" if read.end_ns >= OPEN_NS else f" to {read.end_ns}"
        size = sum(one.bytes for one in segments)
        yield (
            f"read {read.number}: {read.table.name} from {read.start_ns}{until}, terms {len(read.terms)}: "
            f"{len(segments)} segments, {sum(one.rows for one in segments)} rows, {size} bytes"
        )
    for function in query.plan.reads:
        if isinstance(function, FunctionRead):
            step = f", step {function.step}" if function.step else ""
            text = " ".join(function.text.split())
            yield f"read {function.number}: {function.language}('{text}'){step} from {function.start_ns}"
    if query.live is not None:
        yield f"segments of logs: {query.live} live"
