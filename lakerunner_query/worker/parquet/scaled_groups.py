"""Row groups of scaled integers alone are decoded straight into result arrays.

    pages of the event time     -> times     of the runs of the series that match, wherever those are laid
    pages of the scaled values  -> values    (scaled + base) / 10^exponent, both from the series table

A row whose value is scaled is a float and no stale marker, so such a row group says nothing else but when
counting began, which is rarely asked for. Nearly all row groups are such ones. Only pages in which a run lies
are decompressed, each into memory that stays in the processor's cache, and nothing is cached: decoding again
takes no longer than copying. Arrow reads the others (`metrics/row_groups.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from lakerunner_query.worker.parquet.column_chunks import (
    Chunk,
    RangeReader,
    chunk_bytes,
    delta_chunk,
    delta_numbers,
    pages_in,
)
from lakerunner_query.worker.parquet.page_kernels import VALUES
from lakerunner_query.worker.parquet.run_kernels import place_times, place_values
from resources.arrays import Doubles, Int32s, Int64s
from resources.lake import metric_values
from resources.lake.columns import CHQ_TIMESTAMP

TIMESTAMP, TEMPORALITY = CHQ_TIMESTAMP, "metric_temporality"
DELTA = "delta"


@dataclass(frozen=True, slots=True)
class ScaledGroup:
    """One row group; every read decodes its pages anew."""

    rows: int
    times: Chunk
    scaled: Chunk

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First byte and end of both columns."""
        return tuple((one.offset, one.offset + one.length) for one in (self.times, self.scaled))

    def times_of(self, file: RangeReader, begin: Int64s, end: Int64s) -> Int64s:
        """Return times by row of the group; only rows `[begin, end)` are filled."""
        found = np.empty(self.rows, np.int64)
        self.times_to(file, begin, end, begin, found)
        return found

    def times_to(self, file: RangeReader, begin: Int64s, end: Int64s, to: Int64s, time_ms: Int64s) -> int:
        """Put rows `[begin, end)`, ascending, to `to`; return how many do not come after the one before."""
        return sum(
            int(place_times(page, first, begin, end, to, time_ms))
            for first, page in self._pages(file, self.times, begin, end)
        )

    def values_to(
        self,
        file: RangeReader,
        begin: Int64s,
        end: Int64s,
        to: Int64s,
        base: Int64s,
        exponent: Int32s,
        value: Doubles,
    ) -> None:
        power: npt.NDArray[np.float64] = metric_values.POWERS[exponent]
        for first, page in self._pages(file, self.scaled, begin, end):
            place_values(page, first, begin, end, to, base, power, value)

    def _pages(
        self, file: RangeReader, chunk: Chunk, begin: Int64s, end: Int64s
    ) -> Iterator[tuple[int, Int64s]]:
        """Yield first row and numbers of each page in which a run lies; they are good until the next one."""
        raw = chunk_bytes(file, chunk)
        pages = pages_in(raw, self.rows)
        room = np.empty(int(pages[:, VALUES].max()), np.int64)
        behind = np.cumsum(pages[:, VALUES])
        run = np.searchsorted(end, behind - pages[:, VALUES], "right")
        is_needed = run < len(end)
        is_needed[is_needed] = begin[run[is_needed]] < behind[is_needed]
        for page, until in zip(pages[is_needed].tolist(), behind[is_needed].tolist(), strict=True):
            numbers = delta_numbers(raw, page, chunk, room)
            yield until - len(numbers), numbers


def scaled_group(
    metadata: pq.FileMetaData, places: Mapping[str, Sequence[int]], number: int
) -> ScaledGroup | None:
    """Locate the row group's columns; None where it holds anything else, or is encoded in another way."""
    group = metadata.row_group(number)
    if not {TIMESTAMP, metric_values.SCALED} <= places.keys():
        return None

    def column(name: str) -> pq.ColumnChunkMetaData:
        return group.column(places[name][0])

    if TEMPORALITY in places and not _never_has(column(TEMPORALITY), DELTA):
        return None
    times, scaled = (
        delta_chunk(column(name), metadata.schema.column(places[name][0]))
        for name in (TIMESTAMP, metric_values.SCALED)
    )
    return None if times is None or scaled is None else ScaledGroup(group.num_rows, times, scaled)


def _never_has(column: pq.ColumnChunkMetaData, word: str) -> bool:
    facts = column.statistics
    if facts is None or not facts.has_null_count:
        return False
    return facts.null_count == column.num_values or (facts.has_min_max and not facts.min <= word <= facts.max)
