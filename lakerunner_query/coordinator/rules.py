"""The query side remembers the derived metrics of an organisation for some seconds.

A rule that has changed meanwhile does no harm: the index says with every query which hours a version covers,
and an old version covers none. While the index is away, what is remembered stays, and nothing is rewritten.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakerunner_query.plan.rewrite import ActiveRule
from lakerunner_query.rules.catalog import CatalogError, derived_of
from resources.index import postgres
from resources.index.rule_contract import RuleIndex
from resources.index.rule_types import RuleKind, RuleSet

GOOD_S = 5.0
"""Seconds for which the rules of an organisation are not asked for again."""
WAIT_S = 1.0
"""Seconds that the first queries of an organisation wait for its rules."""
MAX_ORGS = 10_000
LOST = (postgres.IndexUnavailableError, OSError)


@dataclass(slots=True)
class _Known:
    read_at: float
    revision: int = -1
    rules: tuple[ActiveRule, ...] = ()
    reading: asyncio.Task[None] | None = None
    has_waited: bool = False
    """A query has waited for the first reading; others do not, should the index hang."""


class RuleCache:
    """Rules by organisation; they are read again behind the query that finds them too old."""

    def __init__(self, index: RuleIndex, good_s: float = GOOD_S) -> None:
        self._index = index
        self._good_s = good_s
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="rules")
        self._known: dict[str, _Known] = {}

    def close(self) -> None:
        for known in self._known.values():
            if known.reading is not None:
                known.reading.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, org: str) -> tuple[ActiveRule, ...]:
        """Return the derived metrics of an organisation; none where the index does not answer."""
        known = self._known.get(org)
        if known is None:
            if len(self._known) >= MAX_ORGS:
                self._known.clear()
            known = self._known.setdefault(org, _Known(-self._good_s))
        if time.monotonic() - known.read_at >= self._good_s and (
            known.reading is None or known.reading.done()
        ):
            known.reading = asyncio.create_task(self._read(org, known))
        if known.revision < 0 and known.reading is not None and not known.has_waited:
            await asyncio.wait({known.reading}, timeout=WAIT_S)
            known.has_waited = True
        return known.rules

    async def _read(self, org: str, known: _Known) -> None:
        known.read_at = time.monotonic()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._index.rules, org)
        except LOST:
            return
        if found.revision != known.revision:
            known.revision, known.rules = found.revision, active_rules(found)


def active_rules(found: RuleSet) -> tuple[ActiveRule, ...]:
    """Return the derived metrics; those that only a newer version of the product can read are left out."""
    rules: list[ActiveRule] = []
    for stored in found.rules:
        if stored.kind is RuleKind.DERIVED and not stored.retired:
            try:
                rules.append(ActiveRule(stored.rule_id, stored.version, derived_of(stored)))
            except CatalogError:
                continue
    return tuple(rules)
