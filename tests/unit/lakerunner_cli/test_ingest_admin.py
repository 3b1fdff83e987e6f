"""`ingest` and `admin` over the index in memory and the real ingress application, without a network."""

from __future__ import annotations

import gzip
import hashlib
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_cli import accounts
from lakerunner_cli.command import CommandError
from lakerunner_cli.commands import admin, ingest
from lakerunner_cli.progress import Progress, wait_until_settled
from lakerunner_cli.upload import content_name
from lakerunner_cli.webhook import base_url
from lakerunner_ingress.app import create_app
from resources.index.memory import MemoryIndex
from resources.index.postgres.objects import ObjectStatus, ParkedObject
from resources.index.types import ObjectState, OutboxMessage
from resources.lake.layout import parse_raw_key
from resources.notifications.references import decode_message
from resources.settings import Settings
from tests.support.otlp_logs import otlp_logs


class MemoryDesk(MemoryIndex):
    """The desk's own questions, answered by what a test put here."""

    states: tuple[ObjectStatus, ...] = ()
    parked: tuple[ParkedObject, ...] = ()

    def object_states(self, bucket: str, keys: Sequence[str]) -> list[ObjectStatus]:
        return [ObjectStatus(key, ObjectState.DONE, 3, 0, "") for key in keys]

    def object_hours(self, bucket: str, keys: Sequence[str]) -> tuple[int, int] | None:
        return (1_767_319_200 * 10**9, 1_767_322_800 * 10**9)  # 2026-01-02T02, T03

    def parked_objects(self, org: str = "", limit: int = 1000) -> list[ParkedObject]:
        return [p for p in self.parked if org in {"", p.org}]


class Recorder:
    def __init__(self) -> None:
        self.sent: list[OutboxMessage] = []

    def send(self, messages: Sequence[OutboxMessage]) -> None:
        self.sent += messages

    def check(self) -> str:
        return ""

    def close(self) -> None: ...


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", webhook_token="t0ken")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> MemoryDesk:
    found = MemoryDesk()

    @contextmanager
    def opened(_settings: Settings) -> Iterator[MemoryDesk]:
        yield found

    monkeypatch.setattr(accounts, "open_index", opened)
    return found


