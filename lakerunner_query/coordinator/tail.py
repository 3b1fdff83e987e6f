"""The tail of a log query: rows as they are published, poll by poll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.coordinator.engine import Engine
from lakerunner_query.coordinator.languages import LOG_LINES
from lakerunner_query.coordinator.logql_lines import LogLinesQuery, read_rows
from lakerunner_query.errors import IndexUnavailableError
from lakerunner_query.plan.logql import LogLinesRequest
from resources.index.types import Segment
from resources.lake.timecut import SECOND_NS

FUTURE_NS = 600 * SECOND_NS
"""Time that clocks of senders may run ahead."""


@dataclass(slots=True)
class Tail:
    """A query that is asked again and again for rows that were published since the poll before.

    Rows arrive by segments, and those of a segment may be older than rows already sent: hence a poll asks for
    segments that it has not seen, not for later times. Compaction writes rows anew; they are known by the
    number of the raw object that they came in, and never take the place of rows that came.
    """

    engine: Engine
    text: str
    request: LogLinesRequest
    """Request whose limit bounds the rows from before the tail."""
    _segments: frozenset[str] = frozenset()
    _objects: set[int] = field(default_factory=set)
    _is_first: bool = True
    _oldest_ns: int = -(2**63)
    """Time of the oldest row sent from before the tail; older ones were not asked for."""

    async def poll(self, now_ns: int, limit: int) -> pa.Table:
        """Return new rows, oldest first, at most `limit`; the first time, the newest there are.

        A poll that fails changes nothing: the next one finds what it would have found.
        """
        first = self._is_first
        request = replace(
            self.request,
            end_ns=now_ns + FUTURE_NS,
            limit=self.request.limit if first else limit,
            reverse=first,
        )
        query = await self._prepare(request)
        segments = query.distinct_segments
        fresh = [one for one in segments if one.segment_id not in self._segments]
        merged = [] if first else [one for one in fresh if one.level]
        rows, unread = await self._read(query, [one for one in fresh if first or not one.level])
        oldest_ns = self._oldest_ns
        if first and rows.num_rows >= request.limit:
            oldest_ns = pc.min(rows["tsns"]).as_py()
        objects = set(self._objects)
        new = _take_new(rows, objects)
        if merged:
            rows, lost = await self._read(await self._prepare_merged(request), merged)
            new, unread = pa.concat_tables([new, _take_new(rows, objects)]), unread | lost
        # only now: what could not be read is asked for again
        self._segments = frozenset(one.segment_id for one in segments) - unread
        self._objects, self._oldest_ns, self._is_first = objects, oldest_ns, False
        return new.sort_by([("tsns", "ascending"), ("object", "ascending"), ("position", "ascending")])

    async def _prepare(self, request: LogLinesRequest) -> LogLinesQuery:
        """Plan a poll; segments of an earlier moment, remembered while the index is away, are no use."""
        query = await self.engine.prepare(LOG_LINES, self.text, request)
        if query.outdated:
            raise IndexUnavailableError(query.outdated)
        return query

    async def _prepare_merged(self, request: LogLinesRequest) -> LogLinesQuery:
        """Merged segments hold few rows that are new: read the newest, none from before the tail."""
        start_ns = max(request.start_ns, self._oldest_ns)
        return await self._prepare(replace(request, start_ns=start_ns, reverse=True))

    async def _read(self, query: LogLinesQuery, segments: Sequence[Segment]) -> tuple[pa.Table, set[str]]:
        """Return rows of these segments, and the segments that cannot be read."""
        rows, collected = await read_rows(self.engine, replace(query, segments=(tuple(segments),)))
        return rows, set(collected.missing)


def _take_new(rows: pa.Table, objects: set[int]) -> pa.Table:
    """Return rows of raw objects that are not among these, and add theirs."""
    if objects:
        known = pc.is_in(rows["object"], value_set=pa.array(sorted(objects), pa.int64()))
        rows = rows.filter(pc.invert(known))
    objects.update(rows["object"].unique().to_pylist())
    return rows
