"""The client reads whole objects and ranges, creates, replaces, deletes and lists them.

Failures that another try can cure are retried with full jitter. The library's own retries are switched off:
they end where the response headers arrive, so a connection lost in the middle of a body would fail the
object. Here the whole operation is retried.
"""

from __future__ import annotations

import mmap
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import obstore

from resources.objects.backend import Backend, scheme_of
from resources.objects.errors import (
    FAILURES,
    AlreadyExistsError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    translate,
)
from resources.objects.latency import LATENCY


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Facts about an object.

    The etag is without its quotes, as notifications spell it, so that the two can be compared.
    """

    key: str
    size: int
    etag: str
    version: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes of an object, and their version."""

    data: bytes
    info: ObjectInfo

    @property
    def etag(self) -> str:
        return self.info.etag

    @property
    def version(self) -> str:
        return self.info.version

    @property
    def size(self) -> int:
        return self.info.size

    @property
    def last_modified(self) -> datetime:
        return self.info.last_modified


def info_of(meta: Mapping[str, Any]) -> ObjectInfo:
    """Convert the library's dictionary; a store without etags or versions gives empty text."""
    return ObjectInfo(
        meta["path"], meta["size"], plain_etag(meta["e_tag"]), meta["version"] or "", meta["last_modified"]
    )


def plain_etag(etag: str | None) -> str:
    """Remove the quotes; weak tags keep their form.

    >>> plain_etag('"abc"'), plain_etag(None)
    ('abc', '')
    """
    return etag if etag and etag.startswith("W/") else (etag or "").strip('"')


def quoted_etag(etag: str) -> str:
    """Quote for `If-Match`; weak tags (`W/"…`) keep their form."""
    return etag if etag.startswith("W/") else f'"{etag}"'


@contextmanager
def readable(data: bytes | Path) -> Iterator[bytes | mmap.mmap]:
    """Return the bytes to upload; a file is mapped, so that a large segment is never copied into memory.

    Pages that were read count as memory of the process, so those of a large file are given back meanwhile.
    """
    if isinstance(data, bytes):
        yield data
    elif data.stat().st_size == 0:
        yield b""  # an empty file cannot be mapped
    else:
        with data.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            if len(mapped) < LARGE_FILE:
                yield mapped
                return
            ended = threading.Event()
            dropper = threading.Thread(target=_drop_pages, args=(mapped, ended), daemon=True)
            dropper.start()
            try:
                yield mapped
            finally:
                ended.set()
                dropper.join()


def _drop_pages(mapped: mmap.mmap, ended: threading.Event) -> None:
    """Give mapped pages back until the upload has ended; one that is read again comes from the page cache."""
    while not ended.wait(DROP_S):
        mapped.madvise(mmap.MADV_DONTNEED)


LARGE_FILE = 64 << 20
DROP_S = 0.02
FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0

Result = TypeVar("Result")


def delay_bound(attempt: int) -> float:
    """Return the longest pause after failed attempt 1, 2, 3…

    >>> [delay_bound(n) for n in (1, 2, 3, 9)]
    [0.1, 0.2, 0.4, 5.0]
    """
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (attempt - 1))


def with_retries(
    call: Callable[[int], Result], max_retries: int, sleep: Callable[[float], None] = time.sleep
) -> Result:
    """Call until it succeeds, fails for good, or has been tried 1 + `max_retries` times."""
    for attempt in range(1, max_retries + 1):
        try:
            return call(attempt)
        except UnavailableError:
            sleep(random.uniform(0, delay_bound(attempt)))  # noqa: S311 - spreads load, protects nothing
    return call(max_retries + 1)


FETCH_CHUNK = 8 * 1024 * 1024
LIST_CHUNK = 1000
DELETE_CHUNK = 1000


