"""CPU time of a process has what its threads took that have ended since."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.promql.peers import cpu_ms

BURN = """
import threading, time
def burn():
    while time.thread_time() < 0.2: pass
thread = threading.Thread(target=burn)
thread.start()
thread.join()
print("burnt", flush=True)
input()
"""


def test_threads_that_ended_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "burnt\n"
        assert cpu_ms(process.pid) >= 200
        process.kill()


def test_a_process_that_is_gone_is_an_error() -> None:
    with pytest.raises(ProcessLookupError):
        cpu_ms(2**22 + 1)
