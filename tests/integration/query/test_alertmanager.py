"""A real Alertmanager takes what the ruler sends, and tells its own receivers of beginnings and ends."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakerunner_query.rules.documents import AlertRule, RuleGroup
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import Lake, free_port
from tests.support.query.ruled_lake import RuledLake
from tests.support.query.ruler_process import ReceiverServer, receiver_server

ALERTMANAGER = Path.home() / ".cache" / "lakerunner" / "peers" / "alertmanager" / "alertmanager"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not ALERTMANAGER.is_file(), reason=f"no {ALERTMANAGER} here: go install makes it"),
]


@pytest.fixture
def receiver() -> Iterator[ReceiverServer]:
    with receiver_server() as found:
        yield found


@pytest.fixture
def alertmanager(receiver: ReceiverServer, tmp_path: Path) -> Iterator[str]:
    """Run Alertmanager with one route to a webhook; yield its address."""
    port = free_port()
    route = {"receiver": "hook", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"}
    hook = {"name": "hook", "webhook_configs": [{"url": receiver.url + "/", "send_resolved": True}]}
    (tmp_path / "am.yml").write_text(json.dumps({"route": route, "receivers": [hook]}))
    flags = [
        f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    with (tmp_path / "am.log").open("w") as log:
        process = subprocess.Popen([str(ALERTMANAGER), *flags], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _is_ready(address), "Alertmanager")
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/-/ready", timeout=10).is_success
    except httpx.HTTPError:
        return False


def test_beginnings_and_ends_reach_its_receivers(
    alertmanager: str, receiver: ReceiverServer, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake")
    lake.folder.mkdir()
    lake.add_org("acme", "key-acme")
    settings = Settings(
        data_dir=tmp_path, ruler_alertmanagers=alertmanager + "/", ruler_external_url="http://lake:4381"
    )
    ruled = RuledLake(lake, tmp_path / "scratch", settings, is_real=True)
    rules = (AlertRule("Shop", "vector(1)", labels={"a": 'b"\\\n<ü>'}, annotations={"text": "{{ $value }}"}),)
    ruled.apply("acme", "f.yaml", RuleGroup("g", rules, interval_ms=60_000))
    ruled.look()
    now_ms = round(time.time() * 1000)
    ruled.evaluate(now_ms - 1_000)
    (alert,) = wait_for(lambda: httpx.get(f"{alertmanager}/api/v2/alerts").json(), "the alert")
    assert alert["labels"] == {"alertname": "Shop", "a": 'b"\\\n<ü>'}
    assert alert["generatorURL"].startswith("http://lake:4381/#view=metrics&q=")
    assert told(receiver, "firing")["annotations"] == {"text": "1"}
    ruled.apply("acme", "f.yaml", RuleGroup("g", (changed(rules[0]),), interval_ms=60_000))
    ruled.look()
    ruled.evaluate(now_ms)  # an end in the future would count for nothing
    assert told(receiver, "resolved")["labels"] == alert["labels"]
    assert lake.index.waiting_notices() == []
    ruled.close()


def changed(rule: AlertRule) -> AlertRule:
    """The same rule with a condition that is no longer true."""
    return AlertRule(rule.alert, "vector(0) > 1", labels=rule.labels, annotations=rule.annotations)


def told(receiver: ReceiverServer, status: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [one for one in receiver.seen() if one["status"] == status]

    return wait_for(found, f"a notification that it is {status}")[0]
