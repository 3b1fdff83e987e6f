"""The block cache: every read is right, whatever is evicted, fails, restarts or is damaged."""

from __future__ import annotations

import errno
import functools
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.shared import block_cache, range_requests
from lakerunner_query.worker.shared.block_cache import BLOCK, BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from lakerunner_query.worker.shared.segment_file import FetchMeter, SegmentUnreadableError
from resources.duckdb import CancelledQueryError, DuckLimits, DuckSession
from resources.objects.errors import UnavailableError
from tests.support.patience import PATIENCE_S

SIZE = 5 * 1024 * 1024 + 12_345


class Store:
    """Objects in memory, and the ranges that were asked for."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = {f"db/acme/{name}": data for name, data in objects.items()}
        self.asked: list[tuple[int, int]] = []
        self.holds: list[threading.Event] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.asked.append((start, start + length))
        hold = self.holds.pop(0) if self.holds else self.gate
        failure = self.failures.pop(0) if self.failures else None
        hold.wait(PATIENCE_S)
        if failure is not None:
            raise failure
        return self.objects[key][start : start + length]


@functools.cache
def content(size: int = SIZE, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def ref(name: str, size: int = SIZE) -> SegmentRef:
    return SegmentRef(name, f"db/acme/{name}", size, 0, 0, 0, 0)


def test_reads_cost_their_blocks_once(tmp_path: Path) -> None:
    data = content()
    store, meter = Store(a=data), FetchMeter()
    cache = BlockCache(tmp_path, 100 << 20, store)
    with cache.open(ref("a"), meter) as file:
        assert file.read(70_000, 10) == data[70_000:70_010]
        assert file.read(BLOCK + 5, 60_000) == data[BLOCK + 5 : BLOCK + 60_005]
        assert file.read(SIZE - 3, 3) == data[-3:]
        with pytest.raises(SegmentUnreadableError):
            file.read(SIZE - 3, 4)
    assert store.asked == [(BLOCK, 2 * BLOCK), (SIZE // BLOCK * BLOCK, SIZE)]
    assert (meter.requests, meter.bytes) == (2, BLOCK + SIZE % BLOCK)
    assert cache.used_bytes == meter.bytes


def test_near_ranges_share_a_request_and_far_ones_do_not(tmp_path: Path) -> None:
    store = Store(a=content())
    with BlockCache(tmp_path, 100 << 20, store).open(ref("a"), FetchMeter()) as file:
        file.fetch([(0, 10), (3 * BLOCK, 3 * BLOCK + 1), (40 * BLOCK, 42 * BLOCK)])
    assert sorted(store.asked) == [(0, 4 * BLOCK), (40 * BLOCK, 42 * BLOCK)]


def test_a_small_object_is_fetched_whole(tmp_path: Path) -> None:
    store = Store(a=content(900_000))
    with BlockCache(tmp_path, 100 << 20, store).open(ref("a", 900_000), FetchMeter()) as file:
        file.read(5, 5)
        file.read(899_999, 1)
    assert store.asked == [(0, 900_000)]


def test_one_request_however_many_ask(tmp_path: Path) -> None:
    data = content()
    store = Store(a=data)
    store.gate.clear()
    cache = BlockCache(tmp_path, 100 << 20, store)
    meters = [FetchMeter() for _ in range(8)]

    def read(meter: FetchMeter) -> bytes:
        with cache.open(ref("a"), meter) as file:
            return file.read(10, 100_000)

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(read, meter) for meter in meters]
        store.gate.set()
        assert {one.result() for one in asked} == {data[10:100_010]}
    assert len(store.asked) == 1
    assert sum(meter.requests for meter in meters) == 1


def test_blocks_survive_a_restart_and_damaged_ones_are_fetched_again(tmp_path: Path) -> None:
    data = content()
    with BlockCache(tmp_path, 100 << 20, Store(a=data)).open(ref("a"), FetchMeter()) as file:
        file.fetch([(0, 4 * BLOCK)])
    with (tmp_path / "db/acme/a").open("r+b") as local:
        local.seek(2 * BLOCK + 7)
        local.write(b"damage")
    store = Store(a=data)
    cache = BlockCache(tmp_path, 100 << 20, store)
    assert cache.used_bytes >= 4 * BLOCK
    with cache.open(ref("a"), FetchMeter()) as file:
        assert file.read(0, 4 * BLOCK) == data[: 4 * BLOCK]
    assert store.asked == [(2 * BLOCK, 3 * BLOCK)]


def test_a_file_of_another_kind_or_size_is_not_believed(tmp_path: Path) -> None:
    data = content()
    (tmp_path / "db/acme").mkdir(parents=True)
    (tmp_path / "db/acme/a").write_bytes(content(seed=1))
    store = Store(a=data)
    with BlockCache(tmp_path, 100 << 20, store).open(ref("a"), FetchMeter()) as file:
        assert file.read(0, 100) == data[:100]
    store.objects["db/acme/a"] = longer = content(SIZE + 1, seed=2)
    with BlockCache(tmp_path, 100 << 20, store).open(ref("a", SIZE + 1), FetchMeter()) as file:
        assert file.read(0, 100) == longer[:100]


def test_least_recently_used_blocks_go_first_and_their_space_is_given_back(tmp_path: Path) -> None:
    data, extent = content(), 16 * BLOCK
    store = Store(a=data)
    cache = BlockCache(tmp_path, 2 * extent, store)
    with cache.open(ref("a"), FetchMeter()) as file:
        for at in (0, extent, 0, 2 * extent):
            file.fetch([(at, at + extent)])
        assert cache.used_bytes == 2 * extent
        assert (tmp_path / "db/acme/a").stat().st_blocks * 512 < 2 * extent + 3 * BLOCK
        store.asked.clear()
        assert file.read(0, extent) == data[:extent]
        assert store.asked == []
        assert file.read(extent, 9) == data[extent : extent + 9]
        assert store.asked == [(extent, extent + BLOCK)]


def test_a_file_without_blocks_is_removed(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, 16 * BLOCK, Store(a=content(), b=content(seed=1)))
    with cache.open(ref("a"), FetchMeter()):
        pass
    assert not (tmp_path / "db/acme/a").exists()
    for name in "ab":
        with cache.open(ref(name), FetchMeter()) as file:
            file.fetch([(0, 16 * BLOCK)])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b"]


def test_a_full_disk_makes_the_cache_smaller_and_fails_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, write = content(), os.pwrite
    cache = BlockCache(tmp_path, 100 << 20, Store(a=data))

    def full(descriptor: int, raw: bytes | memoryview, at: int) -> int:
        if len(raw) >= BLOCK:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, raw, at)

    with cache.open(ref("a"), FetchMeter()) as file:
        file.fetch([(0, 8 * BLOCK)])
        monkeypatch.setattr(block_cache.os, "pwrite", full)
        file.fetch([(10 * BLOCK, 12 * BLOCK)])
        assert file.read(20 * BLOCK, 2 * BLOCK) == data[20 * BLOCK : 22 * BLOCK]
    assert cache.budget_bytes <= 4 * BLOCK


def test_a_damaged_segment_is_forgotten_and_open_handles_still_read_right(tmp_path: Path) -> None:
    data = content()
    cache = BlockCache(tmp_path, 100 << 20, Store(a=data))
    with cache.open(ref("a"), FetchMeter()) as old, cache.open(ref("a"), FetchMeter()) as older:
        old.fetch([(0, BLOCK)])
        cache.forget(ref("a"))
        assert cache.used_bytes == 0
        with cache.open(ref("a"), FetchMeter()) as new:
            assert new.read(5, 50) == old.read(5, 50) == older.read(5, 50) == data[5:55]


def test_a_short_object_and_a_failing_store_are_told_apart(tmp_path: Path) -> None:
    store = Store(a=content()[:-1])
    cache = BlockCache(tmp_path, 100 << 20, store)
    with cache.open(ref("a"), FetchMeter()) as file:
        with pytest.raises(SegmentUnreadableError, match="ends before byte"):
            file.read(SIZE - 10, 10)
        store.failures = [UnavailableError("a", "the store failed")]
        with pytest.raises(UnavailableError):
            file.read(0, 10)
        assert file.read(0, 10) == store.objects["db/acme/a"][:10]  # nothing is left under way


def test_budgets_end_a_read(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, 100 << 20, Store(a=content()))
    with cache.open(ref("a"), FetchMeter(max_bytes=3 * BLOCK)) as file:
        file.read(0, 10)
        with pytest.raises(LimitExceededError, match="narrow the time range"):
            file.fetch([(0, 20 * BLOCK)])
    with cache.open(ref("a"), FetchMeter(max_requests=1)) as file, pytest.raises(LimitExceededError):
        file.fetch([(20 * BLOCK, 21 * BLOCK), (60 * BLOCK, 61 * BLOCK)])


def test_cancelling_ends_waiting(tmp_path: Path) -> None:
    store, meter = Store(a=content()), FetchMeter()
    store.gate.clear()
    with BlockCache(tmp_path, 100 << 20, store).open(ref("a"), meter) as file:
        threading.Timer(0.1, meter.cancellation.cancel).start()
        with pytest.raises(CancelledQueryError):
            file.read(0, 10)
        store.gate.set()


def test_a_slow_request_is_sent_again(tmp_path: Path) -> None:
    store, meter = Store(a=content()), FetchMeter()
    cache = BlockCache(tmp_path, 100 << 20, store)
    with cache.open(ref("a"), meter) as file:
        for number in range(range_requests.ENOUGH):
            file.read(2 * number * BLOCK, 10)
        store.holds = [threading.Event()]
        (hold,) = store.holds
        assert file.read(60 * BLOCK, 10)
        hold.set()
    assert cache.requests.counts["hedged"] == 1
    assert store.asked[-2:] == [(60 * BLOCK, 61 * BLOCK)] * 2
    assert meter.requests == range_requests.ENOUGH + 2


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_reads_with_a_cache_too_small_are_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    objects = {name: content(SIZE, number) for number, name in enumerate("ab")}
    store = Store(**objects)
    budget = data.draw(st.sampled_from([BLOCK, 20 * BLOCK, 60 * BLOCK]))
    cache = BlockCache(tmp_path_factory.mktemp("blocks"), budget, store)
    spans = st.tuples(st.sampled_from("ab"), st.integers(0, SIZE - 1), st.integers(1, 40 * BLOCK))
    reads = data.draw(st.lists(spans, min_size=1, max_size=24))

    def read(span: tuple[str, int, int]) -> bool:
        name, start, length = span
        end = min(SIZE, start + length)
        with cache.open(ref(name), FetchMeter()) as file:
            if length % 3 == 0:
                file.fetch_ahead([(start, end)])
            return file.read(start, end - start) == objects[name][start:end]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, reads))
    assert cache.used_bytes <= max(budget, 16 * BLOCK)


def test_duckdb_and_arrow_read_through_it(tmp_path: Path) -> None:
    numbers = np.arange(400_000)
    table = pa.table({"n": numbers, "text": [f"line {number % 977} of {number}" for number in numbers]})
    pq.write_table(table, tmp_path / "lake.parquet", row_group_size=50_000, compression="zstd")
    raw = (tmp_path / "lake.parquet").read_bytes()
    assert len(raw) > 1 << 20
    store, meter = Store(a=raw), FetchMeter()
    cache = BlockCache(tmp_path / "cache", 100 << 20, store)
    limits = DuckLimits(256, 2, tmp_path / "spill", (tmp_path / "nothing",), LakeFileSystem(cache.handle))
    session = DuckSession(limits)
    with cache.open(ref("a", len(raw)), meter) as file:
        assert pq.read_metadata(file.source()).num_rows == 400_000
        assert pq.ParquetFile(file.source()).read_row_group(3).equals(table.slice(150_000, 50_000))
        with session.cursor() as cursor:
            sql = (
                "SELECT n, text, filename FROM read_parquet($files, filename = true) "
                "WHERE n BETWEEN 60000 AND 60001 OR text = 'line 5 of 5'"
            )
            found = cursor.execute(sql, {"files": [file.name]}).fetchall()
        lines = [(n, f"line {n % 977} of {n}", file.name) for n in (5, 60_000, 60_001)]
        assert sorted(found) == lines
        assert meter.bytes <= len(raw) + BLOCK
        store.failures = [UnavailableError("a", "the store failed")] * 9
        cache.forget(ref("a", len(raw)))
        with session.cursor() as cursor, pytest.raises(duckdb.Error):
            cursor.execute(sql, {"files": [file.name]}).fetchall()
        assert isinstance(file.failure, UnavailableError)
    with session.cursor() as cursor, pytest.raises(duckdb.Error):
        cursor.execute("SELECT * FROM read_parquet($files)", {"files": [str(tmp_path / "lake.parquet")]})
    session.close()


def test_no_hole_is_made_between_the_bytes_of_a_block_and_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = content(SIZE, 3)
    cache = BlockCache(tmp_path, 100 << 20, Store(a=raw))
    write = BlockCache._write

    def write_and_shrink(self: BlockCache, *arguments: object) -> None:
        write(self, *arguments)  # type: ignore[arg-type]
        with self._lock:
            self._shrink_to(0)

    with cache.open(ref("a"), FetchMeter()) as file:
        file.read(0, BLOCK)
        monkeypatch.setattr(BlockCache, "_write", write_and_shrink)
        assert file.read(8 * BLOCK, BLOCK) == raw[8 * BLOCK : 9 * BLOCK]
        assert file.read(8 * BLOCK, BLOCK) == raw[8 * BLOCK : 9 * BLOCK]
