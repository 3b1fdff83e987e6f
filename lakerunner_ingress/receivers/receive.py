"""The steps of one push: who, how much, read, open and check, wait until it is durable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio import fail_after
from litestar import Request
from litestar.exceptions import InternalServerException

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.receivers.auth import Doorkeeper
from lakerunner_ingress.receivers.batching import Batcher
from lakerunner_ingress.receivers.limits import Hold, LimitOf, Memory, PushLimits, Quota
from lakerunner_ingress.receivers.opening import open_body, parse_cost
from lakerunner_ingress.receivers.received import Lane, Received
from lakerunner_ingress.receivers.refusals import (
    BadRequestError,
    SlowError,
    ThrottledError,
    TooLargeError,
)
from lakerunner_ingress.receivers.telemetry import ANNOUNCEMENTS, MEMORY, WITHDRAWALS, PushTelemetry
from lakerunner_ingress.receivers.writing import Writer
from lakerunner_ingress.threads import WorkerThreads
from resources.lake.layout import NAME, valid_name
from resources.settings import Settings

COLLECTOR = "x-lakerunner-collector"
BODY_TIMEOUT_S = 30.0
CHECKING, WAITING, CHECK_TIMEOUT_S = 2, 512, 60.0
"""Checking parses: two at a time, since what it needs comes on top of the memory that is counted."""

LOOKUPS, LOOKUP_TIMEOUT_S = 8, 10.0

Check = Callable[[bytes], Received]


@dataclass(frozen=True, slots=True)
class Push:
    """What a protocol says about a request: how its body is encoded, and how it is checked."""

    protocol: str
    encoding: str
    check: Check


class Receivers:
    """Everything behind the routes; one per process."""

    def __init__(self, settings: Settings, doorkeeper: Doorkeeper, writer: Writer, limit_of: LimitOf) -> None:
        self.telemetry: PushTelemetry = writer.telemetry
        self._settings = settings
        self._doorkeeper = doorkeeper
        self._writer = writer
        self._quota = Quota(limit_of)
        self._memory = Memory(settings.receiver_memory_bytes)
        self._workers = WorkerThreads(CHECKING, WAITING, CHECK_TIMEOUT_S)
        self._batcher = Batcher(writer.write, settings.receiver_batch_bytes, settings.receiver_batch_age_s)
        watch = self.telemetry.watch
        watch(MEMORY, "Bytes of pushes that are not yet answered.", lambda: self._memory.used)
        watch(
            ANNOUNCEMENTS,
            "Durable objects that wait for Kafka or Postgres.",
            lambda: writer.announcements.waiting,
        )
        watch(WITHDRAWALS, "Refused objects that wait to be removed.", lambda: writer.withdrawals.waiting)

    async def accept(self, request: Request[Any, Any, Any], push: Push) -> Received:
        """What was kept, which is durable; raises what the sender is to be told otherwise."""
        self._refuse_in_an_outage()
        org = await self._doorkeeper.organisation(request.headers)
        collector = self._collector(request.headers)
        self._charge(org, 0)
        with self._memory.hold() as hold:
            received = await self._received(request, push, org, hold)
            if received.data:
                await self._batcher.offer(Lane(org, collector, received.signal, received.form), received.data)
        self.telemetry.kept(push.protocol, len(received.data), received.rejected)
        return received

    async def drain(self) -> None:
        """On the way out: take nothing more, make everything durable that was taken."""
        await self._batcher.drain()

    async def close(self) -> None:
        await self._batcher.close()
        await self._workers.run(self._writer.announcements.close)
        await self._workers.run(self._writer.withdrawals.close)

    def _refuse_in_an_outage(self) -> None:
        """Before a byte is read: what is known to fail must not leave objects behind."""
        if self._batcher.draining:
            raise UnavailableError("the receiver is stopping; send this again")
        if self._writer.announcements.waiting:
            raise UnavailableError("neither Kafka nor Postgres takes references; send this again")
        if self._writer.withdrawals.waiting:
            raise UnavailableError("the object store does not answer; send this again")

    def _collector(self, headers: Mapping[str, str]) -> str:
        name = headers.get(COLLECTOR) or self._settings.receiver_collector
        if not valid_name(name):
            raise BadRequestError(f"collector {name[:64]!r} does not match {NAME.pattern}")
        return name

    def _charge(self, org: str, size: int) -> None:
        wait_s = self._quota.allowed(org, size)
        if wait_s is not None:
            raise ThrottledError(f"{org} pushes more than it may; wait {wait_s:.1f} s", wait_s)

    async def _received(self, request: Request[Any, Any, Any], push: Push, org: str, hold: Hold) -> Received:
        """The body is charged also if it will be refused: reading and opening it costs too."""
        body = await self._read(request, hold)
        self._charge(org, len(body))
        received = await self._workers.run(lambda: self._open(body, push, hold))
        self._charge_rest(org, len(received.data) - len(body))
        return received

    def _charge_rest(self, org: str, size: int) -> None:
        """What the body turned out to be beyond its size on the wire; it is let in already."""
        if size > 0:
            self._quota.charge(org, size)

    async def _read(self, request: Request[Any, Any, Any], hold: Hold) -> bytes:
        parts: list[bytes] = []
        try:
            with fail_after(BODY_TIMEOUT_S):
                async for part in _limited(request, self._settings.receiver_body_max_bytes):
                    hold.grow(len(part))
                    parts.append(part)
        except TimeoutError as error:
            raise SlowError(f"the body took longer than {BODY_TIMEOUT_S:.0f} s") from error
        return b"".join(parts)

    def _open(self, body: bytes, push: Push, hold: Hold) -> Received:
        """In a worker thread. Afterwards the hold is of what is kept, and no longer of the body."""
        data = open_body(body, push.encoding, self._settings.receiver_body_max_bytes, hold)
        opened = hold.size
        hold.grow(parse_cost(data))
        received = push.check(data)
        hold.shrink_to(opened)
        if received.data is not data:
            hold.grow(len(received.data))
        hold.shrink_to(len(received.data))
        return received


def open_receivers(settings: Settings, pipeline: Pipeline, telemetry: PushTelemetry) -> Receivers:
    """The receivers of a process, over the same index, Kafka and registry as its notifications."""
    index = pipeline.index
    writer = Writer(settings, index, pipeline.producer, pipeline.registry, telemetry)
    doorkeeper = Doorkeeper(index, WorkerThreads(LOOKUPS, WAITING, LOOKUP_TIMEOUT_S))
    return Receivers(settings, doorkeeper, writer, PushLimits(index))


async def _limited(request: Request[Any, Any, Any], most: int) -> AsyncIterator[bytes]:
    size = int(request.headers.get("content-length", "0") or "0")
    try:
        if size <= most:
            size = 0
            async for part in request.stream():
                size += len(part)
                if size > most:
                    break
                yield part
    except InternalServerException as error:
        raise BadRequestError("the connection ended before the body did") from error
    if size > most:
        raise TooLargeError(f"body of more than {most} bytes")
