"""Rows of a log query as they come: what was published since the poll before.

Rows arrive by segments, and those of a segment may be older than what was told already: hence a poll asks for
segments that it has not seen, not for later times. Compaction writes rows anew; they are known by the number
of the raw object that they came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.engine import Engine, Finished
from lakerunner_query.execute.work import ROWS
from lakerunner_query.plan.build import LogRange
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

    async def poll(self, now_ns: int, limit: int) -> pa.Table:
        """At most `limit` new rows, oldest first; of what was there before, the newest."""
        first = not self._began
        during = replace(
            self.asked,
            end_ns=now_ns + FUTURE_NS,
            limit=self.asked.limit if first else limit,
            reverse=first,
        )
        prepared = await self.engine.prepare(self.text, during)
        fresh = tuple(one for one in prepared.segments if one.segment_id not in self._segments)
        tables: list[pa.Table] = []
        unread: set[str] = set()
        async with aclosing(self.engine.run(replace(prepared, segments=fresh))) as answers:
            async for answer in answers:
                if isinstance(answer, Finished):
                    unread = set(answer.collected.missing)
                else:
                    tables.append(answer.table)
        # only now: what could not be read is asked for again
        self._segments = frozenset(one.segment_id for one in prepared.segments) - unread
        self._began = True
        return self._new(tables)

    def _new(self, tables: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(tables) if tables else ROWS.empty_table()
        if self._objects:
            known = pc.is_in(rows["object"], value_set=pa.array(sorted(self._objects), pa.int64()))
            rows = rows.filter(pc.invert(known))
        self._objects.update(rows["object"].unique().to_pylist())
        return rows.sort_by([("tsns", "ascending"), ("object", "ascending"), ("position", "ascending")])
