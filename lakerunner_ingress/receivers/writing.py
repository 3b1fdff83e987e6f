"""A batch becomes one raw object, and its reference goes to Kafka or the outbox.

The order decides what a failure means. An object that is durable is never refused: its announcement is
repeated, and the listing schedule would find it anyway. An object that may or may not be there is refused and
removed, because its senders send it again.
"""

from __future__ import annotations

import datetime as dt
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import zstandard

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.pipeline import Accepted, produce
from lakerunner_ingress.receivers.afterwork import Afterwork
from lakerunner_ingress.receivers.received import Lane
from lakerunner_ingress.receivers.telemetry import PushTelemetry
from lakerunner_ingress.registry import RegistryCache
from resources.index.contract import IngressIndex
from resources.index.types import StorageProfile
from resources.kafka.producer import Producer
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, raw_key
from resources.lake.timecut import from_datetime
from resources.notifications.events import NotifiedObject
from resources.notifications.references import Registry, UnknownOrganisationError, resolve
from resources.objects import errors
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError

log = logging.getLogger(__name__)
LEVEL = 1
PUT_TIMEOUT_S = 4.0
PUT_RETRIES = 1
"""Senders wait ten seconds or so, and then send again: a put and its repetition that take longer would be
counted twice."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Every method may be called from several threads."""

    settings: Settings
    index: IngressIndex
    producer: Producer
    registry: RegistryCache
    telemetry: PushTelemetry
    announcements: Afterwork = field(default_factory=lambda: Afterwork("announce", (Exception,)))
    withdrawals: Afterwork = field(default_factory=lambda: Afterwork("withdraw", (errors.UnavailableError,)))

    def write(self, lane: Lane, parts: Sequence[bytes]) -> None:
        """Durable when this returns; raises `UnavailableError` when it is not."""
        timed = self.telemetry.steps.timed
        now = dt.datetime.now(dt.UTC)
        data = timed("push_compress", lambda: compress(lane.form.head, parts))
        profile, announced = self._placed(lane, now, len(data))
        etag = timed("push_put", lambda: self._put(profile, announced.record.key, data))
        self.telemetry.wrote(lane.signal.value, len(data))
        accepted = Accepted(replace(announced.record, etag=etag), replace(announced.notice, etag=etag))
        try:
            self._announce(accepted)
        except Exception as error:  # noqa: BLE001 - of any kind: refused, a durable object would come twice
            log.warning("%s is durable and will be announced later: %s", accepted.record.key, error)
            self.announcements.add(accepted.record.key, lambda: self._announce(accepted))

    def _placed(self, lane: Lane, now: dt.datetime, size: int) -> tuple[StorageProfile, Accepted]:
        """Where the object goes. What the registry does not know yet, a newer one may."""
        began = self.registry.now()
        key = raw_key(lane.org, lane.collector, lane.signal, now, _name(now, lane))
        record = NotifiedObject("", key, size, "", "", from_datetime(now), "push")
        try:
            return place(record, lane, self.registry.current(), self.settings.receiver_bucket)
        except UnavailableError:
            newer = self.registry.newer_than(began)
            return place(record, lane, newer, self.settings.receiver_bucket)

    def _announce(self, accepted: Accepted) -> None:
        where = self.telemetry.steps.timed(
            "push_announce", lambda: produce([accepted], self.producer, self.index)
        )
        self.telemetry.count(where, 1)

    def _put(self, profile: StorageProfile, key: str, data: bytes) -> str:
        try:
            client = open_store(profile.url, _impatient(self.settings), profile.credentials_ref)
        except SettingsError as error:
            raise _not_stored(str(error)) from error
        try:
            return client.put_new(key, data)
        except errors.UnavailableError as error:
            self.withdrawals.add(key, lambda: client.delete([key]))
            raise _not_stored("the object store does not answer") from error
        except errors.StoreError as error:
            raise _not_stored("the object store refuses") from error


def place(
    record: NotifiedObject, lane: Lane, registry: Registry, bucket: str
) -> tuple[StorageProfile, Accepted]:
    """The bucket that is set, or the only one there is; a prefix mapping must not give the key to another."""
    if bucket and bucket not in registry.profiles:
        raise _not_stored(f"bucket {bucket!r} (LAKERUNNER_RECEIVER_BUCKET) is not registered")
    if not bucket and len(registry.profiles) != 1:
        raise _not_stored(f"{len(registry.profiles)} buckets are registered: set LAKERUNNER_RECEIVER_BUCKET")
    profile = registry.profiles[bucket or next(iter(registry.profiles))]
    record = replace(record, bucket=profile.bucket)
    try:
        notice = resolve(record, registry)
    except (InvalidKeyError, IgnoredKeyError, UnknownOrganisationError) as error:
        raise _not_stored(str(error)) from error
    if (notice.org, notice.collector, notice.signal) != (lane.org, lane.collector, lane.signal):
        raise _not_stored(f"a prefix mapping of bucket {record.bucket!r} gives {record.key!r} to another")
    return profile, Accepted(record, notice)


def compress(head: bytes, parts: Sequence[bytes]) -> bytes:
    """One zstd frame that says its size, without a copy of all parts in one piece."""
    size = len(head) + sum(len(part) for part in parts)
    packer = zstandard.ZstdCompressor(level=LEVEL).compressobj(size=size)
    return b"".join([*(packer.compress(part) for part in (head, *parts)), packer.flush()])


def _name(now: dt.datetime, lane: Lane) -> str:
    return f"{now:%M%S%f}-{secrets.token_hex(8)}{lane.form.suffix}"


def _impatient(settings: Settings) -> Settings:
    return replace(
        settings,
        store_timeout_s=min(settings.store_timeout_s, PUT_TIMEOUT_S),
        store_max_retries=min(settings.store_max_retries, PUT_RETRIES),
    )


def _not_stored(reason: str) -> UnavailableError:
    return UnavailableError(f"nothing was stored: {reason}; send this again")
