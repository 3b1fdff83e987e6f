"""P5: JSON lines, CSV and Parquet to a segment, against VictoriaLogs' JSON lines of the same records."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.ingest import peers
from benchmarks.ingest.corpus import Corpus
from benchmarks.ingest.corpus.twins import Twins
from benchmarks.ingest.ours import cook, cpu_of
from benchmarks.ingest.peers import victoria_logs
from benchmarks.ingest.peers.victoria_logs import VictoriaLogs
from benchmarks.ingest.rounds import Contender, Target, compared, interleaved, missing
from benchmarks.report import Record
from lakerunner_assets.decode.errors import DecodeError
from resources.lake.layout import Signal

UNIT = "events/CPU-s"
MUST = 3
AIMS = {"json.gz": 5, "csv": 15, "parquet": 20}


def measure(twins: Twins, rounds: int, folder: Path) -> list[Record]:
    program = peers.binary(folder, victoria_logs.NAME)
    ours = {"json.gz": twins.json_gz, "csv": twins.csv, "parquet": twins.parquet}
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        contenders: dict[str, Contender] = {}
        unread: dict[str, str] = {}
        for ending, corpus in ours.items():
            try:
                written = cook(Signal.LOGS, corpus.objects, place, f"object.{ending}")
            except DecodeError as error:  # a format that this version does not take is a record, not a crash
                unread[ending] = str(error)
                continue
            if written.rows != corpus.rows:
                raise ValueError(f"{ending}: {written.rows} rows of {corpus.rows}")
            contenders[ending] = _ours(corpus, place, f"object.{ending}")
        if program is not None:
            contenders["plain"] = lambda: _peer_round(program, twins.json_lines, "")
            contenders["gzip"] = lambda: _peer_round(program, twins.json_gz, "gzip")
        rates = interleaved(contenders, twins.csv.rows, rounds)
    records = []
    for ending, corpus in ours.items():
        target = Target(
            f"P5-{ending}",
            f"{corpus.name} to a segment, against VictoriaLogs' JSON lines",
            MUST,
            AIMS[ending],
        )
        if ending in unread:
            records.append(missing(target, UNIT, unread[ending], victoria_logs.SHOWN))
            continue
        if program is None:
            reason = f"no {victoria_logs.NAME} in {folder}: see benchmarks/README.md"
            records.append(missing(target, UNIT, reason, victoria_logs.SHOWN, rates.median(ending)))
            continue
        counters = {"rows": corpus.rows, "raw_bytes": corpus.bytes, "peer_gzip": round(rates.median("gzip"))}
        peer = "gzip" if ending == "json.gz" else "plain"
        record = compared(target, rates, ending, peer, UNIT, counters)
        records.append(replace(record, peer=victoria_logs.SHOWN))
    return records


def _ours(corpus: Corpus, place: Path, name: str) -> Contender:
    return lambda: cpu_of(lambda: cook(Signal.LOGS, corpus.objects, place, name))


def _peer_round(program: Path, corpus: Corpus, encoding: str) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        peer = VictoriaLogs(program, Path(scratch) / "peer")
        with peer.server:
            before = peer.server.cpu_seconds()
            peer.send_json_lines(corpus.objects, encoding)
            peer.settle(corpus.rows)
            return peer.server.cpu_seconds() - before
