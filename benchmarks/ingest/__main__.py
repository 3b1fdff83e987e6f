"""`python -m benchmarks.ingest [--quick] [--json OUT] [--only P1,P3] [--peers DIR] [--profile [SIGNAL]]`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ingest import files, logs, memory, metrics, peers, spans, stages, whole
from benchmarks.ingest.corpus.logs import loghub_logs, web_logs
from benchmarks.ingest.corpus.metrics import app_metrics
from benchmarks.ingest.corpus.spans import shop_spans
from benchmarks.ingest.corpus.twins import web_twins
from benchmarks.report import Record, tell
from resources.lake.layout import Signal
from resources.settings import MIB
from tests.support.corpora import CORPORA

LOGHUB = CORPORA / "loghub"
HOUR_STEPS = 240
DAY_STEPS = 5760


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    log_records: int
    file_records: int
    metric_steps: int
    spans: int
    hour_resources: int
    day_resources: int
    large_object_bytes: int
    rounds: int
    copies: int


QUICK = Size(90_000, 40_000, 100, 80_000, 10, 2, 256 * MIB, 3, 5)
FULL = Size(300_000, 150_000, HOUR_STEPS, 300_000, 40, 10, 2048 * MIB, 7, 6)
TASK_BYTES = 64 * MIB
Run = Callable[[], list[Record]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds: about two minutes")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--peers", type=Path, default=peers.DEFAULT_FOLDER, help="folder of their programs")
    parser.add_argument("--corpora", type=Path, default=LOGHUB, help="folder with real log lines, *.log")
    parser.add_argument("--only", default="", help="comma-separated targets, for instance P1,P8")
    parser.add_argument(
        "--profile", nargs="?", const="logs", choices=["logs", "metrics", "traces"],
        help="where our CPU time goes, instead of comparing",
    )  # fmt: skip
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    if options.profile:
        _profile(Signal(options.profile), size)
        return
    wanted = {name.strip() for name in options.only.split(",") if name.strip()}
    targets = _targets(size, options.peers, options.corpora)
    if unknown := wanted - targets.keys():
        parser.error(f"no target {sorted(unknown)}; there are {sorted(targets)}")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; peers from {options.peers}")
    records: list[Record] = []
    for target, run in targets.items():
        if not wanted or target in wanted:
            records += run()
    tell("ingest", records, options.json)


def _targets(size: Size, folder: Path, corpora: Path) -> dict[str, Run]:
    return {
        "P1": lambda: logs.measure_speed(web_logs(size.log_records), size.rounds, folder),
        "P2": lambda: whole.measure(web_logs(size.log_records), size.copies),
        "P3": lambda: metrics.measure_speed(app_metrics(size.metric_steps), size.rounds, folder),
        "P4": lambda: spans.measure(shop_spans(size.spans), size.rounds),
        "P5": lambda: files.measure(web_twins(size.file_records), size.rounds, folder),
        "P7": lambda: memory.measure(web_logs(30_000), TASK_BYTES, size.large_object_bytes),
        "P8": lambda: logs.measure_bytes(
            [web_logs(size.log_records), *filter(None, [loghub_logs(corpora)])], folder
        ),
        "P9": lambda: metrics.measure_bytes(
            app_metrics(HOUR_STEPS, size.hour_resources, histograms=False),
            app_metrics(DAY_STEPS, size.day_resources, histograms=False),
            folder,
        ),
    }


def _profile(signal: Signal, size: Size) -> None:
    corpora = {
        Signal.LOGS: lambda: web_logs(size.log_records),
        Signal.METRICS: lambda: app_metrics(size.metric_steps),
        Signal.TRACES: lambda: shop_spans(size.spans),
    }
    stages.show(signal, corpora[signal]())


if __name__ == "__main__":
    main()