@pytest.fixture
def kafka(desk: MemoryDesk, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """The ingress, reached through the HTTP client of the webhook module."""
    producer = Recorder()
    app = create_app(settings, desk, producer)  # type: ignore[arg-type]

    def client(headers: dict[str, str], timeout: float) -> TestClient[Any]:
        made = TestClient(app)
        made.headers.update(headers)
        return made

    monkeypatch.setattr("lakerunner_cli.webhook.httpx.Client", client)
    return producer


def run(command: Any, settings: Settings, *argv: str) -> int:
    parser = ArgumentParser()
    command.configure(parser)
    return int(command.run(parser.parse_args(argv), settings))


def test_files_arrive_as_raw_objects_and_as_references(
    desk: MemoryDesk, kafka: Recorder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.create_organisation("acme")
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a b+c.binpb").write_bytes(otlp_logs([(1, "a")]))
    (tmp_path / "in" / "deep" / "x.binpb.gz").write_bytes(gzip.compress(otlp_logs([(1, "x")])))
    (tmp_path / "in" / "README.md").write_text("not telemetry")
    assert run(ingest, settings, str(tmp_path / "in"), "--org", "acme", "--collector", "eu", "--wait") == 0
    records = [record for message in kafka.sent for record in decode_message(message.payload)]
    stored = [p for p in (settings.data_dir / "raw").rglob("*") if p.is_file()]
    assert {str(p.relative_to(settings.data_dir / "raw")) for p in stored} == {r.key for r in records}
    assert {(parse_raw_key("raw", r.key).org, parse_raw_key("raw", r.key).collector) for r in records} == {
        ("acme", "eu")
    }
    assert "2 new object(s)" in capsys.readouterr().out


def test_the_same_content_again_adds_nothing_and_says_so(
    desk: MemoryDesk, kafka: Recorder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.create_organisation("acme")
    file = tmp_path / "a.binpb"
    file.write_bytes(b"{}")
    for _ in range(2):
        assert run(ingest, settings, str(file), "--org", "acme") == 0
    assert "1 already there" in capsys.readouterr().out
    assert len([p for p in (settings.data_dir / "raw").rglob("*") if p.is_file()]) == 1
    assert len({r.key for m in kafka.sent for r in decode_message(m.payload)}) == 1


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", b"", "empty object"),
        (
            "a.json",
            b"just some words\nand more\n",
            "neither OTLP, remote write, Loki push, JSON, CSV nor Parquet",
        ),
        ("a.parquet", b"PAR1 and nothing else", "Parquet"),
        ("a.json.gz", gzip.compress(b'{"msg": "x"}\n')[:-9], "truncated"),
    ],
)
def test_what_cooking_would_refuse_is_refused_before_it_is_uploaded(
    desk: MemoryDesk, kafka: Recorder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    name: str, content: bytes, reason: str,
) -> None:  # fmt: skip
    """It said `announced`, and the reason was in `parked list` minutes later."""
    desk.create_organisation("acme")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.json").write_bytes(b'{"msg": "x"}\n')
    assert run(ingest, settings, str(tmp_path), "--org", "acme") == 1
    out = capsys.readouterr().out
    assert f"refused: {tmp_path / name}: byte" in out
    assert reason in out
    assert "1 new object(s)" in out
    assert len([record for sent in kafka.sent for record in decode_message(sent.payload)]) == 1


def test_what_became_of_the_columns_is_said_and_the_query_to_ask(
    desk: MemoryDesk, kafka: Recorder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.create_organisation("acme")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"date,time,msg,app,user\n2026-01-02,03:04:05,hello {name},web,ann\n")
    assert run(ingest, settings, str(tmp_path), "--org", "acme", "--wait") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "a.csv and 1 more: time from 'time' and 'date', message from 'msg', service from 'app'"
    assert out[2].startswith("waiting up to 300 s for a sensor and a cooking run to take 2 object(s)")
    assert out[-1].strip() == (
        f'curl -sS -G "http://127.0.0.1:{settings.query_port}/loki/api/v1/query_range" '
        '-H "x-cardinalhq-api-key: $READ_KEY" --data-urlencode \'query={service_name=~".+"}\' '
        "--data-urlencode start=2026-01-02T02:00:00Z --data-urlencode end=2026-01-02T04:00:01Z"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "when_it_was,msg\n02.01.2026 03:04,x\n",
            "get the time of their arrival: no column is read as their time",
        ),
        ("time,msg\nyesterday,x\n", "get the time of their arrival: their time cannot be read"),
        ("time,user\n2026-01-02T03:04:05Z,ann\n", "have no message and are shown as their fields"),
        ("date,msg\n2026-01-02,x\n", "have a date and no time of day: they are at 00:00 UTC"),
        (
            "time,msg\n1999-01-02T03:04:05Z,x\n",
            "times up to LAKERUNNER_HORIZON=2025-01-01, as 1999-01-02T03:04:05Z",
        ),
        (
            "time,msg\n2100-01-02T03:04:05Z,x\n",
            "LAKERUNNER_FUTURE_TOLERANCE_S=3600 ahead, as 2100-01-02T03:04:05Z",
        ),
        (
            "time,msg\n2026-01-02T03:04:05Z,x,y\n2026-01-02T03:04:05Z,x\n",
            "1 of its first records cannot be read",
        ),
    ],
)
def test_what_a_newcomer_would_not_expect_is_said_at_once(
    desk: MemoryDesk, kafka: Recorder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    content: str, words: str,
) -> None:  # fmt: skip
    desk.create_organisation("acme")
    (tmp_path / "a.csv").write_text(content)
    assert run(ingest, settings, str(tmp_path / "a.csv"), "--org", "acme") == 0
    out = capsys.readouterr().out
    assert words in out
    if "arrival" in words or "message" in words:
        assert "lakerunner admin setting set acme fields" in out


