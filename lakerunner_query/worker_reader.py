"""The reader process of a worker opens readers and caches, warms up, and runs units.

The front (`worker_app.py`) starts it, hands it sockets, watches it, and kills it when a unit cannot be
stopped. It ends when the front goes away.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from lakerunner_query.protocol.frames import PID, ToReader, Warm
from lakerunner_query.warmup import preload
from lakerunner_query.worker.logs.segment_opener import SegmentOpener
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.lake_filesystem import LakeFileSystem
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace, folder_of
from lakerunner_query.worker.unit_server import UnitServer, lower_priority
from lakerunner_query.worker.units import AnswerCache, Readers
from resources.duckdb import DuckLimits, DuckSession
from resources.objects.client import ObjectStore
from resources.objects.store import open_store, render_store_metrics
from resources.settings import Settings

TOUCHED_SHARE = 16
MOST_TOUCHED = 64 << 20
"""A worker touches this part of its memory before it is ready, at most what a small query needs."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Options of `mallopt` in the GNU C library."""
RETAINED_BYTES = 512 << 20
"""Free memory at the end of the heap that is not given back."""
LARGEST_RETAINED = 1 << 30
"""Larger arrays go back to the system as soon as they are free."""
IDLE_S, IDLE_CPU_SHARE = 60.0, 0.01
"""A process that takes less than this part of a core for so long is idle, and gives freed memory back."""
PAGE = 4096
MOST_SOCKETS = 250
HELPERS_YIELD = 5
"""Niceness of threads of DuckDB that help every unit: a large one has more of them than a small one."""
SWITCH_S = 0.001
"""Seconds for which a thread may hold the interpreter's lock while another one waits for it."""
FETCH_S = 15.0
"""Longest request to the object store: ranges have 8 MiB at most, and a lost one is asked for again."""
DIE_WITH_PARENT = 1
"""Option of `prctl` in Linux."""
_log = logging.getLogger(__name__)


def open_reader(settings: Settings, control: socket.socket) -> tuple[UnitServer, DuckSession]:
    timeout_s = min(settings.store_timeout_s, FETCH_S)
    store = open_store(settings.require("lake_url"), replace(settings, store_timeout_s=timeout_s))
    # two workers of one machine share a data directory, never a cache
    home = settings.data_dir / "query-worker" / str(settings.worker_port)
    if (home / "spill").exists():  # left behind by a process that was killed
        shutil.rmtree(home / "spill")
    lake = folder_of(settings.lake_url) if isinstance(store, ObjectStore) else None
    blocks = BlockCache(home / "blocks", settings.cache_max_bytes, store)
    limits = DuckLimits(
        settings.worker_memory_mb,
        settings.worker_threads,
        home / "spill",
        () if lake is None else (lake,),
        LakeFileSystem(blocks.handle),
        keeps_footers=lake is not None,  # names of open files elsewhere are never used again
    )
    before = _thread_ids()
    session = DuckSession(limits)
    for helper in _thread_ids() - before:
        lower_priority(helper, HELPERS_YIELD)
    segments = blocks if lake is None else SegmentsInPlace(lake)
    most_bytes, most_requests = settings.query_max_fetch_bytes, settings.query_max_fetch_requests
    logs = SegmentOpener(segments, max_bytes=most_bytes, max_requests=most_requests)
    opener = MetricOpener(
        segments, settings.worker_memory_mb * 1024 * 1024 // 3,
        max_bytes=most_bytes, max_requests=most_requests,
    )  # fmt: skip
    answers = AnswerCache(settings.worker_answers_mb * 1024 * 1024)
    readers = Readers.of(logs, opener, session)
    return UnitServer(readers, answers, blocks, control, render_store_metrics), session


def _thread_ids() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/task").iterdir()}


def serve_units(settings: Settings, control: socket.socket, slots: Sequence[socket.socket]) -> None:
    """Run units until the front closes its end."""
    server, session = open_reader(settings, control)
    server.open(slots)
    threading.Thread(target=_warm_up, args=(server, settings.worker_memory_mb), daemon=True).start()
    with control.makefile("rb") as messages:
        for text in messages:
            server.obey(msgspec.json.decode(text, type=ToReader))
    for cancellation in list(server.running.values()):
        cancellation.cancel()
    session.close()


def retain_freed_memory() -> bool:
    """Make the C library keep freed arrays, before threads start; False where it has no such option.

    The first touch of a page costs microseconds, on a virtual machine more than decoding the samples that it
    then holds. By default the C library gives large arrays back, and the next query pays again.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, LARGEST_RETAINED), (_TRIM_THRESHOLD, RETAINED_BYTES))
    return all(mallopt(option, value) == 1 for option, value in options)


def touch_memory(size: int) -> None:
    """Allocate and free memory, every page of it touched: the first queries find it in the heap."""
    np.empty(size, np.uint8)[::PAGE] = 0


def _warm_up(server: UnitServer, memory_mb: int) -> None:
    clock = server.clocks.begin()
    touch_memory(min(MOST_TOUCHED, (memory_mb << 20) // TOUCHED_SHARE))
    preload()
    set_aside()
    server.clocks.end(clock)
    server.tell(Warm())
    while True:
        await_idleness()
        return_freed_memory()


def set_aside() -> None:
    """Keep the collector of garbage from objects that stay.

    Looking at all of them takes longer than a query.
    """
    gc.collect()
    gc.freeze()


def await_idleness() -> None:
    """Return after a time in which the process did hardly anything, with something done before it."""
    is_idle, was_busy = False, False
    while not (is_idle and was_busy):
        was_busy |= not is_idle
        before = time.process_time()
        time.sleep(IDLE_S)
        is_idle = time.process_time() - before < IDLE_S * IDLE_CPU_SHARE


def return_freed_memory() -> None:
    """Give freed memory back to the system, but what the next small query needs."""
    pool = pa.default_memory_pool()
    if pool.backend_name != "system":  # that is the C library's heap, of which it would give back everything
        pool.release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(MOST_TOUCHED))


def _die_with_parent() -> None:
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(DIE_WITH_PARENT, signal.SIGKILL)


def main() -> None:
    """Fork a reader for each message on the socket whose number is the argument.

    What a reader imports takes seconds: this process imports it once and does nothing else, so that a reader
    that was killed is replaced within a moment. Pages that neither writes to are shared.
    """
    _die_with_parent()
    for each_signal in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each_signal, signal.SIG_IGN)  # the front decides when it ends
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for readers: the system forgets them
    settings = Settings.load()
    logging.basicConfig(level=settings.log_level.upper())
    import_module("pandas")  # DuckDB wants it
    gc.freeze()
    orders = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, numbers, _, _ = socket.recv_fds(orders, 1, MOST_SOCKETS)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            orders.close()
            _run(settings, [socket.socket(fileno=each) for each in numbers])
        for each in numbers:
            os.close(each)
        orders.sendall(PID.pack(pid))


def _run(settings: Settings, sockets: Sequence[socket.socket]) -> None:
    """Be a reader; never return."""
    code = 1
    try:
        _die_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        retain_freed_memory()
        sys.setswitchinterval(SWITCH_S)
        serve_units(settings, sockets[0], sockets[1:])
        code = 0
    except Exception:  # noqa: BLE001 - it ends here, not in the process that forked it
        _log.exception("the reader process ends")
    finally:
        sys.stderr.flush()
        os._exit(code)  # threads may be busy for long


if __name__ == "__main__":
    main()
