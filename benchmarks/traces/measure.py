"""Answers of both sides are compared, then timed in interleaved rounds, from disk and over object storage."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ingest.peers import binary
from benchmarks.logql.lake import KEY, admit
from benchmarks.logql.measure import asker
from benchmarks.object_store_site import DELAY_MS, MEGABYTES, Cold, Site, site
from benchmarks.promql.ours import SHOWN, Ours
from benchmarks.report import Record
from benchmarks.tiers.scratch import scratch_server
from benchmarks.traces.data import Loaded, lake_bytes, load
from benchmarks.traces.memory import measure_memory
from benchmarks.traces.questions import (
    BY_ID,
    FREQUENT,
    QUANTILE,
    RARE,
    RATE,
    STRUCTURE,
    Facts,
    Question,
    Values,
    questions,
)
from benchmarks.traces.tempo import TEMPO, Tempo, block_bytes, block_format
from resources.objects.store import open_store
from tests.support.s3_server import BUCKET

TARGETS = {
    BY_ID: (1.0, 3.0), RARE: (1.0, 5.0), FREQUENT: (1.0, 5.0), STRUCTURE: (1.0, 5.0), RATE: (2.0, 10.0),
    QUANTILE: (2.0, 10.0),
}  # fmt: skip
"""Must and aim: how many times as fast as Tempo."""
FROM_STORE = (1.0, 3.0)
BYTES, MEMORY = "span-bytes", "memory"
NAMES = (*TARGETS, BYTES, MEMORY)
WARM_UPS = 2
POLL_S = 60.0
NO_PEER = "no tempo to compare with"


@dataclass(frozen=True, slots=True)
class Plan:
    spans: int
    segments: int
    rounds: int
    large_trace: int
    is_stored: bool = False
    """Ask again over object storage."""


@dataclass(frozen=True, slots=True)
class Measured:
    question: Question
    times: Mapping[str, Sequence[float]]
    """Milliseconds by side."""
    facts: Mapping[str, object]


def measure(plan: Plan, kept: Path, folder: Path, programs: Path, only: set[str]) -> list[Record]:
    """Load both sides once, into `kept`; all else is written to `folder`."""
    program = binary(programs, TEMPO)
    records = []
    with ExitStack() as opened:
        database = opened.enter_context(scratch_server())
        if only & {*TARGETS, BYTES}:
            loaded = load(kept, plan.spans, plan.segments, program)
            print(f"loaded: {loaded.spans} spans, seconds {loaded.seconds}", flush=True)
            index, dsn = database("traces")
            admit(index)
            loaded.publish(index)
            asked = [one for one in questions(loaded) if one.target in only]
            with _running(loaded, folder, dsn, program) as (ours, tempo):
                measured = [_measured(one, ours, tempo, plan.rounds) for one in asked]
                memory = {SHOWN: _mb(ours.proportional_bytes())}
                memory |= {TEMPO: _mb(tempo.resident_bytes())} if tempo else {}
            records += [
                each for name, bounds in TARGETS.items() for each in _records(name, bounds, measured, memory)
            ]
            records += [_bytes(loaded)] if BYTES in only else []
            if plan.is_stored:
                records += _over_store(loaded, folder, dsn, programs, asked, plan.rounds)
        if MEMORY in only:
            index, dsn = database("memory")
            admit(index)
            records += measure_memory(folder, index, dsn, plan.large_trace)
    return records


@contextmanager
def _running(
    loaded: Loaded, folder: Path, dsn: str, program: Path | None
) -> Iterator[tuple[Ours, Tempo | None]]:
    with ExitStack() as opened:
        tempo = Tempo(program, loaded.folder / "tempo") if program else None
        if tempo:
            opened.callback(tempo.stop)
        ours = Ours(folder / "ours", loaded.lake, dsn)
        opened.callback(ours.stop)
        ours.start()
        yield ours, tempo


Asks = dict[str, list[Callable[[], bytes]]]


def _asks(question: Question, asked: Sequence[tuple[str, Values]], ours: Ours, tempo: Tempo | None) -> Asks:
    found = {SHOWN: _askers(ours.port, "/tempo/api", asked, {**question.headers, "Api-Key": KEY})}
    if tempo:
        found[TEMPO] = _askers(tempo.port, "/api", asked, question.headers)
    return found


def _askers(
    port: int, prefix: str, asked: Sequence[tuple[str, Values]], headers: Mapping[str, str]
) -> list[Callable[[], bytes]]:
    return [asker(port, prefix + path, values, headers) for path, values in asked]


def _measured(question: Question, ours: Ours, tempo: Tempo | None, rounds: int) -> Measured:
    found = _compare(question, ours, tempo)
    asks = _asks(question, question.asked, ours, tempo)
    times: dict[str, list[float]] = {name: [] for name in asks}
    for each in asks.values():
        for _ in range(WARM_UPS):
            for ask in each:
                ask()
    for _ in range(rounds):
        for name, each in asks.items():
            times[name] += [_ms(ask) for ask in each]
    facts = {"compared": found, "shown": len(question.facts(asks[SHOWN][0]()))}
    shown = ", ".join(f"{name} {_shown(each)}" for name, each in times.items())
    print(f"{question.name}: {shown}, {facts}", flush=True)
    return Measured(question, times, facts)


def _compare(question: Question, ours: Ours, tempo: Tempo | None) -> int:
    """Compare whole answers; return how many rows they have."""
    asks = _asks(question, question.compared, ours, tempo)
    rows = 0
    for number, ask in enumerate(asks[SHOWN]):
        mine = question.facts(ask())
        if not mine:
            raise RuntimeError(f"{question.name}: expected rows, found none")
        rows += len(mine)
        if tempo:
            _wait_equal(question, mine, asks[TEMPO][number])
    return rows


def _wait_equal(question: Question, mine: Facts, ask: Callable[[], bytes]) -> None:
    """Wait until the peer, which looks for its blocks from time to time, says the same."""
    deadline = time.monotonic() + POLL_S
    while (theirs := (question.tempo_facts or question.facts)(ask())) != mine:
        if theirs or time.monotonic() > deadline:
            raise RuntimeError(f"{question.name}, {TEMPO} against us: {_difference(theirs, mine)}")
        time.sleep(0.5)


def _difference(theirs: Facts, mine: Facts) -> str:
    differ = [
        (key, theirs[key], mine[key]) for key in theirs.keys() & mine.keys() if theirs[key] != mine[key]
    ]
    return (
        f"{len(theirs)} and {len(mine)} rows, only there {sorted(theirs.keys() - mine.keys())[:3]!r:.300}, "
        f"only here {sorted(mine.keys() - theirs.keys())[:3]!r:.300}, "
        f"{len(differ)} differ: {differ[:2]!r:.600}"
    )


def _records(
    name: str, bounds: tuple[float, float], measured: Sequence[Measured], memory: Mapping[str, int]
) -> list[Record]:
    mine = [one for one in measured if one.question.target == name]
    if not mine:
        return []
    what = f"{', '.join(one.question.name for one in mine)}, hot"
    records = [_ratio(name, what, bounds, mine, {"memory_mb": memory})]
    if name == BY_ID:
        p50 = statistics.median(mine[0].times[SHOWN])
        records.append(Record(f"{name}-ms", "p50", p50, "ms", aim=15.0))
    return records


def _ratio(
    name: str,
    what: str,
    bounds: tuple[float, float],
    measured: Sequence[Measured],
    more: Mapping[str, object],
) -> Record:
    must, aim = bounds
    lines: dict[str, Any] = {one.question.name: _line(one) for one in measured}
    counters = lines | dict(more) | {"load": round(os.getloadavg()[0], 2)}
    if any(TEMPO not in one.times for one in measured):
        return Record(name, what, None, "times", must, aim, peer=TEMPO, reason=NO_PEER, counters=counters)
    ratios = [statistics.median(one.times[TEMPO]) / statistics.median(one.times[SHOWN]) for one in measured]
    mean = statistics.geometric_mean(ratios)
    return Record(name, what, mean, "times", must, aim, mean >= must, TEMPO, 1.0, mean, counters=counters)


def _line(one: Measured) -> str:
    times = ", ".join(f"{name} {_shown(each)}" for name, each in one.times.items())
    return f"{times}, {', '.join(f'{name} {value}' for name, value in one.facts.items())}"


def _bytes(loaded: Loaded) -> Record:
    segments = loaded.segments()
    mine = lake_bytes(segments)
    counters: dict[str, Any] = {"bytes_per_span": round(mine / loaded.spans, 1), "segments": len(segments)}
    what = "span bytes on disk"
    if not loaded.blocks.is_dir():
        return Record(BYTES, what, None, "times", 1.0, 0.8, reason=NO_PEER, counters=counters)
    theirs = block_bytes(loaded.blocks)
    counters |= {"theirs_per_span": round(theirs / loaded.spans, 1), "format": block_format(loaded.blocks)}
    ratio = mine / theirs
    return Record(
        BYTES, what, ratio, "times", 1.0, 0.8, ratio <= 1.0, TEMPO, theirs, ratio, counters=counters
    )


def _over_store(
    loaded: Loaded, folder: Path, dsn: str, programs: Path, asked: Sequence[Question], rounds: int
) -> list[Record]:
    """Ask again with all objects behind a proxy: ours with empty disks and again, Tempo as it is."""
    with ExitStack() as opened:
        place = opened.enter_context(site(folder / "store", programs))
        lake = place.lake("traces")
        for path in loaded.lake.rglob("*.parquet"):
            copy = lake / path.relative_to(loaded.lake)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        settings = place.publish(lake)
        program = binary(programs, TEMPO)
        tempo = _stored_tempo(loaded, place, program) if program else None
        if tempo:
            opened.callback(tempo.stop)
        ours = Ours(folder / "ours-stored", lake, dsn, store=settings)
        opened.callback(ours.stop)
        ours.start()
        records = []
        for question in asked:
            cold, again, counts = _stored(question, Cold(ours), tempo, place, max(2, rounds // 3))
            times = {name: statistics.median(each) for name, each in again.times.items()}
            more = {
                "again": {name: round(value) for name, value in times.items()},
                "requests": counts, "store": f"{place.kind}, {DELAY_MS} ms, {MEGABYTES} MB/s a connection",
            }  # fmt: skip
            name = f"s3-{question.target}"
            records.append(_ratio(name, f"{question.name}, cold", FROM_STORE, [cold], more))
            print(f"{name}: {_line(cold)}; again {_line(again)}; {counts}", flush=True)
        return records


def _stored_tempo(loaded: Loaded, place: Site, program: Path) -> Tempo:
    """Start a Tempo whose blocks lie in the bucket."""
    store = open_store(f"s3://{BUCKET}/{TEMPO}", place.server)
    for path in sorted(loaded.blocks.rglob("*")):
        if path.is_file():
            store.put(path.relative_to(loaded.blocks).as_posix(), path)
    address = place.proxy.url.partition("//")[2]
    return Tempo(program, place.folder / TEMPO, BUCKET, address)


def _stored(
    question: Question, cold: Cold, tempo: Tempo | None, place: Site, rounds: int
) -> tuple[Measured, Measured, dict[str, str]]:
    first: dict[str, list[float]] = {}
    again: dict[str, list[float]] = {}
    counts: dict[str, str] = {}
    _compare(question, cold.ours, tempo)
    for number in range(rounds):
        cold.restart()
        asked = [question.asked[number % len(question.asked)]]
        for name, (ask,) in _asks(question, asked, cold.ours, tempo).items():
            place.proxy.take_counts()
            first.setdefault(name, []).append(_ms(ask))
            taken = place.proxy.take_counts()
            counts[name] = f"{taken.gets()} GETs, {taken.bytes_read() / 1e6:.2f} MB"
            again.setdefault(name, []).append(_ms(ask))
    return Measured(question, first, {}), Measured(question, again, {}), counts


def _ms(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def _shown(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.1f} ms (best {min(times):.1f})"


def _mb(count: int) -> int:
    return round(count / 1e6)
