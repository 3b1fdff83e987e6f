"""Other engines read what the query API answers: before and after everything that changes segments."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from lakerunner_assets.sweep.act import sweep
from lakerunner_assets.sweep.plan import Policy
from lakerunner_assets.tables import delta
from lakerunner_assets.tables.commit import live_files, snapshot_version
from lakerunner_assets.tables.delta import export_delta
from lakerunner_assets.tables.run import due_tables
from lakerunner_cli.demo.tables import open_org_tables, show_tables
from lakerunner_cli.demo.watch import Screen
from lakerunner_cli.main import main
from resources.iceberg import TABLES, CatalogError
from resources.index.postgres import PostgresIndex
from resources.index.types import ObjectDone, Publication
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS, SECOND_NS, cut
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.cooking_lake import HOUR, lake_in
from tests.support.open_tables import OpenLake
from tests.support.query.signals_lake import Asked, SignalsLake, asked_over
from tests.support.rolling_lake import arrive, every, gauge, roll
from tests.support.sweep_index import one_batch

pytestmark = pytest.mark.integration
HOURS = tuple(HOUR + n * HOUR_NS for n in range(3))


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> SignalsLake:
    return SignalsLake(tmp_path_factory.mktemp("signals"))


@pytest.fixture(scope="module")
def opened(signals: SignalsLake, tmp_path_factory: pytest.TempPathFactory) -> OpenLake:
    found = OpenLake(signals, tmp_path_factory.mktemp("catalog"))
    roll(found.lake, ROLLUPS[-1].frequency_ms, cut(HOUR + 1, DAY_NS))
    roll(found.lake, ROLLUPS[-1].frequency_ms, cut(HOUR, DAY_NS))
    found.open_all()
    found.update()
    return found


@pytest.fixture(scope="module")
def asked(signals: SignalsLake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with asked_over(signals, tmp_path_factory.mktemp("scratch")) as found:
        yield found


def log_lines(hour: int, lines: int, code: object = None) -> bytes:
    found = LogsData()
    group = found.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = "late"
    records = group.scope_logs.add().log_records
    for number in range(lines):
        record = records.add(time_unix_nano=hour + (number + 1) * SECOND_NS)
        record.body.string_value = f"late line {number}"
        value = record.attributes.add(key="late.code").value
        if isinstance(code, str):
            value.string_value = code
        else:
            value.int_value = number
    return bytes(found.SerializeToString())


def assert_same(opened: OpenLake, asked: Asked) -> None:
    """Readers find the rows of answers, and the catalog has the files of the index."""
    for name in TABLES:
        wanted = opened.by_query_api(name, asked)
        assert opened.by_pyiceberg(name) == wanted, name
        assert opened.by_duckdb(name) == wanted, name
    assert [found.problems for found in opened.check()] == [[]] * len(TABLES)


def test_tables_hold_what_answers_hold(opened: OpenLake, asked: Asked) -> None:
    assert_same(opened, asked)
    assert sum(opened.by_query_api("metrics_1d", asked).values()) > 0
    with opened.table("logs") as table:
        assert "attr_code" not in {field.name for field in table.schema().fields}
        rows = table.scan(
            row_filter="event_hour = 1", selected_fields=("event_date", "event_hour")
        ).to_arrow()
    assert 0 < rows.num_rows < 420
    assert set(map(str, rows.column("event_date").to_pylist())) == {"2026-01-01"}


def test_attributes_with_two_types_are_left_out_and_named(opened: OpenLake) -> None:
    left_out = {one.name: one.left_out for one in opened.update()}
    assert left_out["logs"] == {"attr_code": ("long", "string")}


def test_organisations_have_tables_of_their_own(opened: OpenLake) -> None:
    opened.index.add_table("other", "logs")
    opened.update("logs", org="other")
    with opened.table("logs") as mine, opened.table("logs", org="other") as theirs:
        assert not live_files(mine).keys() & live_files(theirs).keys()
        assert all("/db/other/" in path for path in live_files(theirs))
    opened.index.remove_table("other", "logs")


@pytest.mark.slow
def test_compaction_rebuilds_late_rows_and_retention(opened: OpenLake, asked: Asked) -> None:
    """One snapshot per change; the one before it stays readable until it expires, then its files go."""
    with opened.table("logs") as table:
        before = table.current_snapshot()
    assert before is not None
    for number in range(3):
        opened.lake.arrive(f"late-{number}", log_lines(HOURS[1], 20), HOURS[1])
        opened.lake.cook()
        arrive(opened.lake, f"late-metrics-{number}", gauge(every(60, HOURS[1]), f"late_{number}"), HOURS[1])
        opened.lake.cook(Signal.METRICS)
    opened.update()
    assert_same(opened, asked)
    for signal in Signal:
        opened.compact(signal, *HOURS)
    opened.update()
    assert_same(opened, asked)
    for rollup in ROLLUPS[:-1]:
        roll(opened.lake, rollup.frequency_ms, HOURS[1])
    roll(opened.lake, ROLLUPS[0].frequency_ms, HOURS[0], force=True)
    opened.update()
    assert_same(opened, asked)

    old = replace(Policy.of(opened.settings), grace_s=-1.0)
    sweep(opened.index, opened.settings, old)
    with opened.table("logs") as table:
        old_rows = table.scan(snapshot_id=before.snapshot_id).to_arrow().num_rows
        now_rows = table.scan().to_arrow().num_rows
    assert (old_rows, now_rows) == (420, 480)

    opened.settings = replace(opened.settings, tables_keep_s=0)
    held = {table.dataset: table.held for table in opened.index.list_tables("acme")}
    assert held["logs"] > 0
    assert {table.dataset for table in due_tables(opened.index.list_tables("acme"), opened.settings)} >= {
        "logs"
    }
    opened.update()
    assert not any(table.held for table in opened.index.list_tables("acme"))
    files = set((opened.lake.folder / "lake" / "db" / "acme").rglob("*.parquet"))
    report = sweep(opened.index, opened.settings, old)
    assert report.problems == []
    assert len(files) > len(set((opened.lake.folder / "lake" / "db" / "acme").rglob("*.parquet")))
    assert_same(opened, asked)


def test_retention_leaves_the_tables_with_the_index(opened: OpenLake, asked: Asked) -> None:
    opened.index.put_retention("acme", Signal.LOGS, "segments", 1)
    try:
        now = HOURS[2] + DAY_NS + 2 * HOUR_NS
        policy = replace(Policy.of(opened.settings), notice_s=-1.0)
        sweep(opened.index, opened.settings, policy, now_ns=now)
        opened.update()
        assert_same(opened, asked)
        with opened.table("logs") as table:
            assert table.scan().to_arrow().num_rows < 480
    finally:
        opened.index.remove_retention("acme", Signal.LOGS, "segments")


class Followers:
    """Two writers of the table of logs, until they are stopped."""

    def __init__(self, opened: OpenLake) -> None:
        self._opened, self._stop = opened, threading.Event()
        self.failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._follow) for _ in range(2)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._opened.update("logs")
            except Exception as error:  # noqa: BLE001 - the test looks at them
                if "others committed first" not in str(error) and "database is locked" not in str(error):
                    self.failures.append(error)


def test_snapshots_equal_the_index_while_telemetry_comes_in(opened: OpenLake) -> None:
    """Two writers of the table beside ingest and compaction; every snapshot is a state that the index had."""
    opened.settings = replace(opened.settings, tables_keep_s=3600)
    history: dict[int, set[str]] = {}

    def note() -> None:
        found = opened.index.table_changes("acme", "logs", None)
        assert found is not None
        history[found.version] = {segment.key for segment in found.added}

    note()
    with Followers(opened) as followers:
        for number in range(6):
            lines = log_lines(HOURS[2], 10, "x" if number == 4 else None)
            opened.lake.arrive(f"during-{number}", lines, HOURS[2])
            opened.lake.cook()
            note()
        opened.compact(Signal.LOGS, HOURS[2])
        note()
        time.sleep(0.5)
    assert followers.failures == []
    opened.update("logs")
    root, seen = f"{opened.settings.lake_url}/", 0
    with opened.table("logs") as table:
        for snapshot in table.metadata.snapshots:
            tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
            keys = {task.file.file_path.removeprefix(root) for task in tasks}
            version = snapshot_version(snapshot)
            assert version is not None
            if version[1] in history:
                assert keys == history[version[1]]
                seen += 1
    assert seen >= 3
    assert [found.problems for found in opened.check(read=True)] == [[]] * len(TABLES)


def test_run_that_died_between_catalog_and_index_is_made_good(
    opened: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.lake.arrive("died", log_lines(HOURS[2], 5), HOURS[2])
    opened.lake.cook()
    with monkeypatch.context() as patched:
        patched.setattr(
            type(opened.index), "note_commit", lambda *_: (_ for _ in ()).throw(RuntimeError("killed"))
        )
        with pytest.raises(CatalogError, match="killed"):
            opened.update("logs")
    with opened.table("logs") as table:
        first = table.current_snapshot()
    (again,) = opened.update("logs")
    assert first is not None
    assert (again.added, again.removed, again.snapshot_id) == (0, 0, first.snapshot_id)
    assert [found.problems for found in opened.check()] == [[]] * len(TABLES)


def test_catalog_that_is_not_of_this_index_is_compared_file_by_file(opened: OpenLake) -> None:
    """An index out of a backup counts versions anew; the table was closed and opened again."""
    opened.index.remove_table("acme", "traces")
    opened.index.add_table("acme", "traces")
    assert opened.check()[-1].problems[0].startswith("its snapshot names no version of this index")
    (done,) = opened.update("spans")
    assert (done.added, done.removed) == (0, 0)
    assert [found.problems for found in opened.check()] == [[]] * len(TABLES)


def test_delta_log_has_the_same_files(opened: OpenLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "CHECKPOINT_EVERY", 4)
    lake = open_store(opened.settings.lake_url, opened.settings)
    opened.settings = replace(opened.settings, tables_keep_s=3600)
    for entry in range(6):  # past a checkpoint
        if entry:
            opened.lake.arrive(f"delta-{entry}", log_lines(HOURS[0], 3), HOURS[0])
            opened.lake.cook()
        if entry == 3:
            opened.compact(Signal.LOGS, HOURS[0])
        opened.update("logs")
        with opened.table("logs") as table:
            done = export_delta(table, "acme", "logs", lake, opened.settings)
            rows = table.scan().count()
        assert done.entry == entry
    with opened.table("logs") as table:
        assert export_delta(table, "acme", "logs", lake, opened.settings).entry == 5  # nothing changed
        ours = table.scan(selected_fields=("chq_tsns", "log_message")).to_arrow()
    found = DeltaTable(done.location)
    assert found.version() == 5
    query = "SELECT count(*) AS n, sum(chq_tsns % 1000003) AS s, max(log_message) AS m FROM t"
    (row,) = pa.table(QueryBuilder().register("t", found).execute(query).read_all()).to_pylist()
    numbers = ours.column("chq_tsns").to_pylist()
    assert row["n"] == rows
    assert row["s"] == sum(number % 1_000_003 for number in numbers)
    assert row["m"] == max(ours.column("log_message").to_pylist())


def test_documented_examples_run(opened: OpenLake, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to-open-tables.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.setenv("TABLES_URI", opened.settings.tables_catalog.partition("uri=")[2])
    for block in blocks:
        exec(block, {})  # noqa: S102 - the page is ours


def test_sql_catalog_in_the_database_of_the_index(
    signals: SignalsLake, index_dsn: str, tmp_path: Path
) -> None:
    """The default: nothing but the index' own database."""
    opened = OpenLake(signals, tmp_path)
    opened.settings = replace(opened.settings, tables_catalog="", index_dsn=index_dsn)
    opened.settings = replace(opened.settings, lake_url=signals.lake.settings.lake_url)
    with PostgresIndex(index_dsn) as index:
        index.create_organisation("acme")
        index.add_table("acme", "logs")
        opened.index = index  # type: ignore[assignment]
        (done,) = opened.update("logs")
        assert (done.files, done.rows, done.version) == (0, 0, 0)
        assert [found.problems for found in opened.check()] == [[]]


