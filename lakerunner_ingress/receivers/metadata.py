"""Descriptions of metric families go to the index, where queries find them.

Prometheus sends those of remote write 1.0 in requests of their own, once a minute; they are in the index
before such a request is answered. Those that come with samples are sent along with many requests: one that
is new or was not sent for a while is written beside the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from lakerunner_ingress.errors import IngressError
from lakerunner_ingress.receivers.lines import Line, Shares
from resources.index.account_types import MetricFamily
from resources.index.contract import IngressIndex
from resources.index.postgres.connections import IndexUnavailableError, storable
from resources.lake.metric_families import is_part, possible_families, type_name

log = logging.getLogger(__name__)
REFRESH_S = 600.0
"""Age after which a description is written again, so that the index knows that it is still sent."""
MAX_PER_WRITE, MAX_ORGS, WRITERS = 20_000, 1_000, 2
MAX_FAMILY_BYTES, MAX_UNIT_BYTES, MAX_HELP_BYTES = 512, 128, 1500
"""Sizes that the index takes; a longer unit or help text is cut, a longer name is left out."""
_PARTS = frozenset({"histogram", "gaugehistogram", "summary"})


def families_of(request: Any, of_series: bool) -> tuple[MetricFamily, ...]:
    """Return the descriptions in a `WriteRequest`; with `of_series`, under the names of series as in 2.0."""
    found: dict[MetricFamily, None] = {}
    for each in request.metadata:
        family = family_of(each, of_series)
        if family.family and len(family.family.encode()) <= MAX_FAMILY_BYTES:
            found[family] = None
        if len(found) == MAX_PER_WRITE:
            break
    return tuple(found)


def family_of(metadata: Any, of_series: bool) -> MetricFamily:
    type_, name = type_name(metadata.type), metadata.metric_family_name
    if of_series and type_ in _PARTS:
        name = next(
            (base for base, suffix in possible_families(name) if suffix and is_part(suffix, type_)), name
        )
    unit, text = _cut(metadata.unit, MAX_UNIT_BYTES), _cut(metadata.help, MAX_HELP_BYTES)
    return MetricFamily(storable(name), type_, unit, text)


def _cut(text: str, most: int) -> str:
    return storable(text).encode()[:most].decode(errors="ignore")


class MetadataWriter:
    """Writes descriptions of metric families, each one rarely; organisations take turns."""

    def __init__(self, index: IngressIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._written: dict[str, dict[MetricFamily, float]] = {}
        self._line: Line[None] = Line(WRITERS, Shares(clock))
        self._later: dict[str, asyncio.Task[None]] = {}
        """Writes that nobody waits for, one of an organisation at a time."""

    async def write(self, org: str, families: Sequence[MetricFamily]) -> None:
        """Write what is due; raise `IndexUnavailableError` if the index does not take it."""
        due = self._due(org, families)
        if not due:
            return
        await self._line.run(org, lambda: self._put(org, due))
        written = self._written.pop(org, {})
        if len(written) > MAX_PER_WRITE:
            written.clear()
        written.update(dict.fromkeys(due, self._clock()))
        self._written[org] = written  # behind the others: the first is the one longest unused
        if len(self._written) > MAX_ORGS:
            del self._written[next(iter(self._written))]

    def write_later(self, org: str, families: Sequence[MetricFamily]) -> None:
        """Write what is due beside the answer; the next request brings again what the index did not take."""
        if org not in self._later and self._due(org, families):
            task = asyncio.get_running_loop().create_task(self._write_quietly(org, families))
            self._later[org] = task
            task.add_done_callback(lambda _: self._later.pop(org))

    async def close(self) -> None:
        while self._later:
            await asyncio.wait(self._later.values())
        await asyncio.to_thread(self._line.close)

    def _put(self, org: str, due: list[MetricFamily]) -> tuple[float, None]:
        began = self._clock()
        self._index.put_metric_metadata(org, sorted(due))
        return self._clock() - began, None

    def _due(self, org: str, families: Sequence[MetricFamily]) -> list[MetricFamily]:
        now, written = self._clock(), self._written.get(org, {})
        return [f for f in families if now - written.get(f, float("-inf")) >= REFRESH_S]

    async def _write_quietly(self, org: str, families: Sequence[MetricFamily]) -> None:
        try:
            await self.write(org, families)
        except (IndexUnavailableError, IngressError) as error:
            log.warning("descriptions of metrics of %s are not in the index yet: %s", org, error)
        except Exception:
            log.exception("descriptions of metrics of %s could not be written", org)
