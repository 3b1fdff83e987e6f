"""Listing the prefixes of an organisation finds raw objects that no notification announced.

Only keys that could belong to the wanted arrival hours are looked at; what is already registered is skipped.
Keys that cannot be placed are returned with their reason, as a notification for them would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from resources.index.contract import PipelineIndex
from resources.index.types import ObjectNotice
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, Signal, raw_prefixes
from resources.lake.timecut import HOUR_NS, cut, from_datetime, to_datetime
from resources.notifications.events import NotifiedObject
from resources.notifications.references import Registry, UnknownOrganisationError, resolve
from resources.objects.client import ObjectInfo, ObjectStore
from resources.objects.errors import StoreError
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError

CHUNK = 1000


@dataclass(slots=True)
class Listing:
    """Result of a listing."""

    listed: int = 0
    registered: int = 0
    unplaced: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    """Buckets that could not be listed, with the reason; the others were."""


def register_missed(
    index: PipelineIndex, settings: Settings, signal: Signal, org: str, hours: Sequence[int]
) -> Listing:
    """Register every unknown object of `org` whose arrival hour is one of `hours`."""
    registry = Registry(
        index.storage_profiles(), tuple(index.prefix_mappings()), frozenset(index.organisations())
    )
    found = Listing()
    for bucket, profile in registry.profiles.items():
        try:
            store = open_store(profile.url, settings, profile.credentials_ref)
            for prefix in _prefixes(registry, bucket, org, signal, store, hours):
                for chunk in store.list(prefix):
                    notices = list(_notices(chunk, bucket, registry, signal, org, set(hours), found))
                    found.registered += _register(index, bucket, notices)
        except (StoreError, SettingsError) as error:
            found.unreachable.append(f"bucket {bucket}: {error}")
    return found


def _register(index: PipelineIndex, bucket: str, notices: Sequence[ObjectNotice]) -> int:
    if not notices:
        return 0
    known = index.known_keys(bucket, [notice.key for notice in notices])
    return len(index.register_listed([n for n in notices if n.key not in known]).registered)


def _prefixes(
    registry: Registry, bucket: str, org: str, signal: Signal, store: ObjectStore, hours: Sequence[int]
) -> Iterator[str]:
    """Yield prefixes: dated ones by hour, the others whole, to be filtered by LastModified."""
    otel, *by_signal = raw_prefixes(org)
    for collector in store.list_folders(otel):
        for hour in hours:
            yield f"{collector}/{signal.value}/{to_datetime(hour):%Y/%m/%d/%H}/"
            yield f"{collector}/{to_datetime(hour):%Y/%m/%d/%H}/"  # the signal is in the file's name
    yield from (prefix for prefix in by_signal if prefix.startswith(f"{signal.value}-raw/"))
    yield from (m.prefix for m in registry.mappings if (m.bucket, m.org) == (bucket, org))


def _notices(
    chunk: Sequence[ObjectInfo],
    bucket: str,
    registry: Registry,
    signal: Signal,
    org: str,
    hours: set[int],
    found: Listing,
) -> Iterator[ObjectNotice]:
    for info in chunk:
        found.listed += 1
        modified = from_datetime(info.last_modified)
        record = NotifiedObject(bucket, info.key, info.size, info.etag, info.version, modified, "listing")
        try:
            notice = resolve(record, registry)
        except IgnoredKeyError:
            continue
        except (InvalidKeyError, UnknownOrganisationError) as error:
            found.unplaced.append(str(error))
            continue
        if (notice.org, notice.signal) == (org, signal) and notice.arrival_hour_ns in hours:
            yield notice


def recent_hours(now_ns: int, count: int) -> list[int]:
    """Return the current arrival hour and those before it, for the safety net."""
    current = cut(now_ns, HOUR_NS)
    return [current - back * HOUR_NS for back in range(count)]
