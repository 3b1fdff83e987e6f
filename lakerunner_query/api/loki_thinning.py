"""Rows of a log query that are an interval apart.

    interval 10 s, oldest first      12:00:00  12:00:04  12:00:11  12:00:20  12:00:21
    kept                             12:00:00            12:00:11            12:00:21

As in Loki, the limit is on the rows before they are thinned out, and streams are not told apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(slots=True)
class Thinning:
    """Which rows are far enough from the last one that was kept; tables come in the order of the query."""

    interval_ns: int
    reverse: bool
    _last_ns: int | None = None

    def kept(self, table: pa.Table) -> pa.Table:
        if not self.interval_ns:
            return table
        times = table["tsns"].to_numpy()
        times = -times if self.reverse else times
        rows: list[int] = []
        while True:
            last = self._last_ns
            at = 0 if last is None else int(np.searchsorted(times, last + self.interval_ns))
            if at >= len(times):
                return table.take(pa.array(rows, pa.int64()))
            rows.append(at)
            self._last_ns = int(times[at])
