"""CPU of deriving metrics by rules against the CPU of cooking the same records.

`python -m benchmarks.rules [--quick] [--json OUT]`. An hour of web-shop logs is cooked, then metrics are
derived from it by no rule, by 20 and by 100: line filters, parsers, label filters, counts and numbers. The
share is `(cooking + deriving) / cooking`; what must hold is 1.10x with 20 rules and 1.25x with 100.

The hour is derived at once, and as it grows: after each of its objects, from what was added (`--whole`: from
all there is by then).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks.decode_logs import START_NS, request_bytes
from lakerunner_assets.cooked.plan import plan_all_now
from lakerunner_assets.cooked.run import Report, cook_claims
from lakerunner_assets.cooked.task import cook_unit
from lakerunner_assets.cooked.units import Errand, decode_unit
from lakerunner_assets.cooked.units import encode as encode_cooked
from lakerunner_assets.materialized.run import DeriveReport, derive_hours
from lakerunner_assets.run_context import Heartbeat, RunContext
from lakerunner_query.rules.catalog import put_of
from lakerunner_query.rules.documents import DerivedMetric
from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.index.rule_types import DropRule, RuleKind
from resources.index.types import BatchKind, Intake, ObjectNotice
from resources.lake.layout import Signal
from resources.lake.timecut import cut, to_datetime
from resources.settings import Settings

ORG = "bench"
HOUR_NS = 3_600_000_000_000
MUST = {20: 1.10, 100: 1.25}


class TasksHere:
    """Tasks in this process, whose CPU is added up: what an index in memory takes is left out."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def connect(self) -> None: ...

    def interrupt(self, tag: str) -> None: ...

    def run(self, work, payloads, tags):  # type: ignore[no-untyped-def]
        del tags
        started = time.process_time()
        found = [_cook(one) if work.__module__.endswith("apart") else work(one) for one in payloads]
        self.seconds += time.process_time() - started
        return found


def _cook(payload: bytes) -> bytes:
    return encode_cooked(cook_unit(Errand(decode_unit(payload)), Settings.load(), lambda *_: None))


def rules() -> Iterator[DerivedMetric]:
    """Yield rules as people write them, in rounds of different services."""
    for number in range(40):
        service = f'service_name="svc-{number % 12}"' if number % 2 else f'service_name=~"svc-{number % 9}.*"'
        everything = '{service_name=~".+"}'
        yield _rule(number, "lines", f"{{{service}}}", ("service_name", "detected_level"))
        yield _rule(number, "errors", f'{everything} | detected_level="error"', ("service_name",))
        yield _rule(number, "words", f'{everything} |= "orders?page={number}"', ("service_name",))
        failed = f"{{{service}}} | http_status_code >= 500"
        yield _rule(number, "codes", failed, ("service_name", "http_method"))
        took = f'{{{service}}} |= "status 500" | pattern "<_> in <took> request_id=<_>"'
        yield _rule(number, "took", took, ("service_name",), "duration(took)")


def _rule(number: int, name: str, select: str, keep: tuple[str, ...], value: str = "") -> DerivedMetric:
    return DerivedMetric(f"bench_{name}_{number}", Signal.LOGS, select, keep, value)


class Bench:
    """A lake with an hour of logs, whose objects arrive at once or one by one."""

    def __init__(self, folder: Path, records: int, objects: int, *, at_once: bool = True) -> None:
        (folder / "raw").mkdir()
        (folder / "lake").mkdir()
        self.index = MemoryIndex()
        self.index.create_organisation(ORG)
        self.index.put_storage_profile(StorageProfile("raw", f"file://{folder}/raw"))
        self.settings = Settings(data_dir=folder, lake_url=f"file://{folder}/lake", span_metrics=False)
        self.hour = cut(START_NS + 1, HOUR_NS)
        self._folder, self._records = folder, records // objects
        for number in range(objects if at_once else 0):
            self.arrive(number)

    def arrive(self, number: int) -> None:
        data, folder = request_bytes(self._records, number), self._folder
        key = f"otel-raw/{ORG}/c/logs/{to_datetime(self.hour):%Y/%m/%d/%H}/{number}"
        path = folder / "raw" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        notice = ObjectNotice("raw", key, ORG, "c", Signal.LOGS, self.hour, len(data))
        self.index.take_in(Intake("k", (notice,)))

    def _run(self, tasks: TasksHere) -> RunContext:
        heart = Heartbeat(self.index, "bench", 60)
        return RunContext(self.index, tasks, self.settings, heart, print)  # type: ignore[arg-type]

    def cook(self) -> float:
        self.index.plan_batches(Signal.LOGS, lambda pending: plan_all_now(pending, self.settings))
        claims = self.index.claim_due(Signal.LOGS, BatchKind.COOK, 10**12)
        report, tasks = Report(), TasksHere()
        list(cook_claims(self._run(tasks), claims, report))
        assert not report.failed, report.failed
        return tasks.seconds

    def declare(self, count: int) -> None:
        wanted = [put_of(one) for one in islice(rules(), count)]
        names = {one.name for one in wanted}
        old = [rule for rule in self.index.rules(ORG).rules if rule.name not in names]
        drops = [DropRule(RuleKind.DERIVED, "", rule.name) for rule in old]
        self.index.change_rules(ORG, [*drops, *wanted], None)

    def derive(self, count: int, *, whole: bool = True) -> float:
        """Return the CPU seconds of deriving the hour by so many rules."""
        self.declare(count)
        report, tasks = DeriveReport(), TasksHere()
        list(derive_hours(self._run(tasks), Signal.LOGS, {ORG: [self.hour]}, report, force=whole))
        assert not report.failed, report.failed
        assert not report.ineligible, report.ineligible
        return tasks.seconds


def grow(count: int, records: int, objects: int, *, whole: bool) -> tuple[float, float]:
    """Return the CPU seconds of cooking objects one by one, and of deriving the hour after each."""
    cooking = deriving = 0.0
    with tempfile.TemporaryDirectory(prefix="lakerunner-bench-") as folder:
        bench = Bench(Path(folder), records, objects, at_once=False)
        bench.declare(count)
        for number in range(objects):
            bench.arrive(number)
            cooking += bench.cook()
            deriving += bench.derive(count, whole=whole)
    return cooking, deriving


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="derive growing hours whole")
    options = parser.parse_args()
    records, objects = (200_000, 4) if options.quick else (1_000_000, 10)
    with tempfile.TemporaryDirectory(prefix="lakerunner-bench-") as warm:
        bench = Bench(Path(warm), 2_000, 1)  # compile and import
        bench.cook()
        bench.derive(10)
    with tempfile.TemporaryDirectory(prefix="lakerunner-bench-") as folder:
        bench = Bench(Path(folder), records, objects)
        cooking = bench.cook()
        print(f"{records} records in {objects} objects, cooked in {cooking:.2f} s of CPU")
        found = {"records": records, "cooking_s": cooking}
        for count in (0, 20, 100):
            deriving = min(bench.derive(count) for _ in range(options.rounds))
            share = (cooking + deriving) / cooking
            found[f"share_{count}"] = share
            must = f", must {MUST[count]:.2f}x" if count in MUST else ""
            print(f"{count:4} rules: {deriving:6.2f} s, {share:.3f}x{must}")
    for count in (20, 100):
        cooking, deriving = grow(count, records, objects, whole=options.whole)
        found[f"growing_{count}"] = share = (cooking + deriving) / cooking
        print(f"{count:4} rules: {deriving:6.2f} s in {objects} steps, cooking {cooking:.2f} s, {share:.3f}x")
    print(json.dumps(found))
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
