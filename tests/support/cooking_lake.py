"""A lake of files with its index in memory, cooked without Spark: for tests of the cooking path."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakerunner_assets.cooked.apart import cook_apart
from lakerunner_assets.cooked.plan import plan_all_now
from lakerunner_assets.cooked.rebuild import rebuild
from lakerunner_assets.cooked.run import Report, cook_claims
from lakerunner_assets.cooked.task import cook_unit
from lakerunner_assets.cooked.units import Errand, decode_unit, encode
from lakerunner_assets.publish import HourChange
from lakerunner_assets.run_context import Heartbeat, RunContext
from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.index.types import BatchKind, Intake, ObjectNotice, Segment, SegmentQuery
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, to_datetime
from resources.settings import Settings
from resources.spark import SparkUnavailableError, TaskCrashError

HOUR = 490_896 * HOUR_NS  # 2026-01-01T00
SECOND = 1_000_000_000


class LocalTasks:
    """The contract of `SparkTasks` without Spark; `deadly` objects kill the task that reads them.

    `fatal` ones take the whole server with them.
    """

    def __init__(self) -> None:
        self.deadly: set[str] = set()
        self.fatal: set[str] = set()
        self.interrupted: list[str] = []
        self.tags: list[list[str]] = []
        self.before: Callable[[], object] = bool
        self.jobs: list[int] = []
        self.is_apart = False
        """Cook in the child process, as Spark's workers do."""

    def connect(self) -> None: ...

    def interrupt(self, tag: str) -> None:
        self.interrupted.append(tag)

    def run(
        self, work: Callable[[bytes], bytes], payloads: Sequence[bytes], tags: Sequence[str]
    ) -> list[bytes]:
        self.jobs.append(len(payloads))
        self.tags.append(list(tags))
        self.before()
        for payload in payloads:
            if any(name.encode() in payload for name in self.fatal):
                raise SparkUnavailableError("the server is gone")
            if any(name.encode() in payload for name in self.deadly):
                raise TaskCrashError("the worker exited")
        here = _cook_here if work is cook_apart and not self.is_apart else work
        return [here(payload) for payload in payloads]


def _cook_here(payload: bytes) -> bytes:
    """Cook without the child process, so that a test can replace what cooking calls."""
    return encode(cook_unit(Errand(decode_unit(payload)), Settings.load(), lambda *_: None))


@dataclass
class Lake:
    folder: Path
    settings: Settings
    index: MemoryIndex = field(default_factory=MemoryIndex)
    tasks: LocalTasks = field(default_factory=LocalTasks)
    report: Report = field(default_factory=Report)
    logged: list[str] = field(default_factory=list)
    later: float = 0.0

    def run_context(self) -> RunContext:
        heart = Heartbeat(self.index, "run", 60)
        return RunContext(self.index, self.tasks, self.settings, heart, self.logged.append)  # type: ignore[arg-type]

    def arrive(
        self,
        name: str,
        data: bytes,
        hour: int = HOUR,
        bucket: str = "raw",
        signal: Signal = Signal.LOGS,
        org: str = "acme",
    ) -> None:
        key = f"otel-raw/{org}/c/{signal.value}/{to_datetime(hour):%Y/%m/%d/%H}/{name}"
        path = self.folder / "raw" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        notice = ObjectNotice(bucket, key, org, "c", signal, hour, len(data))
        self.index.take_in(Intake("k", (notice,)))

    def cook(self, signal: Signal = Signal.LOGS) -> list[HourChange]:
        self.index.plan_batches(signal, lambda pending: plan_all_now(pending, self.settings))
        claims = self.index.claim_due(signal, BatchKind.COOK, 10**12)
        return list(cook_claims(self.run_context(), claims, self.report))

    def cook_for_long(self, rounds: int = 12) -> None:
        """Ticks with all back-off over, whatever happens to their runs."""
        self.index._clock = lambda: time.time() + self.later
        for _ in range(rounds):
            self.later += 1000
            self.index.release_expired(30)
            with contextlib.suppress(SparkUnavailableError):
                self.cook()

    def waiting(self) -> tuple[object, object]:
        status = self.index.pipeline_status()[0]
        return status["pending_objects"], status["parked_objects"]

    def rebuild(self, *hours: int, allow_loss: bool = False) -> list[HourChange]:
        return list(rebuild(self.run_context(), Signal.LOGS, "acme", hours, allow_loss, self.report))

    def segments(self, dataset: str = "logs", org: str = "acme") -> list[tuple[Segment, pa.Table]]:
        """Every live segment with its rows."""
        found = []
        for segment in self.index.find_segments(SegmentQuery(org, dataset, 0, -(2**62), 2**62)):
            table = pq.read_table(self.folder / "lake" / segment.key)
            assert table.num_rows == segment.rows
            found.append((segment, table))
        return found

    def messages(self, dataset: str = "logs", org: str = "acme") -> Counter[str]:
        """Every live row's message."""
        found: Counter[str] = Counter()
        for _, table in self.segments(dataset, org):
            found.update(table.column("log_message").to_pylist())
        return found


def lake_in(tmp_path: Path) -> Lake:
    """An empty lake with the organisation `acme` and the bucket `raw`."""
    (tmp_path / "raw").mkdir(parents=True)
    (tmp_path / "lake").mkdir()
    settings = Settings(data_dir=tmp_path, lake_url=f"file://{tmp_path}/lake")
    made = Lake(tmp_path, settings)
    made.index.create_organisation("acme")
    made.index.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    return made
