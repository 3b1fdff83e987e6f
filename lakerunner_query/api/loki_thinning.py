"""Rows of a log query, at least an interval apart if one is asked for.

    interval 10 s, oldest first      12:00:00  12:00:04  12:00:11  12:00:20  12:00:21
    kept                             12:00:00            12:00:11            12:00:21

The limit is on what is kept. How many rows that takes cannot be known before, so that they are asked for page
by page, each from where the one before ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakerunner_query.engine import Engine, Finished, Rows
from lakerunner_query.execute.merge import COUNTS, Collected
from lakerunner_query.plan.build import LogRange

PAGE_ROWS = 5000


@dataclass(slots=True)
class Thinning:
    """Which rows are far enough from the last one that was kept."""

    interval_ns: int
    reverse: bool
    last_ns: int | None = None

    def kept(self, table: pa.Table) -> pa.Table:
        times = table["tsns"].to_numpy()
        if self.reverse:
            times = -times
        rows: list[int] = []
        at = 0
        while at < len(times):
            if self.last_ns is not None:
                at = int(np.searchsorted(times, self.last_ns + self.interval_ns))
                if at >= len(times):
                    break
            rows.append(at)
            self.last_ns = int(times[at])
        return table.take(pa.array(rows, pa.int64()))


async def thinned(
    engine: Engine, text: str, asked: LogRange, interval_ns: int
) -> AsyncGenerator[Rows | Finished, None]:
    """As `Engine.run`; without an interval all rows up to the limit."""
    if not interval_ns:
        async with aclosing(engine.run(await engine.prepare(text, asked))) as answers:
            async for answer in answers:
                yield answer
        return
    thinning, total, page = Thinning(interval_ns, asked.reverse), Collected(asked.limit), asked
    while True:
        seen, last = 0, 0
        page = replace(page, limit=max(PAGE_ROWS, asked.limit))
        async with aclosing(engine.run(await engine.prepare(text, page))) as answers:
            async for answer in answers:
                if isinstance(answer, Finished):
                    add(total, answer.collected)
                    continue
                seen += answer.table.num_rows
                last = answer.table["tsns"][-1].as_py() if answer.table.num_rows else last
                kept = thinning.kept(answer.table).slice(0, asked.limit - total.rows)
                total.rows += kept.num_rows
                yield Rows(kept)
                if total.full:
                    break
        if total.full or seen < page.limit:
            yield Finished(total)
            return
        page = beyond(page, last)


def beyond(page: LogRange, last_ns: int) -> LogRange:
    """What is left of the range behind a row; others of its time are too near to be kept."""
    if page.reverse:
        return replace(page, end_ns=last_ns)
    return replace(page, start_ns=last_ns + 1)


def add(total: Collected, page: Collected) -> None:
    total.units += page.units
    total.missing.update(page.missing)
    for name in COUNTS:
        setattr(total, name, getattr(total, name) + getattr(page, name))
