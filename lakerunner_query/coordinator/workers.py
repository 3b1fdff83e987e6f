"""Workers are found by a list, by DNS, or by their leases in the index.

    http://worker-1:4390,http://worker-2:4390     always these
    dns://query-worker.svc:4390                   every address that the name has now
    index://                                      every worker whose lease in the index has not run out

While a name cannot be resolved, or the index is away, the last workers stay. Leases run out while the index
is away, so a worker is dropped only after the index has answered for as long as a lease; one that is new is
taken at once. The last worker of a source stays in any case.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from resources.index.worker_leases import LOST, live_workers

FIND_S = 5.0
PATIENCE_S = 10.0
DNS, INDEX = "dns", "index"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class WorkerFinder:
    """Tells `apply` the workers whenever they change."""

    sources: tuple[str, ...]
    apply: Callable[[tuple[str, ...]], None]
    dsn: str = ""
    lease_s: float = 15.0
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _well_since: float | None = None
    """Time since which the index has always answered."""
    _applied: tuple[str, ...] = ()
    _task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Find the workers, and go on looking where they may change."""
        await self.look()
        if any(urlsplit(source).scheme in {DNS, INDEX} for source in self.sources):
            self._task = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Ask every source once."""
        for source in self.sources:
            scheme = urlsplit(source).scheme
            if scheme == DNS:
                found = await self._resolve(source)
            elif scheme == INDEX:
                found = await self._registered(self._known.get(source, ()))
            else:
                found = (source,)
            self._known[source] = found or self._known.get(source, ())
        workers = tuple(dict.fromkeys(url for source in self.sources for url in self._known[source]))
        if workers != self._applied:
            _log.info("query workers: %s", ", ".join(workers) or "none")
            self._applied = workers
            self.apply(workers)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(FIND_S)
            await self.look()

    async def _resolve(self, source: str) -> tuple[str, ...]:
        parts = urlsplit(source)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await loop.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        except OSError as error:
            _log.warning("%s cannot be resolved (%s): the last workers stay", source, error)
            return ()
        hosts = sorted({str(address[0]) for *_, address in found})
        return tuple(f"http://{f'[{host}]' if ':' in host else host}:{parts.port or 80}" for host in hosts)

    async def _registered(self, known: Sequence[str]) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(PATIENCE_S):
                live = await asyncio.to_thread(live_workers, self.dsn, self.lease_s)
        except LOST as error:
            self._well_since = None
            _log.warning("the index does not tell the query workers (%s): the last ones stay", error)
            return tuple(known)
        now = time.monotonic()
        self._well_since = now if self._well_since is None else self._well_since
        if now - self._well_since >= self.lease_s:
            return live
        return tuple(sorted({*known, *live}))