class ObjectStore:
    """Objects under one URL; keys are relative to it."""

    def __init__(self, url: str, credentials_ref: str, backend: Backend, max_retries: int) -> None:
        self.url = url
        self.credentials_ref = credentials_ref
        self._backend = backend
        self._max_retries = 0 if scheme_of(url) == "file" else max_retries

    def __reduce__(self) -> tuple[Callable[..., ObjectStore], tuple[str, str]]:
        from resources.objects.store import reopen_store

        return reopen_store, (self.url, self.credentials_ref)

    def get(self, key: str, max_bytes: int | None = None) -> Fetched:
        """Read the whole object and its version; raise `TooLargeError` before reading a byte of it."""

        def read() -> Fetched:
            result = obstore.get(self._backend, key)
            size = result.meta["size"]
            if max_bytes is not None and size > max_bytes:
                raise TooLargeError(key, f"{self.url}/{key}: {size} bytes, the limit is {max_bytes}")
            return Fetched(bytes(result.bytes()), info_of(result.meta))

        return self._run("get", key, read)

    def get_bytes(self, key: str) -> bytes:
        return self.get(key).data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from `start` (fewer where the object ends)."""
        if length == 0:
            return b""
        return self._run(
            "get_range", key, lambda: bytes(obstore.get_range(self._backend, key, start=start, length=length))
        )

    def fetch_to(self, key: str, path: Path, etag: str = "") -> int:
        """Download to `path`, complete or not at all; return the bytes written.

        Read in pinned ranges: memory stays at one chunk, a lost connection costs one chunk, and an object
        replaced half-way (or that no longer has `etag`) is a `ChangedError` and not a mixture of two.
        """
        meta = self.head(key)
        pin = etag or meta.etag
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                for start in range(0, meta.size, FETCH_CHUNK):
                    file.write(self._pinned(key, start, min(start + FETCH_CHUNK, meta.size), pin))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return meta.size

    def put(self, key: str, data: bytes | Path) -> str:
        """Write or replace; return the etag."""
        with readable(data) as buffer:
            return self._run("put", key, lambda: self._put(key, buffer, "overwrite"))

    def put_new(self, key: str, data: bytes | Path) -> str:
        """Create, or raise `AlreadyExistsError`; return the etag.

        A put whose answer was lost may have succeeded, and its retry then finds the key taken: the bytes
        there decide whether that was us.
        """
        with readable(data) as buffer:
            return self._run_counted("put_new", key, lambda attempt: self._create(key, buffer, attempt))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete these objects; one that is not there counts as deleted."""
        wanted = list(keys)
        for start in range(0, len(wanted), DELETE_CHUNK):
            chunk = wanted[start : start + DELETE_CHUNK]
            try:
                self._run("delete", chunk[0], partial(obstore.delete, self._backend, chunk))
            except NotFoundError:
                self._delete_one_by_one(chunk)

    def head(self, key: str) -> ObjectInfo:
        return self._run("head", key, lambda: info_of(obstore.head(self._backend, key)))

    def exists(self, key: str) -> bool:
        try:
            self.head(key)
        except NotFoundError:
            return False
        return True

    def list(self, prefix: str = "") -> Iterator[Sequence[ObjectInfo]]:
        """List objects under a folder, in chunks; `prefix` ends at a path part (`a/b` does not match `a/bc`).

        A transient failure resumes after the last key seen (stores list in key order).
        """
        listing, last = self._listing(prefix, None), ""
        while True:
            try:
                chunk = self._attempt("list", prefix, partial(next, listing, ()))
            except UnavailableError:
                if self._max_retries == 0:
                    raise
                listing, chunk = self._run("list", prefix, partial(self._resume, prefix, last or None))
            if not chunk:
                return
            last = chunk[-1]["path"]
            yield [info_of(meta) for meta in chunk]

    def list_folders(self, prefix: str = "") -> Sequence[str]:
        """List the next path parts under `prefix`, as full prefixes without a trailing slash."""
        return self._run(
            "list_folders",
            prefix,
            lambda: sorted(obstore.list_with_delimiter(self._backend, prefix or None)["common_prefixes"]),
        )

    def _listing(self, prefix: str, offset: str | None) -> Iterator[Sequence[Any]]:
        return iter(obstore.list(self._backend, prefix or None, offset=offset, chunk_size=LIST_CHUNK))

    def _resume(self, prefix: str, offset: str | None) -> tuple[Iterator[Sequence[Any]], Sequence[Any]]:
        """Begin a listing anew: one that failed has ended, and asked again it would seem complete."""
        listing = self._listing(prefix, offset)
        return listing, next(listing, ())

    def _pinned(self, key: str, start: int, end: int, etag: str) -> obstore.Bytes:
        options: Any = {"range": (start, end)} | ({"if_match": quoted_etag(etag)} if etag else {})
        return self._run("fetch", key, lambda: obstore.get(self._backend, key, options=options).bytes())

    def _put(self, key: str, buffer: Any, mode: Any) -> str:
        # One request even when large: multipart uploads cannot be conditional here.
        return plain_etag(obstore.put(self._backend, key, buffer, mode=mode, use_multipart=False)["e_tag"])

    def _create(self, key: str, buffer: Any, attempt: int) -> str:
        try:
            return self._put(key, buffer, "create")
        except FAILURES as error:
            taken = isinstance(translate(error, "put_new", self.url, key), AlreadyExistsError)
            if not (taken and attempt > 1):
                raise
            there = self.get(key)
            if there.data != bytes(buffer):
                raise
            return there.etag

    def _delete_one_by_one(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                self._run("delete", key, partial(obstore.delete, self._backend, key))
            except NotFoundError:
                continue

    def _run(self, operation: str, key: str, call: Callable[[], Result]) -> Result:
        return self._run_counted(operation, key, lambda _attempt: call())

    def _run_counted(self, operation: str, key: str, call: Callable[[int], Result]) -> Result:
        return with_retries(
            lambda attempt: self._attempt(operation, key, lambda: call(attempt)), self._max_retries
        )

    def _attempt(self, operation: str, key: str, call: Callable[[], Result]) -> Result:
        def translated() -> Result:
            try:
                return call()
            except FAILURES as error:
                raise translate(error, operation, self.url, key) from error

        return LATENCY.timed(operation, translated)
