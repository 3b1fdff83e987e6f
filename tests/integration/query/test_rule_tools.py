"""mimirtool and lokitool, unmodified, keep a directory of rules in step with our API."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakerunner_query.app import create_app
from resources.index.memory import MemoryIndex
from resources.settings import Settings
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import Lake
from tests.support.query.real_prometheus import serving

pytestmark = pytest.mark.integration
PEERS = Path.home() / ".cache" / "lakerunner" / "peers"
EXPRESSIONS = {
    "mimirtool": "sum by (job) (rate(errors_total[5m]))",
    "lokitool": 'sum(rate({app="shop"}[5m]))',
}


@dataclass(frozen=True)
class Tool:
    """One of the tools with the address of our API, and a directory of rule files."""

    name: str
    address: str
    folder: Path
    index: MemoryIndex

    def run(self, verb: str, *arguments: str, org: str = "acme") -> subprocess.CompletedProcess[str]:
        command = [str(PEERS / self.name), "rules", verb, *arguments]
        command += [f"--address={self.address}", f"--id={org}", f"--key=key-{org}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def ask(self, verb: str, *arguments: str, org: str = "acme") -> str:
        done = self.run(verb, *arguments, org=org)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def listed(self, org: str = "acme") -> set[tuple[str, str]]:
        rows = json.loads(self.run("list", "--format=json", "--disable-color", org=org).stdout or "[]")
        return {(row["namespace"], row["rulegroup"]) for row in rows or ()}

    def write(self, namespace: str, *groups: dict[str, Any]) -> Path:
        path = self.folder / f"{namespace.replace('/', '-')}.yaml"
        path.write_text(yaml.safe_dump({"namespace": namespace, "groups": list(groups)}, allow_unicode=True))
        return path

    def group(self, name: str, threshold: int = 1) -> dict[str, Any]:
        expr = EXPRESSIONS[self.name]
        alert = {
            "alert": "ManyErrors", "expr": f"{expr} > {threshold}", "for": "2m", "keep_firing_for": "1m",
            "labels": {"severity": "page"}, "annotations": {"summary": "{{ $value }} ü"},
        }  # fmt: skip
        if self.name == "lokitool":
            del alert["keep_firing_for"]
        record = {"record": "job:errors:rate5m", "expr": expr}
        return {"name": name, "interval": "30s", "rules": [record, alert]}


@pytest.fixture(params=sorted(EXPRESSIONS))
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tool]:
    if not (PEERS / request.param).is_file():
        pytest.skip(f"no {PEERS / request.param} here: see benchmarks/README.md")
    lake = Lake(tmp_path)
    for org in ("acme", "beta"):
        lake.add_org(org, f"key-{org}", "admin")
    assert isinstance(lake.index, MemoryIndex)
    settings = Settings(data_dir=tmp_path, internal_token="t", worker_urls="http://127.0.0.1:1")
    (tmp_path / "rules").mkdir()
    with serving(create_app(settings, lake.index)) as address:
        yield Tool(request.param, address, tmp_path / "rules", lake.index)


def test_files_are_loaded_listed_and_printed(tool: Tool) -> None:
    shop = tool.write("shop", tool.group("errors"), tool.group("more"))
    odd = tool.write("a/b ü", tool.group("x/y z"))
    tool.ask("load", str(shop), str(odd))
    expected = {("shop", "errors"), ("shop", "more"), ("a/b ü", "x/y z")}
    assert tool.listed() == expected
    assert tool.listed(org="beta") == set()
    printed = tool.ask("print", "--disable-color")
    assert all(name in printed for pair in expected for name in pair)
    assert EXPRESSIONS[tool.name] in printed
    one = tool.ask("get", "a/b ü", "x/y z", "--disable-color")
    assert "severity: page" in one
    assert len(tool.index.rules("acme").rules) == 3


def test_a_directory_is_compared_and_synchronised(tool: Tool) -> None:
    tool.write("shop", tool.group("errors"), tool.group("more"))
    tool.write("other", tool.group("errors"))
    where = f"--rule-dirs={tool.folder}"
    tool.ask("sync", where)
    assert tool.listed() == {("shop", "errors"), ("shop", "more"), ("other", "errors")}
    revision = tool.index.rules("acme").revision
    assert "no changes detected" in tool.ask("diff", where, "--disable-color")
    tool.ask("sync", where)
    assert tool.index.rules("acme").revision == revision, "nothing was sent that is there already"
    tool.write("shop", tool.group("errors", threshold=7), tool.group("new"))
    shown = tool.run("diff", where, "--disable-color", "--verbose")
    assert "1 Groups Created, 1 Groups Updated, 1 Groups Deleted" in shown.stdout, shown.stdout
    tool.ask("sync", where, "--namespaces=shop")
    assert tool.listed() == {("shop", "errors"), ("shop", "new"), ("other", "errors")}
    assert "> 7" in tool.ask("get", "shop", "errors", "--disable-color")


def test_groups_and_namespaces_are_deleted(tool: Tool) -> None:
    tool.ask("load", str(tool.write("shop", tool.group("a"), tool.group("b"))))
    tool.ask("load", str(tool.write("rest", tool.group("c"))))
    tool.ask("delete", "shop", "a")
    assert tool.listed() == {("shop", "b"), ("rest", "c")}
    if tool.name == "mimirtool":  # the other has no such command
        tool.ask("delete-namespace", "shop")
        assert tool.listed() == {("rest", "c")}
    tool.ask("delete", "rest", "c")
    assert ("rest", "c") not in tool.listed()


def test_what_is_wrong_is_told(tool: Tool) -> None:
    group = tool.group("a")
    group["rules"][1]["labels"] = {"__name__": "x"}
    done = tool.run("load", str(tool.write("shop", group)))
    assert done.returncode != 0
    assert tool.listed() == set()
    tool.ask("load", str(tool.write("shop", tool.group("a"))))
    stranger = [f"--address={tool.address}", "--id=acme", "--key=nobody"]
    refused = subprocess.run(
        [str(PEERS / tool.name), "rules", "list", *stranger],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert (
        "401" in refused.stdout + refused.stderr
        or "unauthorized" in (refused.stdout + refused.stderr).lower()
    )
