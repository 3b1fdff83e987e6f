"""Compiles every kernel once, so that the first object does not wait for it.

`python -m lakerunner_assets.warm` cooks small objects of every signal and format, two at a time; what that
compiles is kept on disk for all later processes. Part of `make setup`, and of `lakerunner up` when needed.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from lakerunner_assets.decode.door import Request, decode
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.decode.result import DecodeOptions, Place
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.warm_samples import SAMPLES
from resources.kept import MARK, cache_folder
from resources.lake.layout import Signal

PROCESSES = 2
MOMENT_NS = 1_767_225_600_000_000_000


def warm() -> float:
    """Compile what is not kept yet; the seconds it took."""
    started = time.monotonic()
    # spawned: a fork would inherit threads and locks of whoever asked
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for _ in pool.map(cook, [signal.value for signal in Signal]):
            pass
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    return time.monotonic() - started


def cook(signal: str) -> None:
    """Decode and write the samples of one signal."""
    spec = SIGNALS[Signal(signal)]
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, data) in enumerate(SAMPLES[spec.signal]()):
            request = Request(name, Place(number, 0, MOMENT_NS), DecodeOptions(), 1 << 20)
            with open_payload(data, 1 << 20) as payload:
                tables = [part.table for part in decode(payload, request, spec.decoders())]
            path = Path(scratch) / f"{number}.parquet"
            spec.write(tables, path, SegmentIdentity("warm", "warm", spec.dataset, MOMENT_NS, "0" * 32))


if __name__ == "__main__":
    print(f"kernels compiled in {warm():.1f} s")
