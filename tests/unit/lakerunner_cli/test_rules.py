"""`lakerunner rules`: what it sends, what it shows, and how it ends."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn

from lakerunner_cli.main import main
from lakerunner_query.app import create_app
from resources.index.memory import MemoryIndex
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
def url() -> Iterator[str]:
    index = MemoryIndex()
    index.create_organisation("acme")
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
