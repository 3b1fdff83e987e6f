"""One raw object is fetched: small ones into memory, large ones into a file, in pinned ranges."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from resources.objects.client import ObjectInfo, ObjectStore
from resources.objects.errors import TooLargeError

IN_MEMORY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Download:
    """The object's bytes and their version. Leaving it as a context removes the file."""

    content: bytes | Path
    info: ObjectInfo

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self.content, Path):
            self.content.unlink(missing_ok=True)


def download(store: ObjectStore, key: str, folder: Path, max_bytes: int) -> Download:
    """Fetch an object of at most `max_bytes`; one that changes meanwhile is an error."""
    try:
        fetched = store.get(key, min(max_bytes, IN_MEMORY_BYTES))
    except TooLargeError:
        if max_bytes <= IN_MEMORY_BYTES:
            raise
    else:
        return Download(fetched.data, fetched.info)
    info = store.head(key)
    if info.size > max_bytes:
        raise TooLargeError(key, f"{store.url}/{key}: {info.size} bytes, the limit is {max_bytes}")
    path = folder / "object"
    store.fetch_to(key, path, info.etag)
    return Download(path, info)
