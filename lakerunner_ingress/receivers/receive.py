"""The steps of one push: authenticate, charge, read, open and check, wait until it is durable."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from anyio import fail_after

from lakerunner_ingress.auth import PushAuthenticator
from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.receivers.batching import Batcher, BatchLimits
from lakerunner_ingress.receivers.checking import Checkers, checked_push
from lakerunner_ingress.receivers.forms import CheckedPush, Lane, Push, TimeBounds, time_bounds
from lakerunner_ingress.receivers.limits import LimitOf, PushLimits, Quota
from lakerunner_ingress.receivers.memory import Hold, Memory
from lakerunner_ingress.receivers.metadata import MetadataWriter
from lakerunner_ingress.receivers.refusals import (
    BadRequestError,
    SlowError,
    ThrottledError,
)
from lakerunner_ingress.receivers.writing import Writer
from lakerunner_ingress.telemetry import ANNOUNCEMENTS, CHECKS, MEMORY, WITHDRAWALS, PushTelemetry
from lakerunner_ingress.threads import WorkerThreads
from resources.lake.layout import NAME, valid_name
from resources.settings import Settings

COLLECTOR = "x-lakerunner-collector"
BODY_TIMEOUT_S = 30.0
LOOKUPS, WAITING, LOOKUP_TIMEOUT_S = 8, 512, 10.0


class Source(Protocol):
    """A request that carries a push, over HTTP or gRPC."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def pieces(self, most: int) -> AsyncIterator[bytes]:
        """Read the body as it arrives; raise `TooLargeError` before more than `most` bytes were read."""
        ...


class Receivers:
    """The receivers of a process."""

    def __init__(
        self,
        settings: Settings,
        authenticator: PushAuthenticator,
        writer: Writer,
        metadata: MetadataWriter,
        limit_of: LimitOf,
    ) -> None:
        self.telemetry: PushTelemetry = writer.telemetry
        self._settings = settings
        self._authenticator = authenticator
        self._writer = writer
        self._metadata = metadata
        self._quota = Quota(limit_of)
        self._memory = Memory(settings.receiver_memory_bytes)
        self._checkers = Checkers(settings.receiver_body_max_bytes, settings.receiver_memory_bytes)
        limits = BatchLimits(
            settings.receiver_batch_bytes, settings.receiver_batch_age_s, settings.receiver_puts_per_minute
        )
        self._batcher = Batcher(writer.write, limits)
        add_gauge = self.telemetry.add_gauge
        add_gauge(MEMORY, "Bytes of pushes that are not yet answered.", lambda: self._memory.used)
        add_gauge(CHECKS, "Bodies that wait to be checked.", lambda: self._checkers.waiting)
        add_gauge(
            ANNOUNCEMENTS,
            "Durable objects that wait for Kafka or Postgres.",
            lambda: writer.announcements.waiting,
        )
        add_gauge(WITHDRAWALS, "Refused objects that wait to be removed.", lambda: writer.withdrawals.waiting)

    async def accept(self, source: Source, push: Push, protocol: str) -> CheckedPush:
        """Run all steps; return the durable part of the push, or raise the error for the sender."""
        self.check_outage()
        org = await self._authenticator.organisation_of(source.headers)
        collector = self._collector(source.headers)
        self._charge(org, 0)
        with self._memory.hold(org) as hold:
            received = await self._read_push(source, push, org, hold)
            if received.families and not received.data:
                await self._metadata.write(org, received.families)
            if received.data:
                self._metadata.write_later(org, received.families)
                await self._batcher.offer(Lane(org, collector, received.signal, received.form), received.data)
        self.telemetry.count_push(protocol, len(received.data), received.rejected)
        return received

    def time_bounds(self) -> TimeBounds:
        """Return the bounds of times of what arrives now."""
        return time_bounds(self._settings, dt.datetime.now(dt.UTC))

    async def drain(self) -> None:
        """Refuse new pushes and make those in memory durable."""
        await self._batcher.drain()

    async def close(self) -> None:
        await self._batcher.close()
        await asyncio.to_thread(self._checkers.close)
        await self._metadata.close()
        await asyncio.to_thread(self._writer.announcements.close)
        await asyncio.to_thread(self._writer.withdrawals.close)

    def check_outage(self) -> None:
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

    async def _read_push(self, source: Source, push: Push, org: str, hold: Hold) -> CheckedPush:
        """Read and check a push; a body that will be refused is charged too, since it costs the same."""
        body = await self._read(source, hold)
        self._charge(org, len(body))
        outcome = await self._checkers.check(org, body, push, hold)
        self._charge_rest(org, outcome.opened - len(body))
        return checked_push(outcome)

    def _charge_rest(self, org: str, size: int) -> None:
        """Charge the size of the opened body beyond its size on the wire."""
        if size > 0:
            self._quota.charge(org, size)

    async def _read(self, source: Source, hold: Hold) -> bytes:
        parts: list[bytes] = []
        try:
            with fail_after(BODY_TIMEOUT_S):
                async for part in source.pieces(self._settings.receiver_body_max_bytes):
                    hold.grow(len(part))
                    parts.append(part)
        except TimeoutError as error:
            raise SlowError(f"the body took longer than {BODY_TIMEOUT_S:.0f} s") from error
        return b"".join(parts)


def open_receivers(settings: Settings, pipeline: Pipeline, telemetry: PushTelemetry) -> Receivers:
    """Open the receivers, over the same index, Kafka and registry as the notifications."""
    index = pipeline.index
    writer = Writer(settings, index, pipeline.producer, pipeline.registry, telemetry)
    authenticator = PushAuthenticator(index, WorkerThreads(LOOKUPS, WAITING, LOOKUP_TIMEOUT_S))
    return Receivers(settings, authenticator, writer, MetadataWriter(index), PushLimits(index))
