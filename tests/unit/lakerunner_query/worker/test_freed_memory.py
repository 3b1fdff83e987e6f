"""A reader keeps freed memory for the next query, and gives it back when it is idle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakerunner_query import worker_process
from resources.settings import Settings

_READER = """
import gc, os, threading
from pathlib import Path
import numpy as np
from lakerunner_query import worker_reader

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

assert worker_reader.retain_freed_memory()
worker_reader.MOST_TOUCHED = 16 << 20
before = resident_mib()
worker_reader.touch_memory(256 << 20)
kept = resident_mib() - before
worker_reader.IDLE_S = 0.5
ended = threading.Event()
waiting = threading.Thread(target=lambda: (worker_reader.await_idleness(), ended.set()), daemon=True)
waiting.start()
sum(range(20_000_000))
assert ended.wait(60)
worker_reader.return_freed_memory()
worker_reader.set_aside()
assert gc.get_freeze_count() > 100_000
print(kept, resident_mib() - before)
"""
_THREADS = """
import os, threading
from pathlib import Path
import numpy as np
import pyarrow as pa
from lakerunner_query import worker_reader

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

def run(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

run(lambda: bytes(1000))
worker_reader.retain_freed_memory()
run(lambda: worker_reader.touch_memory(128 << 20))
before = resident_mib()
kept = []
run(lambda: kept.append(np.ones(4 << 20)))
run(lambda: kept.append(pa.array(kept[0]).cast(pa.int64())))
print(resident_mib() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_an_idle_reader_gives_back_what_it_kept() -> None:
    done = subprocess.run([sys.executable, "-c", _READER], capture_output=True, text=True, check=True)
    kept, left = map(int, done.stdout.split())
    assert kept >= 250
    assert left < 64


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_arrays_of_all_threads_lie_in_the_memory_that_one_has_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.setattr(worker_process.subprocess, "Popen", lambda *_, env, **__: given.append(env))
    worker_process.Nursery()._start(Settings()).close()
    monkeypatch.undo()
    command = [sys.executable, "-c", _THREADS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=given[0])
    assert int(done.stdout) < 8
