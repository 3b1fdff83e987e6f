"""P13 to P16 over HTTP: the same rows and questions for all sides, answers compared, rounds interleaved."""

from __future__ import annotations

import http.client
import json
import os
import statistics
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.ingest.peers import binary
from benchmarks.logql.corpus import START_NS, parts
from benchmarks.logql.lake import KEY, LakeWriter, admit
from benchmarks.logql.peers import LOKI, VICTORIA, Loki, Peer, Victoria
from benchmarks.logql.questions import END_NS, Question, questions
from benchmarks.promql.ours import SHOWN, Ours
from benchmarks.report import Record
from benchmarks.tiers.scratch import scratch_server

Ask = Callable[[], bytes]
WARM_UPS = 2
TARGETS = {
    ("P13", VICTORIA): (3.0, 5.0), ("P13", LOKI): (20.0, 40.0),
    ("P14", VICTORIA): (0.3, 1.0),
    ("P15", VICTORIA): (1.0, 3.0),
    ("P16", VICTORIA): (1.0, 10.0), ("P16", LOKI): (3.0, 30.0),
}  # fmt: skip
"""Must and aim: how many times as fast as the peer."""
WHAT = {
    "P13": "log counts by service, level, minute",
    "P14": "unique or absent word or trace id",
    "P15": "substring and regex, counted",
    "P16": "last 100 matches",
}


@dataclass(frozen=True, slots=True)
class Plan:
    rows: int
    segments: int
    rounds: int
    with_loki: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    question: Question
    times: Mapping[str, Sequence[float]]
    counters: Mapping[str, Any]


def measure(plan: Plan, programs: Path, only: set[str]) -> list[Record]:
    with _running(plan, programs) as (ours, peers, needles, facts):
        asked = [one for one in questions(*needles) if not only or one.target in only]
        measured = [_measured(one, ours, peers, plan.rounds) for one in asked]
        facts["rss_mb"] = {SHOWN: round(ours.resident_bytes() / 1e6)} | {
            peer.name: round(peer.resident_bytes() / 1e6) for peer in peers
        }
    return [record for target in WHAT for record in _records(target, measured, facts)]


@contextmanager
def _running(
    plan: Plan, programs: Path
) -> Iterator[tuple[Ours, list[Peer], tuple[str, str], dict[str, Any]]]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="lakerunner-logql-")))
        index, dsn = opened.enter_context(scratch_server())("logql")
        admit(index)
        peers: list[Peer] = []
        for name, kind in ((VICTORIA, Victoria), (LOKI, Loki)):
            program = binary(programs, name)
            if program and (plan.with_loki or name != LOKI):
                peers.append(kind(program, folder / name))
                opened.callback(peers[-1].stop)
        writer = LakeWriter(folder / "lake", index)
        seconds = dict.fromkeys([SHOWN, *(peer.name for peer in peers)], 0.0)
        needles = ("", "")
        for number, part in enumerate(parts(plan.rows, plan.segments)):
            seconds[SHOWN] += _seconds(lambda part=part: writer.add(part))  # type: ignore[misc]
            for peer in peers:
                seconds[peer.name] += _seconds(lambda part=part, peer=peer: peer.send(part))  # type: ignore[misc]
            if number == plan.segments // 2:
                row = len(part.tsns) // 3
                needles = part.trace_ids[row].as_py(), part.message[row].as_py().rsplit("=", 1)[1]
        for peer in peers:
            peer.settle(plan.rows)
        facts = {
            "rows": writer.rows,
            "segments": writer.segments,
            "lake_bytes": writer.bytes,
            "load_s": {name: round(each) for name, each in seconds.items()},
        }
        print(f"loaded: {facts}", flush=True)
        ours = Ours(folder / "ours", folder / "lake", dsn)
        opened.callback(ours.stop)
        ours.start()
        yield ours, peers, needles, facts


def _measured(question: Question, ours: Ours, peers: Sequence[Peer], rounds: int) -> Measured:
    asks = _asks(question, ours, peers)
    answers = {name: ask() for name, ask in asks.items()}
    facts = {
        name: (question.victoria_facts if name == VICTORIA else question.facts)(body)
        for name, body in answers.items()
    }
    _check(question, facts)
    times: dict[str, list[float]] = {name: [] for name in asks}
    for ask in asks.values():
        for _ in range(WARM_UPS):
            ask()
    for _ in range(rounds):
        for name, ask in asks.items():
            times[name].append(_seconds(ask) * 1000)
    counters = _counters(question, ours)
    shown = ", ".join(f"{name} {statistics.median(each):.1f} ms" for name, each in times.items())
    print(f"{question.target} {question.name}: {shown} {counters}", flush=True)
    return Measured(question, times, counters)


