"""Raw objects that our own processes write: pushes of the ingress, alert series of the ruler.

    marker("prometheus.WriteRequest") + requests, one after the other, in one zstd frame
    otel-raw/acme/ruler/metrics/2026/01/02/03/0415000000-<random>.binpb.zst

The place of an object is chosen before it is written: a bucket that is registered, under a key that no prefix
mapping gives to somebody else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

import zstandard

from resources.index.account_types import StorageProfile
from resources.index.types import ObjectNotice
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, Signal, raw_key
from resources.lake.timecut import from_datetime
from resources.notifications.events import NotifiedObject
from resources.notifications.references import Registry, UnknownOrganisationError, resolve
from resources.settings import Settings

MARKER = b"\xc2\xa9\x07"
"""Tag of field 15000, which no protocol here uses: other readers skip it, ours learns the message type."""
LEVEL = 1
PUT_TIMEOUT_S = 4.0
PUT_RETRIES = 1
"""Repetitions of a put. Senders wait about ten seconds and then send again: a put and its repetition that
take longer would be counted twice."""


class NoPlaceError(ValueError):
    """No bucket can take the object; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Organisation, collector and signal of an object."""

    org: str
    collector: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket, and an object in it as its notification names it."""

    profile: StorageProfile
    record: NotifiedObject
    notice: ObjectNotice

    def with_etag(self, etag: str) -> Place:
        return replace(self, record=replace(self.record, etag=etag), notice=replace(self.notice, etag=etag))


def marker(message: str) -> bytes:
    """Return the first bytes of an object whose message type cannot be told from its content.

    >>> marker("logproto.PushRequest")[-20:]
    b'logproto.PushRequest'
    """
    return MARKER + bytes([len(message)]) + message.encode()


def compress(head: bytes, parts: Sequence[bytes]) -> bytes:
    """Compress into one zstd frame that states its size, without joining the parts first."""
    size = len(head) + sum(len(part) for part in parts)
    packer = zstandard.ZstdCompressor(level=LEVEL).compressobj(size=size)
    return b"".join([*(packer.compress(part) for part in (head, *parts)), packer.flush()])


def named_object(owner: Owner, name: str, size: int, now: dt.datetime, source: str) -> NotifiedObject:
    """Return an object under its standard key, in no bucket yet."""
    key = raw_key(owner.org, owner.collector, owner.signal, now, name)
    return NotifiedObject("", key, size, "", "", from_datetime(now), source)


def choose_place(record: NotifiedObject, owner: Owner, registry: Registry, bucket: str) -> Place:
    """Choose the bucket: the configured one, or the only one.

    A prefix mapping must not give the key to another owner.
    """
    if bucket and bucket not in registry.profiles:
        raise NoPlaceError(f"bucket {bucket!r} (LAKERUNNER_RECEIVER_BUCKET) is not registered")
    if not bucket and len(registry.profiles) != 1:
        raise NoPlaceError(f"{len(registry.profiles)} buckets are registered: set LAKERUNNER_RECEIVER_BUCKET")
    profile = registry.profiles[bucket or next(iter(registry.profiles))]
    record = replace(record, bucket=profile.bucket)
    try:
        notice = resolve(record, registry)
    except (InvalidKeyError, IgnoredKeyError, UnknownOrganisationError) as error:
        raise NoPlaceError(str(error)) from error
    if (notice.org, notice.collector, notice.signal) != (owner.org, owner.collector, owner.signal):
        raise NoPlaceError(f"a prefix mapping of bucket {record.bucket!r} gives {record.key!r} to another")
    return Place(profile, record, notice)


def with_short_timeouts(settings: Settings) -> Settings:
    """Return settings for puts that somebody waits for."""
    return replace(
        settings,
        store_timeout_s=min(settings.store_timeout_s, PUT_TIMEOUT_S),
        store_max_retries=min(settings.store_max_retries, PUT_RETRIES),
    )
