"""A batch becomes one raw object, announced through Kafka or the outbox.

The order gives failures their meaning. An object that is durable is never refused: its announcement is
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
from lakerunner_ingress.notifications.pipeline import AcceptedRecord, produce
from lakerunner_ingress.receivers.forms import Lane
from lakerunner_ingress.receivers.retries import RetryQueue
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import PushTelemetry
from resources.index.account_types import StorageProfile
from resources.index.contract import IngressIndex
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
"""Repetitions of a put. Senders wait about ten seconds and then send again: a put and its repetition that
take longer would be counted twice."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of raw objects; thread-safe."""

    settings: Settings
    index: IngressIndex
    producer: Producer
    registry: RegistryCache
    telemetry: PushTelemetry
    announcements: RetryQueue = field(default_factory=lambda: RetryQueue("announce", (Exception,)))
    withdrawals: RetryQueue = field(
        default_factory=lambda: RetryQueue("withdraw", (errors.UnavailableError,))
    )

    def write(self, lane: Lane, parts: Sequence[bytes]) -> None:
        """Write an object; it is durable on return, else `UnavailableError` is raised."""
        timed = self.telemetry.steps.timed
        now = dt.datetime.now(dt.UTC)
        data = timed("push_compress", lambda: compress(lane.form.head, parts))
        profile, announced = self._find_place(lane, now, len(data))
        etag = timed("push_put", lambda: self._put(profile, announced.record.key, data))
        self.telemetry.count_object(lane.signal.value, len(data))
        accepted = AcceptedRecord(replace(announced.record, etag=etag), replace(announced.notice, etag=etag))
        try:
            self._announce(accepted)
        except Exception as error:  # noqa: BLE001 - of any kind: refused, a durable object would come twice
            log.warning("%s is durable and will be announced later: %s", accepted.record.key, error)
            self.announcements.add(accepted.record.key, lambda: self._announce(accepted))

    def _find_place(self, lane: Lane, now: dt.datetime, size: int) -> tuple[StorageProfile, AcceptedRecord]:
        """Choose the place of an object; a name that the registry lacks may be in a newer one."""
        began = self.registry.now()
        key = raw_key(lane.org, lane.collector, lane.signal, now, _name(now, lane))
        record = NotifiedObject("", key, size, "", "", from_datetime(now), "push")
        try:
            return place(record, lane, self.registry.current(), self.settings.receiver_bucket)
        except UnavailableError:
            newer = self.registry.load_after(began)
            return place(record, lane, newer, self.settings.receiver_bucket)

    def _announce(self, accepted: AcceptedRecord) -> None:
        where = self.telemetry.steps.timed(
            "push_announce", lambda: produce([accepted], self.producer, self.index)
        )
        self.telemetry.count(where, 1)

    def _put(self, profile: StorageProfile, key: str, data: bytes) -> str:
        try:
            client = open_store(profile.url, _with_short_timeouts(self.settings), profile.credentials_ref)
        except SettingsError as error:
            raise _not_stored_error(str(error)) from error
        try:
            return client.put_new(key, data)
        except errors.UnavailableError as error:
            self.withdrawals.add(key, lambda: client.delete([key]))
            raise _not_stored_error("the object store does not answer") from error
        except errors.StoreError as error:
            raise _not_stored_error("the object store refuses") from error


def place(
    record: NotifiedObject, lane: Lane, registry: Registry, bucket: str
) -> tuple[StorageProfile, AcceptedRecord]:
    """Choose the bucket: the configured one, or the only one.

    A prefix mapping must not give the key to another owner.
    """
    if bucket and bucket not in registry.profiles:
        raise _not_stored_error(f"bucket {bucket!r} (LAKERUNNER_RECEIVER_BUCKET) is not registered")
    if not bucket and len(registry.profiles) != 1:
        raise _not_stored_error(
            f"{len(registry.profiles)} buckets are registered: set LAKERUNNER_RECEIVER_BUCKET"
        )
    profile = registry.profiles[bucket or next(iter(registry.profiles))]
    record = replace(record, bucket=profile.bucket)
    try:
        notice = resolve(record, registry)
    except (InvalidKeyError, IgnoredKeyError, UnknownOrganisationError) as error:
        raise _not_stored_error(str(error)) from error
    if (notice.org, notice.collector, notice.signal) != (lane.org, lane.collector, lane.signal):
        raise _not_stored_error(
            f"a prefix mapping of bucket {record.bucket!r} gives {record.key!r} to another"
        )
    return profile, AcceptedRecord(record, notice)


def compress(head: bytes, parts: Sequence[bytes]) -> bytes:
    """Compress into one zstd frame that states its size, without joining the parts first."""
    size = len(head) + sum(len(part) for part in parts)
    packer = zstandard.ZstdCompressor(level=LEVEL).compressobj(size=size)
    return b"".join([*(packer.compress(part) for part in (head, *parts)), packer.flush()])


def _name(now: dt.datetime, lane: Lane) -> str:
    return f"{now:%M%S%f}-{secrets.token_hex(8)}{lane.form.suffix}"


def _with_short_timeouts(settings: Settings) -> Settings:
    return replace(
        settings,
        store_timeout_s=min(settings.store_timeout_s, PUT_TIMEOUT_S),
        store_max_retries=min(settings.store_max_retries, PUT_RETRIES),
    )


def _not_stored_error(reason: str) -> UnavailableError:
    return UnavailableError(f"nothing was stored: {reason}; send this again")