def _asks(question: Question, ours: Ours, peers: Sequence[Peer]) -> dict[str, Ask]:
    found = {SHOWN: asker(ours.port, *question.loki, {"Api-Key": KEY})}
    for peer in peers:
        if peer.name == VICTORIA:
            found[VICTORIA] = asker(peer.server.port, *question.victoria)
        elif question.for_loki:
            found[LOKI] = asker(peer.server.port, *question.loki)
    return found


def asker(
    port: int, path: str, values: Mapping[str, object], headers: Mapping[str, str] | None = None
) -> Ask:
    """A question over a connection that stays open."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    address = f"{path}?{urllib.parse.urlencode(dict(values))}"

    def sent() -> http.client.HTTPResponse:
        connection.request("GET", address, headers=dict(headers or {}))
        return connection.getresponse()

    def ask() -> bytes:
        try:
            answer = sent()
        except (OSError, http.client.HTTPException):  # the server closed it while it was idle
            connection.close()
            answer = sent()
        body = answer.read()
        if answer.status != 200 or answer.headers.get("X-Lakerunner-Partial"):
            raise RuntimeError(f"{address}: expected a whole answer, found {answer.status} {body[:300]!r}")
        return body

    return ask


def _check(question: Question, facts: Mapping[str, Any]) -> None:
    mine = facts[SHOWN]
    if bool(mine) != question.needs_rows:
        raise RuntimeError(f"{question.name}: expected rows: {question.needs_rows}, found {mine!r:.200}")
    for name, theirs in facts.items():
        if theirs != mine:
            raise RuntimeError(f"{question.name}, {name} against us: {_difference(theirs, mine)}")


def _difference(theirs: Any, mine: Any) -> str:
    if isinstance(mine, int):
        return f"{theirs} and {mine}"
    first, second = (set(each.items() if isinstance(each, dict) else each) for each in (theirs, mine))
    return f"only there {sorted(first - second)[:4]!r:.400}, only here {sorted(second - first)[:4]!r:.400}"


def _counters(question: Question, ours: Ours) -> dict[str, Any]:
    """What a log query reads; of a metric query the same line filter, all of whose rows are asked for."""
    path, values = question.loki
    if path.endswith("query_range") and "limit" in values:
        body = {"q": values["query"], "s": str(START_NS), "e": str(END_NS), "limit": values["limit"]}
        events = _post(ours.port, "/api/v1/logs/query", body).split(b"\n\n")
        done = next(json.loads(each[6:]) for each in events if b'"type":"done"' in each)
        return dict(done["data"]["stats"])
    stats = json.loads(asker(ours.port, path, values, {"Api-Key": KEY})())["data"]["stats"]
    return {"summary": stats.get("summary", {})}


def _post(port: int, path: str, body: Mapping[str, object]) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    headers = {"Api-Key": KEY, "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    return connection.getresponse().read()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _records(target: str, measured: Sequence[Measured], facts: Mapping[str, Any]) -> list[Record]:
    mine = [one for one in measured if one.question.target == target]
    found = []
    for (identity, peer), (must, aim) in TARGETS.items():
        if identity != target or not mine:
            continue
        what = f"{WHAT[target]}, against {peer}"
        name = f"{target}-{peer}"
        compared = [one for one in mine if peer in one.times]
        if not compared:
            reason = f"no {peer} to compare with"
            found.append(Record(name, what, None, "times", must, aim, peer=peer, reason=reason))
            continue
        ratios = {
            one.question.name: statistics.median(one.times[peer]) / statistics.median(one.times[SHOWN])
            for one in compared
        }
        mean = statistics.geometric_mean(ratios.values())
        counters = {one.question.name: _line(one, peer) for one in compared}
        counters |= {**facts, "load": round(os.getloadavg()[0], 2)}
        found.append(
            Record(name, what, mean, "times", must, aim, mean >= must, peer, 1.0, mean, counters=counters)
        )
    return found


def _line(one: Measured, peer: str) -> str:
    mine, theirs = one.times[SHOWN], one.times[peer]
    return (
        f"{statistics.median(mine):.1f} ms (best {min(mine):.1f}), {peer} {statistics.median(theirs):.1f} ms "
        f"(best {min(theirs):.1f}), ratio {statistics.median(theirs) / statistics.median(mine):.2f}, "
        f"{dict(one.counters)}"
    )
