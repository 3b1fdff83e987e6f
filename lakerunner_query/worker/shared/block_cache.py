"""Segments of an object store are read by range; the blocks that were read stay on local disk.

    object   |····|####|####|····|····|#|     blocks of 64 KiB: # kept here, · not fetched yet
    file     the same bytes at the same places, holes between them, and a table of checksums behind them

A file is one object. Blocks survive a restart and are checked when they are first read after it. The least
recently used go first, sixteen at a time. A full disk makes the cache smaller, for good, and fails no query:
what cannot be kept is read from the store each time.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import xxhash

from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.shared.lake_filesystem import SCHEME, Cursor
from lakerunner_query.worker.shared.range_requests import Flight, RangeRequests, RangeStore, runs
from lakerunner_query.worker.shared.segment_file import FetchMeter, Range, SegmentUnreadableError, within

BLOCK = 64 * 1024
EXTENT_BLOCKS = 16
"""Blocks that are evicted together."""
WHOLE_BELOW = 1024 * 1024
"""Smaller objects are fetched whole."""
TRIES = 3
"""Times that bytes are fetched which other readers push out again."""
_MAGIC = 0x31_4B_4C_42_52_4B_41_4C
"""`LAKRBLK1`, before the size of the object and the checksums."""
_HEADER_BYTES = 16
_PUNCH_HOLE = 0x02 | 0x01
"""`FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE` of Linux."""
_libc = ctypes.CDLL(None, use_errno=True)


class NoRoomError(Exception):
    """The disk is full even after the cache was made smaller."""


class _BlockFile:
    """The local file of one object, and what is known of its blocks; guarded by the cache's lock."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.blocks = -(-size // BLOCK)
        self.sums = np.zeros(self.blocks, np.uint64)
        """Checksums of blocks that are here, 0 for the others."""
        self.is_checked = np.zeros(self.blocks, np.bool_)
        self.flights: dict[int, Flight] = {}
        self.readers = 0
        """Reads and writes under way: no hole is made in the meantime."""
        self.is_dropped = False
        self.descriptor = -1
        self._users = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.in_use():
            self._adopt()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the file open while the block runs."""
        self.use()
        try:
            yield
        finally:
            self.unuse()

    def use(self) -> None:
        if self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        self._users += 1

    def unuse(self) -> None:
        self._users -= 1
        if self._users == 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def bounds(self, block: int) -> Range:
        return block * BLOCK, min((block + 1) * BLOCK, self.size)

    def bytes_in(self, blocks: Iterable[int]) -> int:
        return sum(end - start for start, end in map(self.bounds, blocks))

    def here_in(self, extent: int) -> list[int]:
        first = extent * EXTENT_BLOCKS
        here: list[int] = np.flatnonzero(self.sums[first : first + EXTENT_BLOCKS]).tolist()
        return [first + number for number in here]

    def note(self, first: int, sums: Sequence[int]) -> None:
        """Record checksums of blocks that lie one behind the other."""
        self.sums[first : first + len(sums)] = sums
        self.is_checked[first : first + len(sums)] = True
        place = self.blocks * BLOCK + _HEADER_BYTES + 8 * first
        os.pwrite(self.descriptor, np.array(sums, "<u8").tobytes(), place)

    def is_here(self, block: int) -> bool:
        """Tell whether the block is here; one of an earlier process is compared with its checksum."""
        if self.is_checked[block] or not self.sums[block]:
            return bool(self.sums[block])
        start, end = self.bounds(block)
        if _checksum(os.pread(self.descriptor, end - start, start)) == self.sums[block]:
            self.is_checked[block] = True
            return True
        self.note(block, [0])
        return False

    def _adopt(self) -> None:
        """Take over the blocks of an earlier process, or begin an empty file."""
        table = os.pread(self.descriptor, _HEADER_BYTES + 8 * self.blocks, self.blocks * BLOCK)
        if len(table) == _HEADER_BYTES + 8 * self.blocks:
            known = np.frombuffer(table, "<u8")
            if known[0] == _MAGIC and known[1] == self.size:
                self.sums = known[2:].copy()
                return
        os.ftruncate(self.descriptor, 0)
        header = np.array([_MAGIC, self.size, *([0] * self.blocks)], "<u8")
        os.pwrite(self.descriptor, header.tobytes(), self.blocks * BLOCK)


Extent = tuple[str, int]
"""Key of an object and number of the extent; -1 stands for all of a file that no query opened yet."""
UNOPENED = -1


class BlockCache:
    """Blocks of segments on local disk, up to a budget."""

    is_local = False

    def __init__(self, folder: Path, max_bytes: int, store: RangeStore) -> None:
        self._folder = folder.absolute()
        self._budget = max_bytes
        self.requests = RangeRequests(store)
        self._lock = threading.RLock()
        self._files: dict[str, _BlockFile] = {}
        self._handles: dict[str, CachedFile] = {}
        """Open handles by name."""
        self._numbers = itertools.count()
        self._used: OrderedDict[Extent, int] = OrderedDict()
        """Bytes by extent, least recently used first."""
        self._used_bytes = 0
        self._folder.mkdir(parents=True, exist_ok=True)
        self._list_files()

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def budget_bytes(self) -> int:
        return self._budget

    def open(self, segment: SegmentRef, meter: FetchMeter) -> CachedFile:
        with self._lock:
            file = self._files.get(segment.key)
            if file is not None and file.size != segment.bytes:
                self._drop(segment.key)
                file = None
            try:
                if file is None:
                    file = self._files[segment.key] = self._adopt(segment)
                file.use()
            except OSError as error:
                raise SegmentUnreadableError(f"cannot keep a local copy: {error.strerror}") from error
            handle = CachedFile(self, file, segment, meter, next(self._numbers))
            self._handles[handle.name] = handle
        return handle

    def forget(self, segment: SegmentRef) -> None:
        """Drop all blocks of an object; handles that are open read from the store."""
        with self._lock:
            self._drop(segment.key)

    def handle(self, name: str) -> CachedFile:
        """Return the open handle of this name."""
        with self._lock:
            return self._handles[name]

    def close_handle(self, handle: CachedFile, file: _BlockFile) -> None:
        with self._lock:
            del self._handles[handle.name]
            file.unuse()
            self._drop_empty(handle.segment.key, file)

    def start(self, file: _BlockFile, key: str, ranges: Iterable[Range], meter: FetchMeter) -> list[Flight]:
        """Ask for the blocks of these ranges that are not here; return what there is to wait for."""
        with self._lock:
            if file.is_dropped:
                return []
            wanted = _blocks_of(ranges, file)
            self._touch(key, file, wanted)
            absent = [block for block in wanted if not file.is_here(block)]
            flights = {id(flight): flight for b in absent if (flight := file.flights.get(b)) is not None}
            for first, end in runs([b for b in absent if b not in file.flights]):
                flight = self._request(file, key, first, end, meter)
                flights[id(flight)] = flight
        return list(flights.values())

    @contextmanager
    def reading(self, file: _BlockFile, span: Range) -> Iterator[bool]:
        """Keep the blocks of a range for as long as the block runs; False if one is not here."""
        first, end = span[0] // BLOCK, -(-span[1] // BLOCK)
        with self._lock:
            is_here = not file.is_dropped and bool(file.is_checked[first:end].all())
            is_here = is_here and bool(file.sums[first:end].all())
            file.readers += is_here
        try:
            yield is_here
        finally:
            with self._lock:
                file.readers -= is_here

    def _adopt(self, segment: SegmentRef) -> _BlockFile:
        """Open the file of an object, with the blocks that an earlier process left in it."""
        self._used_bytes -= self._used.pop((segment.key, UNOPENED), 0)
        file = _BlockFile(within(self._folder, segment.key), segment.bytes)
        for extent in range(-(-file.blocks // EXTENT_BLOCKS)):
            size = file.bytes_in(file.here_in(extent))
            if size:
                self._used[segment.key, extent] = size
                self._used_bytes += size
        return file

    def _request(self, file: _BlockFile, key: str, first: int, end: int, meter: FetchMeter) -> Flight:
        def landed(data: bytes | None) -> None:
            try:
                if data is not None:
                    self._keep(file, key, first, data)
            finally:
                with self._lock:
                    for block in mine:
                        del file.flights[block]
                    file.unuse()

        file.use()
        mine: list[int] = []
        flight = self.requests.start(key, first * BLOCK, min(end * BLOCK, file.size), meter, landed)
        mine += [block for block in range(first, end) if block not in file.flights]
        file.flights.update((block, flight) for block in mine)
        return flight

    def _keep(self, file: _BlockFile, key: str, first: int, data: bytes) -> None:
        """Write blocks to disk, then their checksums, then make room for them."""
        view = memoryview(data)
        sums = [_checksum(view[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
        with self._being_used(file):  # a hole made between bytes and checksums would be taken for blocks
            self._write(file, view, first * BLOCK)
            self._note(file, key, first, sums)
        with self._lock:
            self._shrink_to(self._budget)

    def _note(self, file: _BlockFile, key: str, first: int, sums: Sequence[int]) -> None:
        with self._lock:
            if file.is_dropped:
                return
            before = {block: bool(file.sums[block]) for block in range(first, first + len(sums))}
            file.note(first, sums)
            for block, was_here in before.items():
                if not was_here:
                    size = file.bytes_in([block])
                    extent = key, block // EXTENT_BLOCKS
                    self._used[extent] = self._used.get(extent, 0) + size
                    self._used_bytes += size

    @contextmanager
    def _being_used(self, file: _BlockFile) -> Iterator[None]:
        """Evict no blocks of the file while the block runs."""
        with self._lock:
            file.readers += 1
        try:
            yield
        finally:
            with self._lock:
                file.readers -= 1

    def _write(self, file: _BlockFile, data: memoryview, start: int) -> None:
        """Write; on a full disk halve the budget and try once more."""
        try:
            os.pwrite(file.descriptor, data, start)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
        else:
            return
        with self._lock:
            file.readers -= 1  # what was not written needs no care, and this may be the only file
            self._budget = min(self._budget, self._used_bytes) // 2
            self._shrink_to(self._budget)
            file.readers += 1
        try:
            os.pwrite(file.descriptor, data, start)
        except OSError as error:
            raise NoRoomError(error.strerror) from error

    def _touch(self, key: str, file: _BlockFile, blocks: Sequence[int]) -> None:
        for extent in {block // EXTENT_BLOCKS for block in blocks}:
            if (key, extent) in self._used:
                self._used.move_to_end((key, extent))
        os.utime(file.descriptor)  # the order of use survives a restart

    def _shrink_to(self, budget: int) -> None:
        """Evict what was not used for longest; what is being read stays."""
        for key, extent in list(self._used) if self._used_bytes > budget else ():
            if self._used_bytes <= budget:
                return
            file = self._files.get(key)
            if file is None:
                self._used_bytes -= self._used.pop((key, extent))
                within(self._folder, key).unlink(missing_ok=True)
            elif not file.readers:
                self._evict(key, file, extent)

    def _evict(self, key: str, file: _BlockFile, extent: int) -> None:
        first = extent * EXTENT_BLOCKS
        count = min(EXTENT_BLOCKS, file.blocks - first)
        with file.in_use():
            file.note(first, [0] * count)
            has_hole = _punch(file.descriptor, first * BLOCK, count * BLOCK)
        if has_hole:
            self._used_bytes -= self._used.pop((key, extent))
            self._drop_empty(key, file)
        else:
            self._drop(key)

    def _drop_empty(self, key: str, file: _BlockFile) -> None:
        """Remove a file without blocks that nobody has open."""
        if self._files.get(key) is file and file.descriptor < 0 and not file.sums.any():
            self._drop(key)

    def _drop(self, key: str) -> None:
        for extent in [each for each in self._used if each[0] == key]:
            self._used_bytes -= self._used.pop(extent)
        file = self._files.pop(key, None)
        if file is not None:
            file.is_dropped = True
        within(self._folder, key).unlink(missing_ok=True)

    def _list_files(self) -> None:
        """Take over the files of an earlier process, oldest use first."""
        found: list[tuple[float, str, int]] = []
        for path in self._folder.rglob("*"):
            if path.is_file():
                stat = path.stat()
                found.append((stat.st_mtime, path.relative_to(self._folder).as_posix(), stat.st_blocks * 512))
        self._used.update(((key, UNOPENED), size) for _used, key, size in sorted(found))
        self._used_bytes = sum(self._used.values())
        self._shrink_to(self._budget)


class CachedFile:
    """A segment of an object store, read through the cache."""

    def __init__(
        self, cache: BlockCache, file: _BlockFile, segment: SegmentRef, meter: FetchMeter, number: int
    ) -> None:
        self.segment = segment
        self.name = f"{SCHEME}:///{number}"
        self.failure: Exception | None = None
        self._cache = cache
        self._file = file
        self._meter = meter
        self._is_open = True

    @property
    def size(self) -> int:
        return self.segment.bytes

    def source(self) -> pa.NativeFile:
        return pa.PythonFile(Cursor(self), mode="r")

    def fetch(self, ranges: Iterable[Range]) -> None:
        for flight in self._start(ranges):
            try:
                self._cache.requests.wait(flight, self._meter)
            except NoRoomError:
                return  # `read` asks the store itself

    def fetch_ahead(self, ranges: Iterable[Range]) -> None:
        self._start(ranges)

    def read(self, start: int, length: int) -> bytes:
        end = start + length
        if start < 0 or end > self.segment.bytes:
            raise SegmentUnreadableError(f"the object ends before byte {end}, the index says otherwise")
        for _ in range(TRIES):
            with self._cache.reading(self._file, (start, end)) as is_here:
                if is_here:
                    return os.pread(self._file.descriptor, length, start)
            self.fetch([(start, end)])
        return self._cache.requests.get(self.segment.key, start, end, self._meter)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._cache.close_handle(self, self._file)

    def _start(self, ranges: Iterable[Range]) -> list[Flight]:
        return self._cache.start(self._file, self.segment.key, ranges, self._meter)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _blocks_of(ranges: Iterable[Range], file: _BlockFile) -> list[int]:
    """Return the blocks of these ranges in order; all of a small object."""
    if file.size < WHOLE_BELOW:
        return list(range(file.blocks))
    found: set[int] = set()
    for start, end in ranges:
        found.update(range(start // BLOCK, -(-min(end, file.size) // BLOCK)))
    return sorted(found)


def _checksum(data: bytes | memoryview) -> int:
    """Return a number that is never 0."""
    return xxhash.xxh3_64_intdigest(data) or 1


def _punch(descriptor: int, start: int, length: int) -> bool:
    """Give the space back; False where the file system cannot."""
    offset = ctypes.c_int64
    return bool(_libc.fallocate(descriptor, _PUNCH_HOLE, offset(start), offset(length)) == 0)
