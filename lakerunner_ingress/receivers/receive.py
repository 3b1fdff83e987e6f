"""The steps of one push: authenticate, charge, read, open and check, wait until it is durable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyio import fail_after
from litestar import Request
from litestar.exceptions import InternalServerException

from lakerunner_ingress.auth import PushAuthenticator
from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.receivers.batching import Batcher
from lakerunner_ingress.receivers.forms import CheckedPush, Lane
from lakerunner_ingress.receivers.limits import Hold, LimitOf, Memory, PushLimits, Quota
from lakerunner_ingress.receivers.opening import open_body, parse_cost
from lakerunner_ingress.receivers.refusals import (
    BadRequestError,
    SlowError,
    ThrottledError,
    TooLargeError,
)
from lakerunner_ingress.receivers.writing import Writer
from lakerunner_ingress.telemetry import ANNOUNCEMENTS, MEMORY, WITHDRAWALS, PushTelemetry
from lakerunner_ingress.threads import WorkerThreads
from resources.lake.layout import NAME, valid_name
from resources.settings import Settings

COLLECTOR = "x-lakerunner-collector"
BODY_TIMEOUT_S = 30.0
CHECKING, WAITING, CHECK_TIMEOUT_S = 2, 512, 60.0
"""Threads that check, which parse: two, since their memory comes on top of what is counted."""

LOOKUPS, LOOKUP_TIMEOUT_S = 8, 10.0

Check = Callable[[bytes], CheckedPush]


@dataclass(frozen=True, slots=True)
class Push:
    """A push as its protocol describes it: the encoding of the body, and its check."""

    protocol: str
    encoding: str
    check: Check


class Receivers:
    """The receivers of a process."""

    def __init__(
        self, settings: Settings, authenticator: PushAuthenticator, writer: Writer, limit_of: LimitOf
    ) -> None:
        self.telemetry: PushTelemetry = writer.telemetry
        self._settings = settings
        self._authenticator = authenticator
        self._writer = writer
        self._quota = Quota(limit_of)
        self._memory = Memory(settings.receiver_memory_bytes)
        self._workers = WorkerThreads(CHECKING, WAITING, CHECK_TIMEOUT_S)
        self._batcher = Batcher(writer.write, settings.receiver_batch_bytes, settings.receiver_batch_age_s)
        add_gauge = self.telemetry.add_gauge
        add_gauge(MEMORY, "Bytes of pushes that are not yet answered.", lambda: self._memory.used)
        add_gauge(
            ANNOUNCEMENTS,
            "Durable objects that wait for Kafka or Postgres.",
            lambda: writer.announcements.waiting,
        )
        add_gauge(WITHDRAWALS, "Refused objects that wait to be removed.", lambda: writer.withdrawals.waiting)

    async def accept(self, request: Request[Any, Any, Any], push: Push) -> CheckedPush:
        """Run all steps; return the durable part of the push, or raise the error for the sender."""
        self._check_outage()
        org = await self._authenticator.organisation_of(request.headers)
        collector = self._collector(request.headers)
        self._charge(org, 0)
        with self._memory.hold() as hold:
            received = await self._read_push(request, push, org, hold)
            if received.data:
                await self._batcher.offer(Lane(org, collector, received.signal, received.form), received.data)
        self.telemetry.count_push(push.protocol, len(received.data), received.rejected)
        return received

    async def drain(self) -> None:
        """Refuse new pushes and make those in memory durable."""
        await self._batcher.drain()

    async def close(self) -> None:
        await self._batcher.close()
        await self._workers.run(self._writer.announcements.close)
        await self._workers.run(self._writer.withdrawals.close)

    def _check_outage(self) -> None:
        """Refuse before a byte is read: a push that is bound to fail must not leave objects behind."""
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
        wait_s = self._quota.try_charge(org, size)
        if wait_s is not None:
            raise ThrottledError(f"{org} pushes more than it may; wait {wait_s:.1f} s", wait_s)

    async def _read_push(
        self, request: Request[Any, Any, Any], push: Push, org: str, hold: Hold
    ) -> CheckedPush:
        """Read and check a push; a body that will be refused is charged too, since it costs the same."""
        body = await self._read(request, hold)
        self._charge(org, len(body))
        received = await self._workers.run(lambda: self._open(body, push, hold))
        self._charge_rest(org, len(received.data) - len(body))
        return received

    def _charge_rest(self, org: str, size: int) -> None:
        """Charge the size of the opened body beyond its size on the wire."""
        if size > 0:
            self._quota.charge(org, size)

    async def _read(self, request: Request[Any, Any, Any], hold: Hold) -> bytes:
        parts: list[bytes] = []
        try:
            with fail_after(BODY_TIMEOUT_S):
                async for part in _limit_body(request, self._settings.receiver_body_max_bytes):
                    hold.grow(len(part))
                    parts.append(part)
        except TimeoutError as error:
            raise SlowError(f"the body took longer than {BODY_TIMEOUT_S:.0f} s") from error
        return b"".join(parts)

    def _open(self, body: bytes, push: Push, hold: Hold) -> CheckedPush:
        """Open and check a body, in a worker thread; afterwards `hold` covers the valid part only."""
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
    """Open the receivers, over the same index, Kafka and registry as the notifications."""
    index = pipeline.index
    writer = Writer(settings, index, pipeline.producer, pipeline.registry, telemetry)
    authenticator = PushAuthenticator(index, WorkerThreads(LOOKUPS, WAITING, LOOKUP_TIMEOUT_S))
    return Receivers(settings, authenticator, writer, PushLimits(index))


async def _limit_body(request: Request[Any, Any, Any], most: int) -> AsyncIterator[bytes]:
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