def test_the_organisations_own_names_are_obeyed(
    desk: MemoryDesk, kafka: Recorder, settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.create_organisation("acme")
    desk.put_org_setting("acme", "fields", {"timestamp": ["wann"], "message": ["was"]})
    (tmp_path / "a.csv").write_text("wann,was\n2026-01-02T03:04:05Z,x\n")
    assert run(ingest, settings, str(tmp_path / "a.csv"), "--org", "acme") == 0
    assert "a.csv: time from 'wann', message from 'was'" in capsys.readouterr().out


def test_names_follow_the_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b" / "a.json"
    second.parent.mkdir()
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    assert content_name(first) != content_name(second)
    assert content_name(first).endswith("-a.json")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["a.pb", "--org", "nobody"], "no enabled organisation 'nobody'"),
        (["a.pb", "--org", "acme", "--bucket", "strange"], "bucket 'strange' is not registered"),
        (["a.pb", "--org", "acme", "--collector", "EU!"], "collector 'EU!'"),
        (["missing.pb", "--org", "acme"], "no such file"),
        (["empty", "--org", "acme"], "no file in it ends in"),
    ],
)
def test_what_ingest_refuses(
    desk: MemoryDesk, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    argv: list[str], problem: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    desk.create_organisation("acme")
    for name in ("a.json", "a.pb"):
        Path(name).write_text("{}")
    Path("empty").mkdir()
    with pytest.raises(CommandError, match=problem):
        run(ingest, settings, *argv)


def test_waiting_ends_with_an_error_that_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_cli.progress.POLL_S", 0.0)
    answers = [
        ObjectStatus("a", ObjectState.DONE, 1, 0, ""),
        ObjectStatus("b", ObjectState.BATCHED, 0, 0, ""),
    ]
    told: list[int] = []
    with pytest.raises(CommandError, match="1 of 2 objects are not queryable yet"):
        wait_until_settled(lambda: answers, 2, 0.0, told.append)
    assert told == [1]


def test_a_key_is_printed_once_and_only_its_hash_is_kept(
    desk: MemoryDesk, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(admin, settings, "org", "create", "acme") == 0
    capsys.readouterr()
    assert run(admin, settings, "key", "create", "--org", "acme", "--role", "write", "--name", "ci") == 0
    key = capsys.readouterr().out.strip()
    assert key.startswith("lr_")
    assert len(key) == 46
    assert "acme" not in key
    assert key not in repr(desk._state)
    found = desk.find_api_key(hashlib.sha256(key.encode()).digest())
    assert found is not None
    assert (found.org, found.role) == ("acme", "write")
    assert run(admin, settings, "key", "revoke", "--org", "acme", "--name", "ci") == 0
    assert desk.find_api_key(hashlib.sha256(key.encode()).digest()) is None
    assert run(admin, settings, "key", "revoke", "--org", "acme", "--name", "ci") == 1


def test_a_key_expires(settings: Settings) -> None:
    now = [0.0]
    index = MemoryIndex(clock=lambda: now[0])
    index.create_organisation("acme")
    key = accounts.create_key(index, "acme", "read", "short", "2h")
    expiry = next(iter(index._state.keys.values()))[1]
    assert expiry is not None
    now[0] = expiry - 1
    assert index.find_api_key(accounts.key_hash(key))
    now[0] = expiry + 1
    assert index.find_api_key(accounts.key_hash(key)) is None


@pytest.mark.parametrize("text", ["", "0d", "-1d", "1y", "d", "1.5h", "9999999d"])
def test_odd_durations_are_refused(text: str) -> None:
    with pytest.raises(CommandError, match="duration"):
        accounts.seconds_of(text)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["org", "create", "Ac me"], "does not match"),
        (["key", "create", "--org", "nobody", "--name", "x"], "no enabled organisation"),
        (["prefix", "add", "raw", "x/", "--org", "acme"], "bucket 'raw' is not registered"),
    ],
)
def test_what_admin_refuses(desk: MemoryDesk, settings: Settings, argv: list[str], problem: str) -> None:
    desk.create_organisation("acme")
    with pytest.raises(CommandError, match=problem):
        run(admin, settings, *argv)


def test_buckets_prefixes_and_parked_objects(
    desk: MemoryDesk, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.create_organisation("acme")
    assert run(admin, settings, "bucket", "add", "edge", "s3://edge-bucket/p", "--credentials", "edge") == 0
    assert run(admin, settings, "prefix", "add", "edge", "in/", "--org", "acme", "--signal", "traces") == 0
    desk.parked = (ParkedObject(7, "acme", "logs", "edge", "in/x", 3, "truncated at byte 12"),)
    for noun in ("bucket", "prefix", "parked", "org"):
        assert run(admin, settings, noun, "list") == 0
    printed = capsys.readouterr().out
    for text in ("edge  s3://edge-bucket/p  edge", "edge/in/  acme  default  traces", "truncated at byte 12"):
        assert text in printed
    assert run(admin, settings, "parked", "retry", "--org", "acme", "7") == 1


def test_progress_is_lines_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("lakerunner_cli.progress.QUIET_S", 0.0)
    progress = Progress("uploaded", 2)
    progress.step(2)
    progress.close()
    assert capsys.readouterr().err == "uploaded 2/2 (100%, 0 s)\n"


def test_an_ingress_bound_to_all_addresses_is_reached_on_loopback() -> None:
    assert base_url("0.0.0.0", 4380) == "http://127.0.0.1:4380"  # noqa: S104
