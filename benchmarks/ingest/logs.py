"""P1 and P8: OTLP logs to a sorted segment with every index, against VictoriaLogs and Loki.

A peer starts empty in every round, takes the same objects in the same order over HTTP, and its CPU time is
counted from the first byte until all rows are found and lie on disk. Merging later in the background is left
out, which favours the peers. Ours is counted from the first byte to the closed file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.ingest import peers
from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.ours import compacted_logs, cook, cpu_of
from benchmarks.ingest.peers import loki, victoria_logs
from benchmarks.ingest.peers.server import Server
from benchmarks.ingest.rounds import Contender, Target, compared, interleaved, missing, smaller
from benchmarks.report import Record
from resources.lake.layout import Signal

OURS = "Lakerunner"
UNIT = "events/CPU-s"


class LogPeer(Protocol):
    server: Server

    def send_otlp(self, objects: tuple[bytes, ...]) -> None: ...
    def settle(self, rows: int) -> None: ...
    def bytes_on_disk(self) -> int: ...


Start = Callable[[Path, Path], LogPeer]
PEERS: tuple[tuple[str, str, Start, Target, tuple[float, float]], ...] = (
    (
        victoria_logs.NAME,
        victoria_logs.SHOWN,
        victoria_logs.VictoriaLogs,
        Target("P1", "OTLP logs to a sorted segment, against VictoriaLogs", 4, 8),
        (0.9, 0.7),
    ),
    (
        loki.NAME,
        loki.SHOWN,
        loki.Loki,
        Target("P1-loki", "OTLP logs to a sorted segment, against Loki", 10, 18),
        (0.75, 0.6),
    ),
)


def measure_speed(corpus: Corpus, rounds: int, folder: Path) -> list[Record]:
    """P1."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        cook(Signal.LOGS, corpus.objects, place)  # loads the kernels
        written = cook(Signal.LOGS, corpus.objects, place)
        if written.rows != corpus.rows:
            raise ValueError(f"{written.rows} rows of {corpus.rows}")
        contenders: dict[str, Contender] = {
            OURS: lambda: cpu_of(lambda: cook(Signal.LOGS, corpus.objects, place))
        }
        for name, shown, start, _, _ in PEERS:
            program = peers.binary(folder, name)
            if program is not None:
                contenders[shown] = partial(_peer_round, start, program, corpus)
        rates = interleaved(contenders, corpus.rows, rounds)
    counters = {"rows": corpus.rows, "raw_bytes": corpus.bytes, "row_groups": written.row_groups}
    records = []
    for name, shown, _, target, _ in PEERS:
        if shown in contenders:
            records.append(compared(target, rates, OURS, shown, UNIT, counters))
        else:
            records.append(missing(target, UNIT, _absent(name, folder), shown, rates.median(OURS)))
    return records


def _peer_round(start: Start, program: Path, corpus: Corpus) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        peer = start(program, Path(scratch) / "peer")
        with peer.server:
            before = peer.server.cpu_seconds()
            peer.send_otlp(corpus.objects)
            peer.settle(corpus.rows)
            return peer.server.cpu_seconds() - before


def measure_bytes(corpora: list[Corpus], folder: Path) -> list[Record]:
    """P8, a record per corpus and peer."""
    records = []
    for corpus in corpora:
        with tempfile.TemporaryDirectory() as scratch:
            ours = cook(Signal.LOGS, corpus.objects, Path(scratch))
            value = ours.bytes / ours.rows
            compacted = compacted_logs(Path(scratch)) / ours.rows
            for name, shown, start, _, (must, aim) in PEERS:
                what = f"log bytes per event with every index, {corpus.name} corpus, against {shown}"
                target = Target(_bytes_id(name, corpus), what, must, aim)
                program = peers.binary(folder, name)
                if program is None:
                    records.append(missing(target, "B/event", _absent(name, folder), shown, value))
                    continue
                theirs = _peer_bytes(start, program, corpus, Path(scratch) / name)
                counters = {"rows": corpus.rows, "raw_bytes_per_event": round(corpus.bytes / corpus.rows)}
                records.append(smaller(target, value, shown, theirs / corpus.rows, "B/event", counters))
                stays = replace(target, id=f"{target.id}-compacted", what=f"{what}, compacted")
                records.append(smaller(stays, compacted, shown, theirs / corpus.rows, "B/event", counters))
    return records


def _bytes_id(peer: str, corpus: Corpus) -> str:
    parts = ["P8", *(["loki"] if peer == loki.NAME else []), *([corpus.name] if corpus.name != "web" else [])]
    return "-".join(parts)


def _peer_bytes(start: Start, program: Path, corpus: Corpus, place: Path) -> int:
    peer = start(program, place)
    with peer.server:
        peer.send_otlp(corpus.objects)
        peer.settle(corpus.rows)
        return peer.bytes_on_disk()


def _absent(name: str, folder: Path) -> str:
    return f"no {name} in {folder}: see benchmarks/README.md"
