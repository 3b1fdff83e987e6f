"""Exactly once under fire: duplicated and reordered notifications, poisoned objects, runs killed at random.

`python -m benchmarks.fire [--quick] [--json OUT]`. Objects of all three signals are put and announced one to
three times in any order; one in ten is poisoned; run processes are killed with -9 at random moments. In the
end every good object must have exactly its rows in live segments, and every poisoned one must be parked with
a reason.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psycopg

from benchmarks.chaos import settle
from benchmarks.chaos_stack import run_processes
from benchmarks.mixed import Made, make
from benchmarks.report import Record, tell
from benchmarks.traffic import Traffic, raw_store, run_counts
from lakerunner_cli.accounts import open_index
from resources.index.types import SegmentQuery
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import to_datetime
from resources.settings import Settings
from tests.support.stack_fixture import stack_settings, start_stack, stop_stack

ORG = "fire"
EVER = (-(2**62), 2**62)
SETTLE_S = 600.0


@dataclass(slots=True)
class Fire:
    """One storm: what was made, how often it was announced, what was killed."""

    data_dir: Path
    chance: random.Random
    made: dict[str, Made] = field(default_factory=dict)
    announced: int = 0
    killed: int = 0
    failures: list[BaseException] = field(default_factory=list)

    def send(self, objects: int, seconds: float) -> None:
        """Objects in groups of five, their notifications repeated and shuffled with earlier ones."""
        traffic = Traffic(stack_settings(self.data_dir), (ORG,))
        traffic.prepare()
        waiting: list[tuple[str, int, str]] = []
        for number in range(objects):
            poisoned = number % 10 == 3
            waiting += self._put(make(number, self.chance, poisoned)) * self.chance.randrange(1, 4)
            self.chance.shuffle(waiting)
            for _ in range(len(waiting) // 2):
                self._announce(traffic, waiting.pop())
            time.sleep(seconds / objects)
        while waiting:
            self._announce(traffic, waiting.pop())

    def kill(self, kills: int, pause_s: tuple[float, float], stop: threading.Event) -> None:
        """Kill run processes, each after a random pause."""
        try:
            while self.killed < kills and not stop.is_set():
                time.sleep(self.chance.uniform(*pause_s))
                victims = run_processes(self.data_dir)
                if victims:
                    os.kill(self.chance.choice(victims).pid, signal.SIGKILL)
                    self.killed += 1
                    print(f"kill {self.killed}", flush=True)
        except ProcessLookupError:
            self.kill(kills, pause_s, stop)  # it ended by itself just now
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self.failures.append(error)

    def _put(self, made: Made) -> list[tuple[str, int, str]]:
        key = raw_key(ORG, "bench", made.signal, to_datetime(time.time_ns()), made.name)
        self.made[key] = made
        if made.data is None:
            return [(key, 100, "")]
        etag = raw_store(stack_settings(self.data_dir)).put(key, made.data)
        return [(key, len(made.data), etag)]

    def _announce(self, traffic: Traffic, notice: tuple[str, int, str]) -> None:
        traffic.announce(*notice)
        self.announced += 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """By object: rows in live segments, and how the index sees it."""

    rows: Counter[str]
    distinct: Counter[str]
    states: dict[str, tuple[str, str]]


def outcome(settings: Settings) -> Outcome:
    """Reads the segments themselves and the index; no service in between. Derived rows have no object."""
    with psycopg.connect(settings.index_dsn) as connection:
        found = connection.execute(
            "SELECT object_id, key, state, coalesce(error, '') FROM lakerunner.raw_object WHERE org_id = %s",
            (ORG,),
        ).fetchall()
    keys = {object_id: key for object_id, key, _, _ in found}
    rows: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    for each in Signal:
        with open_index(settings) as desk:
            segments = desk.find_segments(SegmentQuery(ORG, each.value, 0, *EVER))
        if not segments:
            continue
        files = [f"{settings.data_dir}/lake/{segment.key}" for segment in segments]
        counted = duckdb.execute(
            "SELECT chq_object, count(*), count(DISTINCT chq_position) FROM "
            "read_parquet($files, union_by_name = true) WHERE chq_object <> 0 GROUP BY chq_object",
            {"files": files},
        ).fetchall()
        for object_id, total, different in counted:
            rows[keys[object_id]] += total
            distinct[keys[object_id]] += different
    return Outcome(rows, distinct, {key: (state, error) for _, key, state, error in found})


def storm(data_dir: Path, objects: int, kills: int, seconds: float, seed: int = 7) -> tuple[Fire, float]:
    """The storm and the seconds until nothing was pending."""
    fire = Fire(data_dir, random.Random(seed))
    stop = threading.Event()
    pause = (0.3, 2 * seconds / max(1, kills))
    killer = threading.Thread(target=fire.kill, args=(kills, pause, stop))
    killer.start()
    try:
        fire.send(objects, seconds)
        killer.join(SETTLE_S)
    finally:
        stop.set()
        killer.join()
    if fire.failures:
        raise fire.failures[0]
    return fire, settle(stack_settings(data_dir), SETTLE_S)


def judge(fire: Fire, found: Outcome) -> list[Record]:
    good = {key: made for key, made in fire.made.items() if not made.poison}
    bad = {key: made for key, made in fire.made.items() if made.poison}
    lost = sum(max(0, made.rows - found.distinct[key]) for key, made in good.items())
    doubled = sum(found.rows[key] - found.distinct[key] for key in fire.made)
    odd = [key for key, made in good.items() if found.rows[key] != made.rows]
    unparked = [
        f"{made.name}: {found.states.get(key)}"
        for key, made in bad.items()
        if found.states.get(key, ("", ""))[0] != "parked" or key not in found.states[key][1]
    ]
    leaked = sum(found.rows[key] for key in bad)
    return [
        Record("objects", "objects sent", len(fire.made), "objects", counters={"poisoned": len(bad)}),
        Record("notices", "notifications sent", fire.announced, "notices"),
        Record("kills", "run processes killed with -9", fire.killed, "kills"),
        _zero("lost", "rows lost", lost),
        _zero("doubled", "rows counted twice", doubled),
        _zero("odd", "good objects without exactly their rows", len(odd)),
        _zero("unparked", "poisoned objects not parked with a reason", len(unparked), unparked),
        _zero("leaked", "rows of poisoned objects in segments", leaked),
    ]


def _zero(name: str, what: str, value: int, detail: object = None) -> Record:
    counters = {"detail": detail} if detail else {}
    return Record(name, what, value, "", must=0, ok=value == 0, counters=counters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="60 objects and 4 kills instead of 200 and 20")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    objects, kills, seconds = (60, 4, 30.0) if args.quick else (200, 20, 150.0)
    with tempfile.TemporaryDirectory(prefix="lakerunner-fire-") as folder:
        data_dir = Path(folder)
        settings = start_stack(data_dir, ())
        try:
            fire, settled = storm(data_dir, objects, kills, seconds)
            records = judge(fire, outcome(settings))
            runs = run_counts(settings)
        finally:
            stop_stack(data_dir)
    records.append(Record("settled", "from the last kill to nothing pending", settled, "s", counters=runs))
    tell("fire", records, args.json)


if __name__ == "__main__":
    main()
