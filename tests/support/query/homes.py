"""Lakes of tests lie in their folder, or on an S3 server behind the fault proxy.

On S3 the bucket follows the folder: before a GET the proxy puts the file as it is now, or removes the object
where the file is gone. So tests write, damage and delete files, and workers read objects of a real server.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from resources.objects.client import ObjectStore
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.slow_store import Conditions, SlowStore, slow_store

BUCKET = "lake"
USUAL = Conditions(delay_ms=1, failing=0.1, stall_s=0.05)
"""A tenth of all ranges fails, in every way."""


@dataclass
class FollowingBucket:
    """Copies of folders on an S3 server, brought up to date by whoever reads them."""

    settings: Settings
    folders: dict[str, Path] = field(default_factory=dict)
    _stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._store: ObjectStore = open_store(f"s3://{BUCKET}", self.settings)

    def prefix_of(self, folder: Path) -> str:
        prefix = f"{folder.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
        self.folders[prefix] = folder
        return prefix

    def follow(self, method: str, path: str) -> None:
        """Bring the object of a request up to date."""
        key = path.removeprefix(f"/{BUCKET}/")
        prefix, _, name = key.partition("/")
        if method not in {"GET", "HEAD"} or prefix not in self.folders or not name:
            return
        with self._lock:
            file = self.folders[prefix] / name
            stamp = _stamp(file)
            if key in self._stamps and self._stamps[key] == stamp:
                return
            if stamp is None:
                self._store.delete([key])
            else:
                self._store.put(key, file)
            self._stamps[key] = stamp


_current: tuple[FollowingBucket, SlowStore] | None = None


@contextlib.contextmanager
def lakes_on_s3(server: Settings, conditions: Conditions = USUAL) -> Iterator[SlowStore]:
    """Keep every lake that is opened meanwhile on this server, behind a proxy."""
    global _current  # noqa: PLW0603 - tests ask for the home of a folder in many places
    bucket = FollowingBucket(server)
    with slow_store(server.s3_endpoint, conditions, before=bucket.follow) as proxy:
        before, _current = _current, (bucket, proxy)
        try:
            yield proxy
        finally:
            _current = before


def lake_settings(folder: Path) -> dict[str, Any]:
    """Return the settings with which a process finds the lake of a folder."""
    if _current is None:
        return {"lake_url": folder.as_uri()}
    bucket, proxy = _current
    names = ("s3_access_key_id", "s3_secret_access_key")
    keys = {name: getattr(bucket.settings, name) for name in names}
    return {"lake_url": f"s3://{BUCKET}/{bucket.prefix_of(folder)}", "s3_endpoint": proxy.url, **keys}


def open_lake(folder: Path) -> ObjectStore:
    """Return a store over the lake of a folder, wherever it lies."""
    settings = replace(Settings(), **lake_settings(folder))
    return open_store(settings.lake_url, settings)


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
