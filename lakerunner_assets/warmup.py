"""Compiles every kernel once, so that the first object does not wait for it.

`python -m lakerunner_assets.warmup` cooks, merges and rolls up small objects of every signal and format, in
several processes; what that compiles is kept on disk for all later ones. Part of `make setup`, and of
`lakerunner up` when needed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.rollup.build import RollupRequest, roll_up
from lakerunner_assets.rollup.ddsketch import build
from lakerunner_assets.segments.file import SegmentIdentity
from lakerunner_assets.segments.merge.request import MergeKind, MergeRequest, Window
from lakerunner_assets.segments.merge.run import merge
from lakerunner_assets.signals import SIGNALS
from resources.kernel_cache import MARK, cache_folder
from resources.lake.ddsketch import merged_quantiles
from resources.lake.frequency import MINUTE, TEN_SECONDS, rollup_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from resources.lake.signals import FACTS
from resources.lake.timecut import HOUR_NS

PROCESSES = 2
MOMENT_NS = 1_767_225_600_000_000_000
ONE, NONE = np.ones(1), np.zeros(1, np.int64)


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
    """Decode and write the samples of one signal, then merge them; metrics are rolled up too."""
    spec = SIGNALS[Signal(signal)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        written: list[Path] = []
        for number, (name, data) in enumerate(spec.warm_up_samples()):
            request = Request(name, Place(number, 0, MOMENT_NS), DecodeOptions(), 1 << 20)
            with open_payload(data, 1 << 20) as payload:
                tables = [part.table for part in decode(payload, request, spec.decoders())]
            path = folder / f"{number}.parquet"
            identity = SegmentIdentity("warm", "warm", spec.dataset, MOMENT_NS, "0" * 32)
            if sum(table.num_rows for table in tables):
                spec.write(tables, path, identity)
                written.append(path)
        _merge(spec.merge_kind, written, folder / "merged", spec.dataset)
        if FACTS[spec.signal].rollups:
            _roll_up(written, folder)


def _merge(kind: MergeKind, sources: Sequence[Path], folder: Path, dataset: str) -> None:
    folder.mkdir()
    hour = Window(MOMENT_NS, HOUR_NS)
    merge(
        MergeRequest(
            kind,
            sources,
            folder,
            "warm",
            "warm",
            dataset,
            hour,
            (),
            1,
            1 << 30,
            64 << 20,
            lambda window, part: f"{window.start_ns}-{part}",
        )
    )


def _roll_up(samples: Sequence[Path], folder: Path) -> None:
    """To ten seconds and from there to the hour; then the rollups are merged."""
    sources = list(samples)
    for rollup in (rollup_of(TEN_SECONDS), rollup_of(MINUTE)):
        target = folder / rollup.label
        target.mkdir()
        rolled = roll_up(
            RollupRequest(
                sources,
                rollup.source_ms,
                rollup.frequency_ms,
                MOMENT_NS,
                HOUR_NS,
                target,
                "warm",
                "warm",
                rollup.dataset,
                1 << 30,
                64 << 20,
                str,
            )
        )
        sources = [each.path for each in rolled]
    _merge(MergeKind.ROLLUP, sources, folder / "sealed", rollup_of(MINUTE).dataset)
    sketches = build(ONE, ONE, NONE, pa.array([], pa.binary()), NONE[:0], 1)
    merged_quantiles(sketches, NONE, 1, [0.5])


if __name__ == "__main__":
    print(f"kernels compiled in {warm():.1f} s")
