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
from dataclasses import dataclass, field

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.notifications.pipeline import AcceptedRecord, produce
from lakerunner_ingress.receivers.forms import Lane
from lakerunner_ingress.receivers.retries import RetryQueue
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import PushTelemetry
from resources.index.account_types import StorageProfile
from resources.index.contract import IngressIndex
from resources.kafka.producer import Producer
from resources.notifications.raw_objects import (
    NoPlaceError,
    Owner,
    Place,
    choose_place,
    compress,
    named_object,
    with_short_timeouts,
)
from resources.objects import errors
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError

log = logging.getLogger(__name__)


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
        place = self._find_place(lane, now, len(data))
        etag = timed("push_put", lambda: self._put(place.profile, place.record.key, data))
        self.telemetry.count_object(lane.signal.value, len(data))
        place = place.with_etag(etag)
        accepted = AcceptedRecord(place.record, place.notice)
        try:
            self._announce(accepted)
        except Exception as error:  # noqa: BLE001 - of any kind: refused, a durable object would come twice
            log.warning("%s is durable and will be announced later: %s", accepted.record.key, error)
            self.announcements.add(accepted.record.key, lambda: self._announce(accepted))

    def _find_place(self, lane: Lane, now: dt.datetime, size: int) -> Place:
        """Choose the place of an object; a name that the registry lacks may be in a newer one."""
        began = self.registry.now()
        owner = Owner(lane.org, lane.collector, lane.signal)
        record = named_object(owner, _name(now, lane), size, now, "push")
        try:
            return choose_place(record, owner, self.registry.current(), self.settings.receiver_bucket)
        except NoPlaceError:
            newer = self.registry.load_after(began)
        try:
            return choose_place(record, owner, newer, self.settings.receiver_bucket)
        except NoPlaceError as error:
            raise _not_stored_error(str(error)) from error

    def _announce(self, accepted: AcceptedRecord) -> None:
        where = self.telemetry.steps.timed(
            "push_announce", lambda: produce([accepted], self.producer, self.index)
        )
        self.telemetry.count(where, 1)

    def _put(self, profile: StorageProfile, key: str, data: bytes) -> str:
        try:
            client = open_store(profile.url, with_short_timeouts(self.settings), profile.credentials_ref)
        except SettingsError as error:
            raise _not_stored_error(str(error)) from error
        try:
            return client.put_new(key, data)
        except errors.UnavailableError as error:
            self.withdrawals.add(key, lambda: client.delete([key]))
            raise _not_stored_error("the object store does not answer") from error
        except errors.StoreError as error:
            raise _not_stored_error("the object store refuses") from error


def _name(now: dt.datetime, lane: Lane) -> str:
    return f"{now:%M%S%f}-{secrets.token_hex(8)}{lane.form.suffix}"


def _not_stored_error(reason: str) -> UnavailableError:
    return UnavailableError(f"nothing was stored: {reason}; send this again")
