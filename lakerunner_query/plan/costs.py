"""Rollups are read where that costs less than reading the samples that they stand for. Pure.

    sum by (job) (rate(errors_total[1h])), a month of 1,000 series in steps of 1 h, as the index tells:

    samples          30 files, 172800000 rows of  2 columns    2764.5 ms
    rollup of 1 h    30 files,    720000 rows of 14 columns     340.8 ms    is read

What is estimated is processor time. Nobody knows before which part of the rows matches: of a rollup it is
taken to be the same part as of the samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakerunner_query.plan.promql import Reads
from lakerunner_query.promql.lang.ast import Call, Expr, Matrix, Paren, Selector, Subquery, children
from lakerunner_query.windows.functions import Function
from lakerunner_query.windows.rollup_rows import columns_needed
from resources.index.types import Segment, TierView
from resources.lake.currency import current_partitions
from resources.lake.frequency import AS_SENT, rollup_of
from resources.lake.timecut import HOUR_NS

FILE_MS = 1.2
"""Footer and series table of a file."""
SAMPLE_NS, ROLLUP_NS = 6.0, 20.0
"""A value of a sample, and of a rollup row, which is decoded from several stored columns."""
SAMPLE_COLUMNS = 2
"""Time and value."""
OF_EVERY_ROW = 2
"""Columns of a rollup row besides those of functions: time and temporality."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Reading at one frequency."""

    frequency_ms: int
    files: int
    rows: int
    columns: int

    @property
    def ms(self) -> float:
        each = SAMPLE_NS if self.frequency_ms == AS_SENT else ROLLUP_NS
        return self.files * FILE_MS + self.rows * self.columns * each / 1e6

    def text(self) -> str:
        return f"{self.files} files, {self.rows} rows of {self.columns} columns, {self.ms:.1f} ms"


@dataclass(frozen=True, slots=True)
class Choice:
    """A rollup, and the samples that it stands for."""

    rollup: Cost
    samples: Cost
    starts: tuple[int, ...]
    """Current partitions in the time that is read."""
    samples_are_gone: bool
    """Samples of some hour were deleted because of their age: then the rollup alone has all."""

    @property
    def is_read(self) -> bool:
        return self.samples_are_gone or self.rollup.ms < self.samples.ms


def choices(
    expr: Expr, loads: Sequence[tuple[Reads, Sequence[Segment]]], tiers: TierView
) -> tuple[Choice, ...]:
    """Compare every rollup that has current partitions where something is read, finest first."""
    if not tiers.partitions or not loads:
        return ()
    reads = [read for read, _ in loads]
    columns = max(map(_columns, functions(expr)), default=0)
    whole = _amount(reads, [[each for each in tiers.segments if each.frequency_ms == AS_SENT]] * len(reads))
    matched = _amount(reads, [segments for _, segments in loads])
    part = min(1.0, matched[1] / whole[1]) if whole[1] else 1.0
    are_gone = not whole[1] or _has_expired(reads, tiers)
    found: list[Choice] = []
    for frequency, starts in sorted(current_partitions(tiers.partitions).items()):
        used, share = _covered(reads, frequency, starts)
        if frequency == AS_SENT or not used:
            continue
        mine = [each for each in tiers.segments if each.frequency_ms == frequency]
        files, rows = _amount(reads, [mine] * len(reads))
        found.append(
            Choice(
                Cost(frequency, files, round(rows * part), columns),
                Cost(AS_SENT, round(matched[0] * share), round(matched[1] * share), SAMPLE_COLUMNS),
                used,
                are_gone,
            )
        )
    return tuple(found)


def functions(expr: Expr) -> Iterator[Function]:
    """Yield the functions over windows that rollups may answer."""
    match expr:
        case Selector():
            yield Function.INSTANT
        case Call(function=name, arguments=arguments) if any(map(_is_window, arguments)):
            word = name.removesuffix("_over_time").upper()
            word = "PRESENT" if word == "ABSENT" else word
            if word in Function.__members__:
                yield Function[word]
        case Matrix():
            return
        case _:
            for child in children(expr):
                yield from functions(child)


def _is_window(expr: Expr) -> bool:
    while isinstance(expr, Paren):
        expr = expr.expr
    return isinstance(expr, Matrix | Subquery)


def _columns(function: Function) -> int:
    return OF_EVERY_ROW + len(columns_needed(function, has_deltas=False))


def _amount(reads: Sequence[Reads], segments: Sequence[Sequence[Segment]]) -> tuple[int, float]:
    """Count files, and rows by the share of a file's time that is read."""
    files, rows = 0, 0.0
    for read, each in zip(reads, segments, strict=True):
        low, high = read.interval_ns
        for segment in each:
            common = min(segment.max_ns, high) - max(segment.min_ns, low) + 1
            if common > 0:
                files += 1
                rows += segment.rows * min(1.0, common / (segment.max_ns - segment.min_ns + 1))
    return files, rows


def _covered(
    reads: Sequence[Reads], frequency_ms: int, starts: AbstractSet[int]
) -> tuple[tuple[int, ...], float]:
    """Return the partitions that reads touch, and the share of the time that they cover."""
    if frequency_ms == AS_SENT:
        return (), 0.0
    width = rollup_of(frequency_ms).partition_ns
    used: set[int] = set()
    covered = total = 0
    for read in reads:
        low, high = read.interval_ns
        mine = [start for start in starts if start + width > low and start < high]
        used.update(mine)
        covered += sum(min(start + width, high) - max(start, low) for start in mine)
        total += high - low
    return tuple(sorted(used)), min(1.0, covered / total) if total else 0.0


def _has_expired(reads: Sequence[Reads], tiers: TierView) -> bool:
    low = min(read.interval_ns[0] for read in reads)
    high = max(read.interval_ns[1] for read in reads)
    return any(
        one.expired and one.frequency_ms == AS_SENT and low < one.start_ns + HOUR_NS
        and one.start_ns < high
        for one in tiers.partitions
    )  # fmt: skip
