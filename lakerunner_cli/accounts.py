"""Sets up organisations, keys and buckets, for `admin`, `demo` and tests.

A key is shown once and stored as its sha256 only. Its text does not name the organisation, so that a leaked
key does not reveal its owner.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from lakerunner_cli.command import CommandError
from resources.index.account_types import StorageProfile
from resources.index.contract import AdminIndex
from resources.index.postgres import PostgresIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.postgres.objects import ObjectBoard
from resources.lake.layout import NAME, valid_name
from resources.settings import Settings

ROLES = ("read", "write", "admin")
LOCAL_BUCKET = "raw"
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"^([1-9]\d{0,5})([mhdw])$")


class CommandIndex(PostgresIndex, ObjectBoard):
    """The index, with everything the command line uses."""


class BucketIndex(Protocol):
    """The part of the index that holds buckets."""

    def storage_profiles(self) -> dict[str, StorageProfile]: ...

    def put_storage_profile(self, profile: StorageProfile) -> None: ...


@contextmanager
def open_index(settings: Settings) -> Iterator[CommandIndex]:
    """Open the index of the configured stack; its absence is one line for a person."""
    index = CommandIndex(settings.require("index_dsn"), max_connections=2, wait_s=5.0, answer_s=60.0)
    try:
        yield index
    except IndexUnavailableError as error:
        raise CommandError(f"{error}; is the stack running? (`lakerunner status`)") from error
    finally:
        index.close()


def new_key() -> str:
    return f"lr_{secrets.token_urlsafe(32)}"


def key_hash(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def create_org(index: AdminIndex, org: str) -> bool:
    """Create an organisation; return False if it exists."""
    if not valid_name(org):
        raise CommandError(f"organisation {org!r} does not match {NAME.pattern}")
    return index.create_organisation(org)


def create_key(index: AdminIndex, org: str, role: str, name: str, expires: str = "") -> str:
    """Create a key of an organisation; only its hash is stored, so it cannot be shown again."""
    key = new_key()
    expires_at_ns = time.time_ns() + seconds_of(expires) * 1_000_000_000 if expires else None
    index.create_api_key(org, role, name, key_hash(key), expires_at_ns)
    return key


def replace_key(index: AdminIndex, org: str, role: str, name: str) -> str:
    """Create a key under this name and revoke older ones of that name."""
    index.revoke_api_key(org, name)
    return create_key(index, org, role, name)


def seconds_of(duration: str) -> int:
    """Parse a duration.

    >>> seconds_of("30d"), seconds_of("12h")
    (2592000, 43200)
    """
    match = _DURATION.match(duration)
    if match is None:
        raise CommandError(f"duration {duration!r}: expected a number and m, h, d or w, as in 30d")
    return int(match.group(1)) * _SECONDS[match.group(2)]


def bucket_profile(index: BucketIndex, bucket: str, settings: Settings) -> StorageProfile:
    """Return the place of a bucket; the stack's own bucket `raw` is registered on first use."""
    profiles = index.storage_profiles()
    if bucket not in profiles and bucket == LOCAL_BUCKET:
        profile = StorageProfile(LOCAL_BUCKET, f"file://{settings.data_dir / 'raw'}")
        index.put_storage_profile(profile)
        return profile
    if bucket not in profiles:
        raise CommandError(f"bucket {bucket!r} is not registered; `lakerunner admin bucket add {bucket} URL`")
    return profiles[bucket]
