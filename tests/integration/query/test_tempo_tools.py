"""Tempo's own command line client, unmodified, against our API: what it prints is what is stored.

It sends no key but that of its address: `key:x@host` becomes a header of basic authentication.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.query.traced_shop import BEGIN, BROWSE, CHECKOUT, END, served_shop

pytestmark = pytest.mark.integration
TEMPO_CLI = Path.home() / ".cache" / "lakerunner" / "peers" / "tempo-cli"
SERVICES = "resource.service.name"


@dataclass(frozen=True)
class TempoCli:
    """The client with the address of our API."""

    host: str
    """Host and port."""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(TEMPO_CLI), "query", "api", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def about(self, what: str, *arguments: str, key: str = "key-acme") -> subprocess.CompletedProcess[str]:
        """Ask about the shop's hour."""
        flags = [one for one in arguments if one.startswith("--")]
        texts = [one for one in arguments if not one.startswith("--")]
        hour = [datetime.fromtimestamp(each, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for each in (BEGIN, END)]
        return self.run(what, f"{key}:x@{self.host}", *texts, *hour, "--path-prefix=tempo", *flags)

    def ask(self, what: str, *arguments: str, key: str = "key-acme") -> Any:
        done = self.about(what, *arguments, key=key)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def trace(self, trace_id: str, *flags: str, key: str = "key-acme") -> Any:
        done = self.run("trace-id", *flags, f"http://{key}:x@{self.host}/tempo", trace_id)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TempoCli]:
    if not TEMPO_CLI.is_file():
        pytest.skip(f"no {TEMPO_CLI} here: go build ./cmd/tempo-cli makes it (see benchmarks/README.md)")
    with served_shop(tmp_path_factory.mktemp("tempo-cli")) as address:
        yield TempoCli(address.removeprefix("http://"))


def found(answer: Any) -> list[str]:
    return [one["traceID"].zfill(32) for one in answer.get("traces", ())]


def test_searches(cli: TempoCli) -> None:
    assert found(cli.ask("search", "{}")) == [BROWSE, CHECKOUT]
    assert found(cli.ask("search", "{}", "--limit=1")) == [BROWSE]
    (trace,) = cli.ask("search", "{ status = error }", "--spss=1")["traces"]
    assert (trace["rootServiceName"], trace["rootTraceName"]) == ("web", "POST /checkout")
    (spans,) = trace["spanSets"]
    assert (len(spans["spans"]), spans["matched"]) == (1, 3)
    assert found(cli.ask("search", '{ name = "nothing" }')) == []


@pytest.mark.parametrize("flags", [(), ("--v1",)])
def test_traces(cli: TempoCli, flags: tuple[str, ...]) -> None:
    answer = cli.trace(CHECKOUT, *flags)
    groups = answer.get("resourceSpans") or answer["trace"]["resourceSpans"]
    names = {span["name"] for group in groups for scope in group["scopeSpans"] for span in scope["spans"]}
    assert names == {"POST /checkout", "render", "charge", "send", "INSERT", "write"}


def test_names_and_values(cli: TempoCli) -> None:
    scopes = {one["name"]: one["tags"] for one in cli.ask("search-tags")["scopes"]}
    assert scopes["resource"] == ["service.name"]
    assert scopes["span"] == ["owner", "width"]
    values = cli.ask("search-tag-values", SERVICES)["tagValues"]
    assert {"web", "payments", "db"} <= {one["value"] for one in values}


def test_metrics(cli: TempoCli) -> None:
    answer = cli.ask("metrics", f"{{}} | count_over_time() by ({SERVICES})")
    counts = {
        one["labels"][0]["value"]["stringValue"]: sum(each.get("value", 0) for each in one["samples"])
        for one in answer["series"]
    }
    assert (counts["web"], counts["db"]) == (3, 1)
    (one,) = cli.ask("metrics", "{} | count_over_time()", "--instant")["series"]
    assert one["value"] == sum(counts.values())


def test_what_is_wrong_is_printed(cli: TempoCli) -> None:
    wrong = cli.about("search", "{ foo")
    assert wrong.returncode != 0
    assert "line 1" in wrong.stdout + wrong.stderr
    stranger = cli.about("search", "{}", key="nobody")
    assert stranger.returncode != 0
    assert "401" in stranger.stdout + stranger.stderr
    other = {one["value"] for one in cli.ask("search-tag-values", "span.owner", key="key-other")["tagValues"]}
    assert other == {"other"}
