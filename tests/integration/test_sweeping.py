"""The sweeper over PostgreSQL and real stores: files, S3, two at once, killed in the middle."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, Thread

import pytest

from lakerunner_assets.sweep.act import sweep
from lakerunner_assets.sweep.plan import Policy
from lakerunner_assets.sweep.report import Kind, Report
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.worker.shared.block_cache import BlockCache
from lakerunner_query.worker.shared.segment_file import FetchMeter
from resources.index.account_types import StorageProfile
from resources.index.postgres import PostgresIndex
from resources.index.query_log import AskedQuery
from resources.index.sweeping_types import Aging, OldTier
from resources.index.types import BatchKind, Segment, SegmentQuery
from resources.lake.layout import Signal, hourly_segment_key
from resources.lake.timecut import DAY_NS, cut
from resources.objects.client import ObjectStore
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.sweep_index import HOUR, Clocked, cook, live, retire, work

pytestmark = pytest.mark.integration
GRACE = Policy(3600, 86_400)
KILLED = -9


@dataclass
class Site:
    """An index, its clock, a lake and a raw bucket with credentials of its own."""

    clocked: Clocked
    settings: Settings
    dsn: str
    raw: ObjectStore

    @property
    def index(self) -> PostgresIndex:
        assert isinstance(self.clocked.index, PostgresIndex)
        return self.clocked.index

    @property
    def lake(self) -> ObjectStore:
        return open_store(self.settings.lake_url, self.settings)

    def cook(self, number: int) -> None:
        """As `tests.support.sweep_index.cook`, with files under both keys."""
        cook(self.index, number)
        self.raw.put(f"otel-raw/acme/c/metrics/{number}", b"x" * 10)
        self.lake.put(f"db/{number}", b"s" * 50)

    def keep(self, days: int, *tiers: str) -> None:
        for tier in tiers:
            self.index.put_retention("acme", Signal.METRICS, tier, days)
        self.clocked.pass_seconds(8000)

    def sweep(self, policy: Policy = GRACE) -> Report:
        return sweep(self.index, self.settings, policy)

    def files(self, prefix: str = "db") -> list[str]:
        return sorted(info.key for chunk in self.lake.list(prefix) for info in chunk)

    def raw_files(self) -> list[str]:
        return sorted(info.key for chunk in self.raw.list("otel-raw") for info in chunk)


@pytest.fixture
def file_site(tmp_path: Path, postgres_index: PostgresIndex, index_dsn: str) -> Site:
    settings = Settings(data_dir=tmp_path, lake_url=f"file://{tmp_path}/lake", index_dsn=index_dsn)
    return _site(settings, postgres_index, index_dsn, f"file://{tmp_path}/raw", "")


@pytest.fixture
def s3_site(
    request: pytest.FixtureRequest,
    s3: Settings,
    tmp_path: Path,
    postgres_index: PostgresIndex,
    index_dsn: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Site:
    for name, value in (
        ("ENDPOINT", s3.s3_endpoint),
        ("ACCESS_KEY_ID", "theirs"),
        ("SECRET_ACCESS_KEY", "secret"),
        ("REGION", "us-east-1"),
    ):
        monkeypatch.setenv(f"LAKERUNNER_CREDENTIALS_THEIRS_{name}", value)
    name = request.node.name.split("[")[0]
    settings = Settings(
        data_dir=tmp_path,
        lake_url=f"s3://lake/{name}/lake",
        index_dsn=index_dsn,
        s3_endpoint=s3.s3_endpoint,
        s3_access_key_id="test",
        s3_secret_access_key="test",
    )
    return _site(settings, postgres_index, index_dsn, f"s3://lake/{name}/raw", "theirs")


def _site(settings: Settings, index: PostgresIndex, dsn: str, raw_url: str, ref: str) -> Site:
    index.create_organisation("acme")
    index.put_storage_profile(StorageProfile("raw", raw_url, ref))
    return Site(Clocked(index, dsn), settings, dsn, open_store(raw_url, settings, ref))


@pytest.fixture(params=["file", "s3"])
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(f"{request.param}_site")
    return found


def located(site: Site) -> list[Segment]:
    """The plan of a query."""
    return site.index.find_segments(SegmentQuery("acme", "metrics", 0, 0, 2**62))


def ref(segment: Segment) -> SegmentRef:
    return SegmentRef(**{name: getattr(segment, name) for name in SegmentRef.__struct_fields__})


def test_a_query_reads_what_it_planned_while_sweeps_run_within_the_grace(site: Site, tmp_path: Path) -> None:
    site.cook(1)
    site.cook(2)
    site.keep(1, "segments", "raw")
    plan = located(site)
    assert len(plan) == 2
    report = site.sweep()
    assert (report.problems, report.count(Kind.EXPIRED), report.count(Kind.RAW)) == ([], 2, 2)
    assert (located(site), site.raw_files()) == ([], [])
    for _ in range(3):  # until just before the end of the grace
        site.clocked.pass_seconds(1190)
        assert site.sweep().count(Kind.FILE) == 0
    cache = BlockCache(tmp_path / "cache", 10**6, site.lake)
    for segment in plan:
        with cache.open(ref(segment), FetchMeter()) as file:
            assert file.read(0, 50) == b"s" * 50
    site.clocked.pass_seconds(60)
    assert site.sweep().count(Kind.FILE) == 2
    assert site.files() == []
    assert site.index.counters()["lakerunner_sweep_retired_waiting"] == 0
    assert site.index.counters()['lakerunner_sweep_deleted_bytes_total{what="raw"}'] == 20


def test_an_orphan_goes_after_a_day_and_not_before_its_batch(site: Site) -> None:
    orphan = hourly_segment_key("acme", "c", "metrics", HOUR, "f" * 32)
    claim = work(site.index, BatchKind.ROLLUP)
    site.clocked.pass_seconds(1)
    site.lake.put(orphan, b"1234")
    site.lake.put("db/acme/other.txt", b"not ours")
    assert site.sweep().count(Kind.FOUND) == 1
    assert site.index.counters()["lakerunner_sweep_orphan_bytes"] == 4
    site.clocked.pass_seconds(86_000)
    assert site.sweep().count(Kind.ORPHAN) == 0
    site.clocked.pass_seconds(1000)
    assert site.sweep().count(Kind.ORPHAN) == 0  # its batch is still under way
    site.index.abandon(claim, "failed")
    assert site.sweep().count(Kind.ORPHAN) == 1
    assert site.files() == ["db/acme/other.txt"]


def test_the_query_log_forgets_old_days(site: Site) -> None:
    now_ns = time.time_ns()
    for age in (0, 13, 15):
        asked = AskedQuery("acme", cut(now_ns, DAY_NS) - age * DAY_NS, "logql", f"{age}", True)
        site.index.add_asked([asked], 10)
    assert site.sweep().count(Kind.ASKED) == 1
    assert sorted(one.query for one in site.index.asked_queries("acme", 0, 10)) == ["0", "13"]
    assert site.sweep().count(Kind.ASKED) == 0


def test_files_that_are_gone_already_are_fine(site: Site) -> None:
    for number in (1, 2, 3):
        site.cook(number)
    retire(site.index, 1, 2, 3)
    site.keep(1, "raw")
    site.lake.delete(["db/2"])
    site.raw.delete(["otel-raw/acme/c/metrics/1"])
    report = site.sweep()
    assert (report.problems, report.count(Kind.FILE), report.count(Kind.RAW)) == ([], 3, 3)
    assert (site.files(), site.raw_files()) == ([], [])


SWEEP_AND_DIE = """
import os, signal, sys
from lakerunner_assets.sweep.act import sweep
from lakerunner_assets.sweep.plan import Policy
from resources.index.postgres import PostgresIndex
from resources.settings import Settings
from resources.objects.client import ObjectStore

