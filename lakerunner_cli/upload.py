"""Uploads files under the raw prefix, named after their content.

The same file in the same hour gets the same key, so that repeating `ingest` adds nothing: the put finds the
key taken and the pipeline knows the object already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import xxhash

from lakerunner_cli.command import CommandError
from lakerunner_cli.webhook import NewObject
from resources.lake.layout import Signal, raw_key
from resources.objects.client import ObjectStore
from resources.objects.errors import AlreadyExistsError

FORMATS = (".binpb", ".pb", ".json", ".ndjson", ".jsonl", ".csv", ".parquet")
PACKED = ("", ".gz", ".zst")
SUFFIXES = tuple(kind + packed for kind in FORMATS for packed in PACKED)
READ_BYTES = 4 * 1024 * 1024
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Destination:
    """The place and owner of uploads."""

    store: ObjectStore
    bucket: str
    org: str
    collector: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class UploadedObject:
    """An object in the bucket, new or there before."""

    object: NewObject
    is_new: bool


def files_under(paths: Sequence[Path]) -> list[Path]:
    """Return telemetry files in order; a path without any is an error.

    In a directory the suffix tells which files are telemetry; a file named by itself is always taken. Cooking
    recognises the format by the content.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(_telemetry_in(path))
        if not inside:
            raise CommandError(f"{path}: no such file, or no file in it ends in {' '.join(SUFFIXES)}")
        found += inside
    return found


def upload(path: Path, to: Destination, moment: datetime | None = None) -> UploadedObject:
    key = raw_key(to.org, to.collector, to.signal, moment or datetime.now(UTC), content_name(path))
    try:
        etag, is_new = to.store.put_new(key, path), True
    except AlreadyExistsError:
        etag, is_new = to.store.head(key).etag, False
    return UploadedObject(NewObject(to.bucket, key, path.stat().st_size, etag), is_new)


def content_name(path: Path) -> str:
    """Return `{hash of the content}-{file name}`, safe in any object key."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
    return f"{digest.hexdigest()}-{_ODD.sub('_', path.name)[-120:]}"


def _telemetry_in(path: Path) -> Iterator[Path]:
    if path.is_dir():
        return (p for p in path.rglob("*") if p.is_file() and p.name.lower().endswith(SUFFIXES))
    return iter([path] if path.is_file() else [])
