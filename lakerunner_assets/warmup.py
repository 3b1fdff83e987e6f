"""The warm-up compiles every kernel of ingest once, before the first object needs it.

`python -m lakerunner_assets.warmup` cooks, merges and rolls up small objects of every signal and format; the
compiled kernels are kept on disk. Part of `make setup`, and of `lakerunner up` when needed.
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
from lakerunner_assets.segments.merge.request import MergeKind, MergeRequest, Window
from lakerunner_assets.segments.merge.run import merge
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.spec import SignalSpec
from resources.kernel import count_compilations
from resources.lake.ddsketch import merged_quantiles
from resources.lake.frequency import MINUTE, TEN_SECONDS, rollup_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from resources.lake.signals import FACTS
from resources.lake.timecut import HOUR_NS

MOMENT_NS = 1_767_225_600_000_000_000
PROTOBUF = frozenset({"otlp", "push"})
"""Samples in protobuf; the others are text."""
ONE, NONE = np.ones(1), np.zeros(1, np.int64)


def warm() -> None:
    """Compile what is not on disk yet, in two processes that need different kernels.

    Logs in protobuf go first: they compile what all signals and formats share. Then one process reads the
    other signals in protobuf, and one reads text.
    """
    # spawned: a fork would inherit threads and locks of the caller
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        pool.submit(cook, [Signal.LOGS], is_text=False).result()
        parts = [
            pool.submit(cook, [Signal.TRACES, Signal.METRICS], is_text=False),
            pool.submit(cook, [Signal.LOGS, Signal.TRACES, Signal.METRICS], is_text=True),
        ]
        for part in parts:
            part.result()


def cook(signals: Sequence[Signal], *, is_text: bool) -> None:
    """Decode and write the samples of these signals, merge and roll them up; report kernels and seconds."""
    for signal in signals:
        started = time.monotonic()
        with count_compilations() as compilations, tempfile.TemporaryDirectory() as scratch:
            _cook(SIGNALS[signal], Path(scratch), is_text=is_text)
        words = f"ingest: {signal.value} as {'text' if is_text else 'protobuf'}"
        print(f"{words}: {compilations[0]} kernels in {time.monotonic() - started:.1f} s", flush=True)


def _cook(spec: SignalSpec, folder: Path, *, is_text: bool) -> None:
    written: list[Path] = []
    samples = ((name, data) for name, data in spec.warm_up_samples() if (name not in PROTOBUF) == is_text)
    for number, (name, data) in enumerate(samples):
        request = Request(name, Place(number, 0, MOMENT_NS), DecodeOptions(), 1 << 20)
        with open_payload(data, 1 << 20) as payload:
            tables = [part.table for part in decode(payload, request, spec.decoders())]
        path = folder / f"{number}.parquet"
        identity = SegmentIdentity("warm", "warm", spec.dataset, MOMENT_NS, "0" * 32)
        if sum(table.num_rows for table in tables):
            spec.write(tables, path, identity)
            written.append(path)
    if not written:
        return
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
    """Roll up to ten seconds and from there to the minute; then merge the rollups."""
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
    warm()
