"""The segment cache: bounded, shared, restartable, and smaller on a full disk."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.shared.segment_cache import SegmentCache, SegmentUnreadableError


class Store:
    """Objects of a hundred bytes; counts fetches."""

    def __init__(self) -> None:
        self.fetched: list[str] = []
        self.fail: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def fetch_to(self, key: str, path: Path) -> int:
        self.gate.wait(5)
        self.fetched.append(key)
        if self.fail:
            raise self.fail.pop(0)
        path.write_bytes(b"x" * 100)
        return 100


def ref(name: str, size: int = 100) -> SegmentRef:
    return SegmentRef(name, f"db/acme/{name}.parquet", size, 0, 0, 0, 0)


def use(cache: SegmentCache, segment: SegmentRef) -> int:
    path, fetched = cache.acquire(segment)
    assert path.stat().st_size == 100
    cache.release(segment)
    return fetched


def test_fetches_once_and_evicts_the_least_recently_used(tmp_path: Path) -> None:
    store = Store()
    cache = SegmentCache(tmp_path, 250, store)
    assert [use(cache, ref(name)) for name in "aab"] == [100, 0, 100]
    use(cache, ref("a"))
    use(cache, ref("c"))
    assert cache.used_bytes == 200
    assert (use(cache, ref("a")), use(cache, ref("b"))) == (0, 100)


def test_a_file_in_use_stays(tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path, 100, Store())
    path, _ = cache.acquire(ref("a"))
    use(cache, ref("b"))
    assert path.exists()
    cache.release(ref("a"))
    assert cache.used_bytes <= 100


def test_one_download_however_many_ask(tmp_path: Path) -> None:
    store = Store()
    store.gate.clear()
    cache = SegmentCache(tmp_path, 1000, store)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(use, cache, ref("a")) for _ in range(8)]
        store.gate.set()
        assert sum(one.result() for one in asked) == 100
    assert store.fetched == ["db/acme/a.parquet"]


def test_survives_a_restart_and_clears_half_written_files(tmp_path: Path) -> None:
    use(SegmentCache(tmp_path, 1000, Store()), ref("a"))
    (tmp_path / "db/acme/.b.parquet.xyz").write_bytes(b"half")
    store = Store()
    cache = SegmentCache(tmp_path, 1000, store)
    assert use(cache, ref("a")) == 0
    assert store.fetched == []
    assert not (tmp_path / "db/acme/.b.parquet.xyz").exists()


def test_a_copy_of_the_wrong_size_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "db/acme").mkdir(parents=True)
    (tmp_path / "db/acme/a.parquet").write_bytes(b"short")
    assert use(SegmentCache(tmp_path, 1000, Store()), ref("a")) == 100


def test_an_object_of_the_wrong_size_is_unreadable(tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path, 1000, Store())
    with pytest.raises(SegmentUnreadableError, match="has 100 bytes, the index says 7"):
        cache.acquire(ref("a", 7))
    assert cache.used_bytes == 0


def test_a_full_disk_shrinks_the_cache_and_the_query_goes_on(tmp_path: Path) -> None:
    store = Store()
    cache = SegmentCache(tmp_path, 10_000, store)
    for name in "abcd":
        use(cache, ref(name))
    store.fail = [OSError(errno.ENOSPC, "No space left on device")]
    assert use(cache, ref("e")) == 100
    assert cache.budget_bytes == 200
    assert cache.used_bytes <= 200


def test_failures_are_not_remembered(tmp_path: Path) -> None:
    store = Store()
    store.fail = [OSError(errno.EACCES, "Permission denied")]
    cache = SegmentCache(tmp_path, 1000, store)
    with pytest.raises(SegmentUnreadableError):
        cache.acquire(ref("a"))
    assert use(cache, ref("a")) == 100


def test_keys_cannot_leave_the_folder(tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", 1000, Store())
    with pytest.raises(SegmentUnreadableError, match="not a segment key"):
        cache.acquire(SegmentRef("x", "../outside.parquet", 100, 0, 0, 0, 0))
