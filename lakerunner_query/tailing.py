"""Rows of a log query as they come: what was published since the poll before.

Rows arrive by segments, and those of a segment may be older than what was told already: hence a poll asks for
segments that it has not seen, not for later times. Compaction writes rows anew; they are known by the number
of the raw object that they came in, and never take the place of rows that came.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.engine import Engine, Finished, Prepared
from lakerunner_query.plan.logql import LogRange
from lakerunner_query.protocol.units import ROWS
from resources.index.types import Segment
from resources.lake.timecut import SECOND_NS

FUTURE_NS = 600 * SECOND_NS
"""Clocks of senders run ahead."""


@dataclass(slots=True)
class Tail:
    """A query that is asked again and again; `asked.limit` bounds what is told of the time before."""

    engine: Engine
    text: str
    asked: LogRange
    _segments: frozenset[str] = frozenset()
    _objects: set[int] = field(default_factory=set)
    _began: bool = False
    _oldest_ns: int = -(2**63)
    """Of the rows that were there before and told; older ones were not asked for."""

    async def poll(self, now_ns: int, limit: int) -> pa.Table:
        """New rows, oldest first, of a poll at most `limit`; of what was there before, the newest."""
        first = not self._began
        during = replace(
            self.asked,
            end_ns=now_ns + FUTURE_NS,
            limit=self.asked.limit if first else limit,
            reverse=first,
        )
        prepared = await self.engine.prepare(self.text, during)
        fresh = [one for one in prepared.segments if one.segment_id not in self._segments]
        merged = [] if first else [one for one in fresh if one.level]
        rows, unread = await self._read(prepared, [one for one in fresh if first or not one.level])
        if first and rows.num_rows >= during.limit:
            self._oldest_ns = pc.min(rows["tsns"]).as_py()
        new = self._new(rows)
        if merged:
            rows, lost = await self._read(await self._prepared_again(during), merged)
            new, unread = pa.concat_tables([new, self._new(rows)]), unread | lost
        # only now: what could not be read is asked for again
        self._segments = frozenset(one.segment_id for one in prepared.segments) - unread
        self._began = True
        return new.sort_by([("tsns", "ascending"), ("object", "ascending"), ("position", "ascending")])

    async def _prepared_again(self, during: LogRange) -> Prepared:
        """For merged segments, nearly all rows of which are known: the newest, none from before the tail."""
        start_ns = max(during.start_ns, self._oldest_ns)
        return await self.engine.prepare(self.text, replace(during, start_ns=start_ns, reverse=True))

    async def _read(self, prepared: Prepared, segments: Sequence[Segment]) -> tuple[pa.Table, set[str]]:
        """Rows of these segments, and which of them cannot be read."""
        tables, unread = [ROWS.empty_table()], set[str]()
        async with aclosing(self.engine.run(replace(prepared, segments=tuple(segments)))) as answers:
            async for answer in answers:
                if isinstance(answer, Finished):
                    unread = set(answer.collected.missing)
                else:
                    tables.append(answer.table)
        return pa.concat_tables(tables), unread

    def _new(self, rows: pa.Table) -> pa.Table:
        if self._objects:
            known = pc.is_in(rows["object"], value_set=pa.array(sorted(self._objects), pa.int64()))
            rows = rows.filter(pc.invert(known))
        self._objects.update(rows["object"].unique().to_pylist())
        return rows