def then_die(kind, name):
    real = getattr(kind, name)
    def call(*args):
        real(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(kind, name, call)

settings = Settings.load()
then_die(*{"files": (ObjectStore, "delete"), "rows": (PostgresIndex, "expire")}[sys.argv[1]])
sweep(PostgresIndex(settings.index_dsn), settings, Policy(3600, 86400, chunk=2))
"""


def killed_sweep(site: Site, after: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SWEEP_AND_DIE, after],
        env={**site.settings.child_environment(), "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == KILLED, ended.stderr


def test_killed_between_files_and_rows_the_next_sweep_finishes(file_site: Site) -> None:
    site = file_site
    for number in range(5):
        site.cook(number)
    retire(site.index, *range(5))
    site.clocked.pass_seconds(4000)
    killed_sweep(site, "files")
    assert len(site.files()) == 3  # two files went, their rows did not
    assert len(site.index.retired_segments(3600, "", 10)) == 5
    report = site.sweep()
    assert (report.busy, report.problems, report.count(Kind.FILE)) == (False, [], 5)
    assert site.files() == []
    assert live(site.index) == [90]


def test_killed_between_retiring_and_deleting_the_next_sweep_finishes(file_site: Site) -> None:
    site = file_site
    site.cook(1)
    cook(site.index, 2, HOUR + 3_600_000_000_000)
    site.lake.put("db/2", b"s" * 50)
    site.keep(1, "segments", "raw")
    killed_sweep(site, "rows")
    assert live(site.index) == [2]
    assert [p.expired for p in site.index.partitions("acme", Signal.METRICS, 0)] == [True, False]
    assert site.sweep().count(Kind.EXPIRED) == 1
    site.clocked.pass_seconds(4000)
    assert site.sweep().count(Kind.FILE) == 2
    assert (site.files(), site.raw_files()) == ([], [])


def test_of_two_sweeps_at_once_one_does_nothing(file_site: Site) -> None:
    site = file_site
    site.cook(1)
    retire(site.index, 1)
    site.clocked.pass_seconds(4000)
    with PostgresIndex(site.dsn) as other, other.sweep_lock() as held:
        assert held
        assert site.sweep().busy
        assert site.files() == ["db/1"]
    assert site.sweep().count(Kind.FILE) == 1


class Unlocked(PostgresIndex):
    """A sweeper that lost its lock without knowing."""

    @contextmanager
    def sweep_lock(self) -> Iterator[bool]:
        yield True


def test_two_sweepers_that_both_believe_to_be_alone_do_no_harm(file_site: Site) -> None:
    site = file_site
    numbers = range(40)
    for number in numbers:
        site.cook(number)
    retire(site.index, *numbers)
    site.keep(1, "segments", "raw")
    reports: list[Report] = []
    together = Barrier(2)

    def run() -> None:
        with Unlocked(site.dsn) as index:
            together.wait()
            reports.append(sweep(index, site.settings, Policy(3600, 86_400, chunk=3)))

    threads = [Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.problems for report in reports] == [[], []]
    total = {
        kind: sum(report.count(kind) for report in reports) for kind in (Kind.FILE, Kind.RAW, Kind.EXPIRED)
    }
    last = site.sweep()  # what each left to the other while it was locked
    for kind, expected in ((Kind.FILE, 40), (Kind.RAW, 40), (Kind.EXPIRED, 1)):
        assert total[kind] + last.count(kind) == expected, kind
    assert (site.files(), site.raw_files(), live(site.index)) == ([], [], [])


class Raced(PostgresIndex):
    """Somebody else is quicker between each plan and its deletion."""

    def aging(self, tier: OldTier, limit: int) -> Aging:
        found = super().aging(tier, limit)
        if found.segments:
            self.claim = work(self, BatchKind.COMPACT, 1)
        return found


def test_a_batch_that_claims_a_segment_between_plan_and_retirement_keeps_it(file_site: Site) -> None:
    site = file_site
    site.cook(1)
    site.keep(1, "segments")
    with Raced(site.dsn) as index:
        assert sweep(index, site.settings, GRACE).count(Kind.EXPIRED) == 0
        assert [s.segment_id for s in located(site)] == [f"{1:032x}"]
        site.index.abandon(index.claim, "done with it")
    assert site.sweep().count(Kind.EXPIRED) == 1


def test_a_store_that_does_not_answer_loses_nothing(s3_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site = s3_site
    site.cook(1)
    site.cook(2)
    retire(site.index, 1)
    site.keep(1, "raw")
    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "delete", _away)
        report = site.sweep()
    assert len(report.problems) == 2
    assert (report.count(Kind.FILE), report.count(Kind.RAW)) == (0, 0)
    assert site.index.counters()["lakerunner_sweep_problems"] == 2
    again = site.sweep()
    assert (again.problems, again.count(Kind.FILE), again.count(Kind.RAW)) == ([], 1, 2)


def _away(self: ObjectStore, keys: Sequence[str]) -> None:
    """As after the last retry."""
    from resources.objects.errors import UnavailableError

    raise UnavailableError(next(iter(keys)), "delete: the store failed")
