"""P3 and P9: OTLP metrics to a segment, against VictoriaMetrics.

A data point is a row of ours; a histogram's buckets, count and sum are series of their own over there. CPU
time is divided by data points on both sides. Bytes per sample are taken from gauges and counters only, where
a data point is a sample on both sides.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.ingest import peers
from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.ours import cook, cpu_of
from benchmarks.ingest.peers import prometheus, victoria_metrics
from benchmarks.ingest.peers.victoria_metrics import VictoriaMetrics
from benchmarks.ingest.rounds import Contender, Target, compared, interleaved, missing, smaller
from benchmarks.report import Record
from resources.lake.layout import Signal

OURS = "Lakerunner"
UNIT = "datapoints/CPU-s"
SPEED = Target("P3", "OTLP metrics to a segment, against VictoriaMetrics", 0.3, 1)
NO_ROLLUPS = "rollup rows are written by a later tier and are not in this figure"


def measure_speed(corpus: Corpus, rounds: int, folder: Path) -> list[Record]:
    """P3."""
    program = peers.binary(folder, victoria_metrics.NAME)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        written = cook(Signal.METRICS, corpus.objects, place)
        if written.rows != corpus.rows:
            raise ValueError(f"{written.rows} rows of {corpus.rows} data points")
        contenders: dict[str, Contender] = {
            OURS: lambda: cpu_of(lambda: cook(Signal.METRICS, corpus.objects, place))
        }
        if program is not None:
            contenders[victoria_metrics.SHOWN] = lambda: _peer_round(program, corpus)
        rates = interleaved(contenders, corpus.rows, rounds)
    counters = {
        "datapoints": corpus.rows, "samples_over_there": corpus.samples, "raw_bytes": corpus.bytes,
        "bytes_per_datapoint": round(written.bytes / written.rows, 2), "note": NO_ROLLUPS,
    }  # fmt: skip
    if program is None:
        reason = f"no {victoria_metrics.NAME} in {folder}: see benchmarks/README.md"
        return [missing(SPEED, UNIT, reason, victoria_metrics.SHOWN, rates.median(OURS))]
    return [compared(SPEED, rates, OURS, victoria_metrics.SHOWN, UNIT, counters)]


def _peer_round(program: Path, corpus: Corpus) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        peer = VictoriaMetrics(program, Path(scratch) / "peer")
        with peer.server:
            before = peer.server.cpu_seconds()
            peer.send_otlp(corpus.objects)
            peer.settle(corpus.samples)
            return peer.server.cpu_seconds() - before


def measure_bytes(hour: Corpus, day: Corpus, folder: Path) -> list[Record]:
    """P9: the segment of an hour, and one of a whole day as sealing leaves it."""
    program = peers.binary(folder, victoria_metrics.NAME)
    records = []
    for identity, corpus in (("P9-hour", hour), ("P9", day)):
        with tempfile.TemporaryDirectory() as scratch:
            ours = cook(Signal.METRICS, corpus.objects, Path(scratch))
            value = ours.bytes / ours.rows
            span = "a day" if identity == "P9" else "an hour"
            target = Target(identity, f"metric bytes per sample, {span}, against VictoriaMetrics", 1.2, 0.95)
            if program is None:
                reason = f"no {victoria_metrics.NAME} in {folder}: see benchmarks/README.md"
                records.append(missing(target, "B/sample", reason, victoria_metrics.SHOWN, value))
                records += _against_prometheus(identity, corpus, value, folder)
                continue
            peer = VictoriaMetrics(program, Path(scratch) / "peer")
            with peer.server:
                peer.send_otlp(corpus.objects)
                peer.settle(corpus.samples)
                theirs = peer.bytes_on_disk() / corpus.samples
            counters = {"samples": corpus.rows}
            records.append(smaller(target, value, victoria_metrics.SHOWN, theirs, "B/sample", counters))
        records += _against_prometheus(identity, corpus, value, folder)
    return records


def _against_prometheus(identity: str, corpus: Corpus, value: float, folder: Path) -> list[Record]:
    """The day only: an hour is no block of its own there."""
    if identity != "P9":
        return []
    target = Target("P9-prometheus", "metric bytes per sample, a day, against Prometheus", 0.4, 0.27)
    program = peers.binary(folder, prometheus.NAME)
    if program is None:
        reason = f"no {prometheus.NAME} in {folder}: see benchmarks/README.md"
        return [missing(target, "B/sample", reason, prometheus.SHOWN, value)]
    with tempfile.TemporaryDirectory() as scratch:
        theirs = prometheus.block_bytes(program, corpus, Path(scratch)) / corpus.samples
    counters = {"samples": corpus.rows, "note": "blocks of two hours, as promtool writes them"}
    return [smaller(target, value, prometheus.SHOWN, theirs, "B/sample", counters)]