def test_commands(
    index_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From opening to closing, on PostgreSQL and its catalog."""
    lake = lake_in(tmp_path / "lake")
    arrive(lake, "a", gauge(every(60)))
    lake.cook(Signal.METRICS)
    ((segment, _),) = lake.segments("metrics")
    with PostgresIndex(index_dsn) as index:
        index.create_organisation("acme")
        claim = one_batch(index, "a", hour=HOUR)
        (obj,) = claim.inputs
        done = (ObjectDone(obj.object_id, "e", segment.rows, 0, 0, ((HOUR, segment.rows),)),)
        index.publish(Publication(claim, (segment,), done, hours=(HOUR,)))
    monkeypatch.setenv("LAKERUNNER_INDEX_DSN", index_dsn)
    monkeypatch.setenv("LAKERUNNER_LAKE_URL", lake.settings.lake_url)
    monkeypatch.setenv("LAKERUNNER_DATA_DIR", str(tmp_path / "data"))

    def say(*words: str) -> tuple[int, str]:
        code = main(["tables", *words])
        found = capsys.readouterr()
        return code, found.out + found.err

    only = ("--org", "acme", "--table", "metrics")
    assert say("list") == (
        2, "lakerunner tables: no such table is open; `lakerunner tables on --org ORG` opens them\n",
    )  # fmt: skip
    assert say("on", "--org", "nobody") == (2, "lakerunner tables: no organisation 'nobody'\n")
    assert say("on", *only)[1].startswith("acme.metrics: opened\n")
    assert "the catalog has no such table" in say("check")[1]
    assert f"version 0, {segment.rows} rows in 1 files (+1 -0)" in say("update")[1]
    assert say("check", "--read") == (
        0, f"acme.metrics: version 0, {segment.rows} rows in 1 files, {segment.rows} rows read\n",
    )  # fmt: skip
    row = json.loads(say("list", "--json")[1])[0]
    assert (row["table"], row["rows"], row["files"], row["behind"]) == ("acme.metrics", segment.rows, 1, 0)
    statement = say("sql", *only, "--dialect", "spark")[1]
    assert statement.startswith("CREATE OR REPLACE VIEW `metrics_view` AS")
    assert "FROM `acme`.`metrics`;" in statement
    assert say("export", "--format", "delta", *only)[1].startswith("acme.metrics: entry 0, 1 files (+1 -0)")
    with PostgresIndex(index_dsn) as index:
        open_org_tables(index, "acme")  # type: ignore[arg-type]
    show_tables(Settings.load(), "acme", Screen(1))
    shown = capsys.readouterr().out
    assert re.search(rf"acme\.metrics +{segment.rows} +1 ", shown)
    assert "DuckDB counts" in shown
    (tmp_path / "lake" / "lake" / segment.key).unlink()
    code, text = say("check", "--read")
    assert code == 1
    assert "files do not say what the index says" in text
    assert say("off", "--org", "acme")[0] == 0
    assert not list((tmp_path / "lake" / "lake" / "tables").rglob("*.json"))
