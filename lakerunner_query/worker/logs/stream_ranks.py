"""The order of streams within a unit, as numbers that DuckDB can sort by.

Rows are ordered by time and then by label set, so each stream gets the position of its label set among all
label sets of the unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from resources.lake.streams import Labels, Stream


@dataclass(frozen=True, slots=True)
class StreamRanks:
    """Distinct label sets in order; `json` is each as an object with sorted keys."""

    rank_of: dict[Labels, int]
    labels: tuple[dict[str, str], ...]
    json: tuple[str, ...]

    @classmethod
    def of(cls, streams: Iterable[Stream]) -> StreamRanks:
        ordered = sorted({stream.labels for stream in streams})
        labels = tuple(dict(one) for one in ordered)
        rendered = tuple(msgspec.json.encode(one).decode() for one in labels)
        return cls({one: rank for rank, one in enumerate(ordered)}, labels, rendered)

    def table(self, streams: Iterable[Stream]) -> pa.Table:
        """(stream_id, rank), one row per id; the streams must be free of collisions."""
        ranks = {stream.stream_id: self.rank_of[stream.labels] for stream in streams}
        ids = pa.array(list(ranks), pa.int64())
        return pa.table({"stream_id": ids, "rank": pa.array(list(ranks.values()), pa.int32())})
