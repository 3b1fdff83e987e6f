"""Queries that were asked are counters in rows, one per organisation, day and normal form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from psycopg.types.json import Jsonb

from resources.index.postgres.connections import PostgresPart, storable
from resources.index.query_log import AskedQuery, add_up
from resources.index.statements import load

SQL = load("query_log")


class QueryLog(PostgresPart):
    def add_asked(self, queries: Sequence[AskedQuery], most: int) -> int:
        summed = add_up(replace(one, query=storable(one.query)) for one in queries)
        if not summed:
            return 0
        rows = [asdict(one) | {"identity": one.identity} for one in summed]
        return len(rows) - self._change(SQL["add_asked"], {"queries": Jsonb(rows), "most": most})

    def asked_queries(self, org: str, since_ns: int, most: int) -> list[AskedQuery]:
        rows = self._rows(SQL["asked_queries"], {"org": org, "since_ns": since_ns, "most": most})
        return [AskedQuery(row.pop("org_id"), **row) for row in rows]

    def forget_asked(self, before_ns: int) -> int:
        return self._change(SQL["forget_asked"], {"before_ns": before_ns})
