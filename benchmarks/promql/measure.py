"""P10 and P11: the same questions over HTTP to all sides, answers compared, cold and hot."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.ingest.peers import binary
from benchmarks.promql.corpus import Corpus, Scale
from benchmarks.promql.fuzz_compare import Likeness, Tolerance, answer_of, likeness
from benchmarks.promql.lake import LakeWriter, admit
from benchmarks.promql.ours import SHOWN, Ours
from benchmarks.promql.peers import PROMETHEUS, VICTORIA, Peer
from benchmarks.promql.shapes import Shape, shapes
from benchmarks.report import Record
from benchmarks.tiers.scratch import scratch_server

SLOW_MS = 50.0
"""Shapes that the peer answers faster count by their absolute time."""
SETTLE_S = 300.0
TARGETS = {
    PROMETHEUS: ("P10", (3.0, 5.0, 5.0), (5.0, 15.0, 15.0)),
    VICTORIA: ("P11", (0.5, 1.0, 1.0), (1.0, 2.0, 2.0)),
}
"""Id, must and aim, each cold, hot and asked again."""
ABSOLUTE_MS = {"cold": (25.0, 10.0), "hot": (8.0, 4.0), "again": (8.0, 4.0)}
ANSWERS_MB = 64
"""What workers keep of answers where the same is asked again; in all other rounds they keep none."""


class Side(Protocol):
    name: str

    def restart(self) -> None: ...

    def resident_bytes(self) -> int: ...

    def cpu_ms(self) -> float: ...


@dataclass(slots=True)
class Times:
    """Milliseconds by side, of one shape."""

    cold: dict[str, list[float]] = field(default_factory=dict)
    hot: dict[str, list[float]] = field(default_factory=dict)
    again: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    """What all processes of a side took of the processors for a cold query: holds on a busy machine too."""


@dataclass(frozen=True, slots=True)
class Plan:
    scale: Scale
    hot_rounds: int
    cold_rounds: int


def measure(plan: Plan, programs: Path) -> list[Record]:
    with _running(plan.scale, programs) as (ours, peers, facts):
        asked = shapes(plan.scale)
        checked = {shape.name: _checked(shape, ours, peers) for shape in asked}
        times = {shape.name: Times() for shape in asked}
        ours.restart()
        idle = ours.proportional_bytes()
        for shape in asked:
            _hot(shape, ours, peers, plan.hot_rounds, times[shape.name].hot)
            print(f"hot {shape.name}: {_medians(times[shape.name].hot)} {checked[shape.name]}", flush=True)
        sides: list[Side] = [ours, *peers]
        resident = {side.name: side.resident_bytes() for side in sides}
        proportional = {"idle": idle, "after the hot rounds": ours.proportional_bytes()}
        ours.answers_mb = ANSWERS_MB
        ours.restart()
        for shape in asked:
            _hot(shape, ours, peers, plan.hot_rounds, times[shape.name].again)
            print(f"again {shape.name}: {_medians(times[shape.name].again)}", flush=True)
        ours.answers_mb = 0
        for _ in range(plan.cold_rounds):
            for shape in asked:
                _cold(shape, ours, peers, times[shape.name])
                took = times[shape.name]
                print(f"cold {shape.name}: {_medians(took.cold)}; CPU {_medians(took.cpu)}", flush=True)
    facts |= {"rss_mb": {name: round(size / 1e6) for name, size in resident.items()}}
    facts |= {"pss_mb": {name: round(size / 1e6) for name, size in proportional.items()}}
    return [
        record for peer in (PROMETHEUS, VICTORIA) for record in _records(peer, asked, times, checked, facts)
    ]


@contextmanager
def _running(scale: Scale, programs: Path) -> Iterator[tuple[Ours, list[Peer], dict[str, Any]]]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-promql-")))
        index, dsn = opened.enter_context(scratch_server())("promql")
        admit(index)
        peers = []
        for name in (PROMETHEUS, VICTORIA):
            if program := binary(programs, name):
                peers.append(Peer(name, program, folder / name))
                opened.callback(peers[-1].stop)
        (folder / "lake" / "rolling").mkdir(parents=True)
        writer = LakeWriter(folder / "lake", index)
        began = time.perf_counter()
        for hour in Corpus(scale).hours():
            writer.add(hour)
            series = list(hour.series())
            for peer in peers:
                for part in range(0, len(series), 500):
                    peer.send(series[part : part + 500])
        writer.finish()
        writer.roll_up()
        for peer in peers:
            settle(peer)
        facts = {
            "samples": writer.rows,
            "lake_bytes": writer.bytes,
            "load_s": round(time.perf_counter() - began),
        }
        print(f"loaded: {facts}", flush=True)
        ours = Ours(folder / "ours", folder / "lake", dsn)
        opened.callback(ours.stop)
        ours.start()
        yield ours, peers, facts


def settle(peer: Peer) -> None:
    """Until what it does in the background with what it got is over."""
    peer.settle()
    if peer.name != PROMETHEUS:
        time.sleep(2)
        return
    # it cuts blocks once a minute; a head of at most three hours is what it has in production
    peer.server.wait(
        lambda: peer.server.metric("prometheus_tsdb_head_max_time")
        - peer.server.metric("prometheus_tsdb_head_min_time") <= 3 * 3_600_000,
        SETTLE_S, "its blocks are cut",
    )  # fmt: skip


def _asks(ours: Ours, peers: Sequence[Peer], shape: Shape) -> dict[str, Callable[[], bytes]]:
    at = shape.query, shape.start_ms, shape.end_ms, shape.step_ms
    found: dict[str, Callable[[], bytes]] = {SHOWN: lambda: ours.apis[shape.org].raw(*at)}
    for peer in peers:
        if shape.for_victoria or peer.name != VICTORIA:
            found[peer.name] = lambda peer=peer: peer.api.raw(*at)  # type: ignore[misc]
    return found


def _checked(shape: Shape, ours: Ours, peers: Sequence[Peer]) -> dict[str, Any]:
    """Equal to Prometheus' answer; how far VictoriaMetrics' is, whose windows reach further back."""
    answers = {name: json.loads(ask()) for name, ask in _asks(ours, peers, shape).items()}
    failed = {
        name: str(answer.get("error"))[:300]
        for name, answer in answers.items()
        if answer["status"] != "success"
    }
    if failed:
        raise RuntimeError(f"{shape.name}: {failed}")
    mine = answer_of(answers[SHOWN])
    facts: dict[str, Any] = {"series": len(mine.series), "points": sum(map(len, mine.series.values()))}
    if not facts["points"]:
        raise RuntimeError(f"{shape.name}: the answer is empty")
    if PROMETHEUS in answers:
        found, why = likeness(mine, answer_of(answers[PROMETHEUS]), Tolerance(1e-9, 1e-9))
        if found is Likeness.DIFFERENT:
            raise RuntimeError(f"{shape.name}: {why}")
    if VICTORIA in answers:
        theirs = answer_of(answers[VICTORIA])
        facts["victoria_differs"] = _furthest(mine.series, theirs.series)
    return facts


def _furthest(mine: Mapping[Any, Mapping[float, Any]], theirs: Mapping[Any, Mapping[float, Any]]) -> float:
    """The median relative difference of the points that both have."""
    gaps = [
        abs(point - theirs[key][time]) / max(abs(point), 1e-300)
        for key, points in mine.items() if key in theirs
        for time, point in points.items() if time in theirs[key]
    ]  # fmt: skip
    return round(statistics.median(gaps), 6) if gaps else -1.0


def _hot(shape: Shape, ours: Ours, peers: Sequence[Peer], rounds: int, times: dict[str, list[float]]) -> None:
    asks = _asks(ours, peers, shape)
    for ask in asks.values():
        ask(), ask()
    for _ in range(rounds):
        for name, ask in asks.items():
            times.setdefault(name, []).append(_timed(ask))


def _cold(shape: Shape, ours: Ours, peers: Sequence[Peer], times: Times) -> None:
    sides: list[Side] = [ours, *(p for p in peers if shape.for_victoria or p.name != VICTORIA)]
    for side in sides:
        side.restart()
    _wake(ours, peers)
    for side, ask in zip(sides, _asks(ours, peers, shape).values(), strict=True):
        before = side.cpu_ms()
        times.cold.setdefault(side.name, []).append(_timed(ask))
        times.cpu.setdefault(side.name, []).append(side.cpu_ms() - before)


def _wake(ours: Ours, peers: Sequence[Peer]) -> None:
    """Connections and code paths, but none of the data."""
    for api in (*ours.apis.values(), *(peer.api for peer in peers)):
        api.raw("vector(1)", 0, 1000)


def _medians(of: Mapping[str, list[float]]) -> str:
    return ", ".join(f"{name} {statistics.median(times):.1f} ms" for name, times in of.items())


def _timed(ask: Callable[[], bytes]) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1000


def _records(
    peer: str,
    asked: Sequence[Shape],
    times: Mapping[str, Times],
    checked: Mapping[str, Any],
    facts: dict[str, Any],
) -> list[Record]:
    identity, musts, aims = TARGETS[peer]
    found = []
    for place, kind in enumerate(("cold", "hot", "again")):
        ratios, quick, lines = [], {}, {}
        for shape in asked:
            of = getattr(times[shape.name], kind)
            if peer not in of:
                continue
            mine, theirs = statistics.median(of[SHOWN]), statistics.median(of[peer])
            lines[shape.name] = (
                f"{mine:.1f} ms, {peer} {theirs:.1f} ms, ratio {theirs / mine:.2f}, best {min(of[SHOWN]):.1f}"
                f" / {min(of[peer]):.1f}, {checked[shape.name]}"
            )
            if kind == "cold":
                lines[shape.name] += f", CPU {_medians(times[shape.name].cpu)}"
            if theirs >= SLOW_MS:
                ratios.append(theirs / mine)
            else:
                quick[shape.name] = mine
        must, aim = musts[place], aims[place]
        what = (
            f"PromQL over HTTP against {peer}, {kind}, geometric mean of shapes it needs {SLOW_MS:.0f} ms for"
        )
        counters = {**lines, **facts, "load": round(os.getloadavg()[0], 2)}
        if ratios:
            mean = statistics.geometric_mean(ratios)
            found.append(
                Record(f"{identity}-{kind}", what, mean, "times", must, aim, mean >= must, peer, 1.0, mean,
                       counters=counters)
            )  # fmt: skip
        else:
            reason = "no such shape" if lines else f"no {peer}"
            found.append(
                Record(f"{identity}-{kind}", what, None, "times", must, aim, peer=peer, reason=reason,
                       counters=counters)
            )  # fmt: skip
        if peer == PROMETHEUS and quick:
            limit, wish = ABSOLUTE_MS[kind]
            worst, each = max(quick.values()), {name: round(one, 1) for name, one in quick.items()}
            found.append(
                Record(f"{identity}-{kind}-ms", f"the faster shapes, {kind}, slowest p50", worst, "ms", limit,
                       wish, worst <= limit, counters=each)
            )  # fmt: skip
    return found
