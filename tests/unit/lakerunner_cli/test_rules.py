"""`lakerunner rules`: what it sends, what it shows, and how it ends."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from lakerunner_cli.main import main
from lakerunner_query.app import create_app
from resources.index.memory import MemoryIndex
from resources.index.query_log import AskedQuery
from resources.index.ruling_types import AlertCorrection, Verdict
from resources.lake.timecut import DAY_NS, cut
from resources.settings import Settings
from tests.support.query.lake import free_port

GROUPS = """groups:
- name: shop
  interval: 1m
  rules:
  - {record: 'shop:up', expr: sum(up)}
  - {alert: Down, expr: 'up == 0', for: 5m}
"""
DERIVED = """materialize:
- metric: shop_errors
  from: logs
  select: '{app="shop"} |= "error"'
"""
Run = Callable[..., int]


@pytest.fixture(scope="module")
def index() -> MemoryIndex:
    found = MemoryIndex()
    found.create_organisation("acme")
    return found


@pytest.fixture(scope="module")
def url(index: MemoryIndex) -> Iterator[str]:
    for role in ("admin", "read"):
        index.create_api_key("acme", role, role, hashlib.sha256(role.encode()).digest(), None)
    port = free_port()
    app = create_app(Settings(internal_token="t", worker_urls="http://127.0.0.1:1"), index)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def rules(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LAKERUNNER_QUERY_KEY", "admin")
    monkeypatch.setenv("LAKERUNNER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def run(verb: str, *args: str) -> int:
        return main(["rules", verb, *args, "--url", url])

    return run


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def test_files_are_applied_listed_shown_and_deleted(rules: Run, capsys: pytest.CaptureFixture[str]) -> None:
    files = write("shop.yaml", GROUPS), write("derived.yaml", DERIVED)

    def said(verb: str, *args: str) -> str:
        assert rules(verb, *args) == 0
        return capsys.readouterr().out

    assert said("apply", *files, "--dry-run") == (
        "+ group shop/shop\n+ metric shop_errors\nwould be: 2 added, 0 changed, 0 removed\n"
    )
    assert said("apply", *files).endswith("\n2 added, 0 changed, 0 removed\n")
    assert said("apply", *files) == "nothing changed\n"
    write("shop.yaml", GROUPS.replace("5m", "10m"))
    changed = said("apply", "shop.yaml").splitlines()
    assert changed[0] == "~ group shop/shop"
    assert {"  -  for: 5m", "  +  for: 10m"} <= set(changed)
    listed = said("list").splitlines()
    assert [line.split() for line in listed] == [
        ["KIND", "NAMESPACE", "NAME", "VERSION", "CONTENT"],
        ["derived", "shop_errors", "1", "from", "logs:", '{app="shop"}', "|=", '"error"'],
        ["group", "shop", "shop", "2", "promql:", "1", "alerts,", "1", "recording", "rules"],
    ]
    Path("all.yaml").write_text(said("show"))
    assert said("apply", "all.yaml") == "nothing changed\n"
    write("shop.yaml", GROUPS.replace("name: shop", "name: other"))
    assert said("apply", "shop.yaml", "--prune").splitlines() == [
        "+ group shop/other", "- group shop/shop", "1 added, 0 changed, 1 removed",
    ]  # fmt: skip
    assert said("delete", "--namespace", "shop") == "1 deleted\n"
    assert said("delete", "--metric", "shop_errors") == "1 deleted\n"
    assert len(said("list").splitlines()) == 1


def test_faults_name_file_and_line(rules: Run, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write("bad.yaml", GROUPS.replace("sum(up)", "sum("))
    assert rules("apply", bad) == 2
    assert 'bad.yaml:5: group "shop", rule 1, "shop:up": could not parse' in capsys.readouterr().err
    assert rules("apply", "none.yaml") == 2
    assert "none.yaml cannot be read" in capsys.readouterr().err
    assert rules("delete") == 2
    assert rules("show", "--name", "nothing") == 2
    assert rules("apply", write("shop.yaml", GROUPS), "--key", "read") == 2
    assert "role 'read'" in capsys.readouterr().err


def test_files_are_checked_without_a_stack(rules: Run, capsys: pytest.CaptureFixture[str]) -> None:
    good = write("good.yaml", GROUPS + DERIVED)
    twice = write("twice.yaml", GROUPS.replace("alert: Down", "record: 'shop:up'").replace(", for: 5m", ""))
    bad = write("bad.yaml", GROUPS.replace("5m", "five"))
    logs = write("logs.yaml", GROUPS.replace("sum(up)", "'sum(rate({a=\"b\"}[1m]))'"))
    assert main(["rules", "check", good]) == 0
    assert capsys.readouterr().out == (
        "Checking good.yaml\n  SUCCESS: 1 alerts, 1 recording rules, 1 derived metrics\n"
    )
    assert main(["rules", "check", twice]) == 0
    assert "warning: twice.yaml:6: duplicate rule: shop:up{}" in capsys.readouterr().out
    assert main(["rules", "check", twice, "--lint-fatal"]) == 3
    assert main(["rules", "check", bad, good]) == 1
    assert 'bad.yaml:6: not a valid duration string: "five"' in capsys.readouterr().out
    assert main(["rules", "check", logs, "--language", "logql"]) == 1
    assert "logs.yaml:6" in capsys.readouterr().out


def test_suggestions_are_a_table_and_a_file_that_applies(
    rules: Run, index: MemoryIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rules("suggest") == 0
    assert capsys.readouterr().out == "no rule is suggested\n"
    today = cut(time.time_ns(), DAY_NS)
    texts = {'sum by (app)(rate({app=~".+"} |= "late"[5m]))': 9.0, 'topk(5, rate({app="web"}[5m]))': 3.0}
    asked = [
        AskedQuery("acme", today, "logql", text, True, 40, 0, seconds, 4e9, 80, 40 * 3600.0, 6)
        for text, seconds in texts.items()
    ]
    old = replace(asked[0], day_ns=today - 9 * DAY_NS, query='sum(rate({app="old"}[5m]))')
    index.add_asked([*asked, old, replace(asked[0], org="beta", query='sum(rate({app="beta"}[5m]))')], 100)
    assert rules("suggest", "--since", "2d", "--apply-file", "found.yaml") == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[:2] == [
        "METRIC     ASKED     TOOK   READ    SAVES          SERIES   PER DAY",
        "logs_late  40 times  9.0 s  4.0 GB  9.0 s, 4.0 GB  about 6  up to 311.0 kB",
    ]
    assert "40 times, 3.0 s: grouping: all labels are shown" in shown
    assert "old" not in shown
    assert "beta" not in shown
    assert main(["rules", "check", "found.yaml"]) == 0
    assert rules("apply", "found.yaml") == 0
    assert "+ metric logs_late" in capsys.readouterr().out
    assert rules("suggest", "--since", "2d") == 0
    assert "queries that have rules already: 1" in capsys.readouterr().out
    assert rules("suggest", "--since", "soon") == 2
    assert "is not a duration" in capsys.readouterr().err


def test_history_tells_what_alerts_missed(
    rules: Run, index: MemoryIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rules("history") == 0
    assert capsys.readouterr().out == "no alert was decided wrongly\n"
    index.beat_ruler("one", 60)
    (record,) = index.claim_groups("one", {7: "acme"})
    at_ms = int(time.time() * 1000) // 1000 * 1000 - 7_200_000
    missed = AlertCorrection(
        7, "Late", {"alertname": "Late", "job": "a"}, Verdict.WOULD_HAVE_FIRED, at_ms, at_ms, "2", at_ms
    )
    assert index.write_check(record, None, [missed])
    assert rules("history", "--since", "1h") == 0
    assert capsys.readouterr().out == "no alert was decided wrongly\n"
    assert rules("history", "--since", "3h") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["FROM", "TO", "VERDICT", "ALERT", "VALUE", "LABELS", "FOUND"]
    assert "would have fired  Late   2      job=a" in row
