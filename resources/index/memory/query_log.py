"""Queries that were asked live in memory by organisation, day and identity."""

from __future__ import annotations

from collections.abc import Sequence

from resources.index.memory.state import MemoryPart
from resources.index.query_log import AskedQuery, add_up, sum_of


class QueryLog(MemoryPart):
    def add_asked(self, queries: Sequence[AskedQuery], most: int) -> int:
        summed, left_out = add_up(queries), 0
        with self._transaction() as state:
            for one in sorted(summed, key=lambda one: (-one.seconds, one.identity)):
                key = (one.org, one.day_ns, one.identity)
                known = state.asked.get(key)
                taken = sum(each[:2] == key[:2] for each in state.asked)
                if known is not None:
                    state.asked[key] = sum_of(known, one)
                elif one.org in state.organisations and taken < most:
                    state.asked[key] = one
                else:
                    left_out += 1
        return left_out

    def asked_queries(self, org: str, since_ns: int, most: int) -> list[AskedQuery]:
        with self._one_at_a_time:
            mine = [one for one in self._state.asked.values() if one.org == org and one.day_ns >= since_ns]
        found: dict[str, AskedQuery] = {}
        for one in mine:
            known = found.get(one.identity)
            found[one.identity] = one if known is None else sum_of(known, one)
        return sorted(found.values(), key=lambda one: (-one.seconds, one.identity))[:most]

    def forget_asked(self, before_ns: int) -> int:
        with self._transaction() as state:
            old = [key for key in state.asked if key[1] < before_ns]
            for key in old:
                del state.asked[key]
            return len(old)
