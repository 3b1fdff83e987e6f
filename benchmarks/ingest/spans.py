"""P4: spans to a sorted segment with every index, absolute."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.ours import cook, cpu_of
from benchmarks.ingest.rounds import interleaved
from benchmarks.report import Record
from resources.lake.layout import Signal

MUST, AIM = 400_000, 900_000


def measure(corpus: Corpus, rounds: int) -> list[Record]:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        written = cook(Signal.TRACES, corpus.objects, place)
        if written.rows != corpus.rows:
            raise ValueError(f"{written.rows} rows of {corpus.rows} spans")
        rates = interleaved(
            {"ours": lambda: cpu_of(lambda: cook(Signal.TRACES, corpus.objects, place))}, corpus.rows, rounds
        )
    value = rates.median("ours")
    counters = {
        "best": round(rates.best("ours")), "rounds": rounds, "load": round(os.getloadavg()[0], 2),
        "rows": corpus.rows, "raw_bytes": corpus.bytes,
        "bytes_per_span": round(written.bytes / written.rows, 1),
    }  # fmt: skip
    what = "OTLP spans to a sorted segment"
    return [
        Record(
            "P4", what, value, "spans/CPU-s", must=MUST, aim=AIM, ok=value >= MUST, counters=counters
        )
    ]  # fmt: skip
