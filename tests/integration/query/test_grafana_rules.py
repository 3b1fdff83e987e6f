"""A real Grafana manages our rules as those of its data sources, and lists their alerts.

Its backend alone runs, which is what talks to us; pages are not looked at.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lakerunner_query.app import create_app
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.query.lake import Lake, free_port, start_workers
from tests.support.query.real_prometheus import serving
from tests.support.query.ruled_lake import RuledLake

pytestmark = pytest.mark.integration
PEERS = Path.home() / ".cache" / "lakerunner" / "peers"
GRAFANA, HOME = PEERS / "grafana" / "grafana", PEERS / "src-grafana"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to-grafana.md"
METRICS, LOGS = "lakerunner-metrics", "lakerunner-logs"
EXPRESSIONS = {METRICS: "vector(7) > 1", LOGS: "vector(7) > 1"}
SUBTYPE = {METRICS: {"subtype": "mimir"}, LOGS: {}}
"""Grafana takes a source for Mimir's if its buildinfo tells features."""


@dataclass
class Grafana:
    """A client of Grafana's own API."""

    http: httpx.Client
    ruled: RuledLake

    def rules(self, method: str, source: str, *path: str, body: Any = None) -> httpx.Response:
        address = "/".join(("/api/ruler", source, "api/v1/rules", *path))
        return self.http.request(method, address, params=SUBTYPE[source], json=body)

    def listed(self, source: str) -> dict[str, list[str]]:
        found = self.rules("GET", source)
        if found.status_code == 404:
            return {}
        assert found.status_code == 202, found.text
        return {namespace: [one["name"] for one in groups] for namespace, groups in found.json().items()}


def provisioning(address: str, folder: Path) -> None:
    """Write the sources of the page, with our address, and rules that may be edited."""
    (example,) = (
        one.partition("```")[0] for one in PAGE.read_text().split("```yaml\n")[1:] if one.startswith("apiV")
    )
    sources = yaml.safe_load(example.replace("${QUERY_KEY}", "key-acme").replace("$$", "$"))
    for source in sources["datasources"]:
        source["url"] = source["url"].replace("http://query-api.example:4381", address)
        source["jsonData"]["manageAlerts"] = True
    path = folder / "datasources" / "lakerunner.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(sources))


@pytest.fixture(scope="module")
def grafana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grafana]:
    if not GRAFANA.is_file():
        pytest.skip(f"no {GRAFANA} here: see benchmarks/README.md")
    folder = tmp_path_factory.mktemp("grafana")
    lake = Lake(folder / "lake")
    lake.folder.mkdir()
    lake.add_org("acme", "key-acme", "admin")
    ruled = RuledLake(lake, folder / "scratch", Settings(data_dir=folder))
    for stack in start_workers(folder / "data", lake.folder, 1):
        with serving(create_app(stack.settings, lake.index)) as address:
            provisioning(address, folder / "provisioning")
            yield from _running(folder, ruled)
    ruled.close()


def _running(folder: Path, ruled: RuledLake) -> Iterator[Grafana]:
    port = free_port()
    environment = {
        "GF_PATHS_DATA": f"{folder}/grafana", "GF_PATHS_LOGS": f"{folder}/grafana",
        "GF_PATHS_PROVISIONING": f"{folder}/provisioning", "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(port), "GF_SECURITY_ADMIN_PASSWORD": "admin",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false", "GF_ANALYTICS_REPORTING_ENABLED": "false",
    }  # fmt: skip
    with (folder / "grafana.log").open("w") as log:
        process = subprocess.Popen(
            [str(GRAFANA), "server", f"--homepath={HOME}"],
            env={**os.environ, **environment}, stdout=log, stderr=log,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: process.poll() is not None or _is_ready(address), "Grafana")
        assert process.poll() is None, (folder / "grafana.log").read_text()[-4000:]
        with httpx.Client(base_url=address, auth=("admin", "admin"), timeout=PATIENCE_S) as http:
            yield Grafana(http, ruled)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/api/health", timeout=10).is_success
    except httpx.HTTPError:
        return False


def group(source: str, name: str, alert: str = "Seven") -> dict[str, Any]:
    rule = {
        "alert": alert, "expr": EXPRESSIONS[source], "for": "0s", "labels": {"severity": "page"},
        "annotations": {"summary": "{{ $value }} is too much"},
    }  # fmt: skip
    return {"name": name, "interval": "1m", "rules": [rule]}


def test_sources_are_healthy(grafana: Grafana) -> None:
    for source in (METRICS, LOGS):
        found = grafana.http.get(f"/api/datasources/uid/{source}/health")
        assert found.status_code == 200, found.text
        assert found.json()["status"] == "OK"


@pytest.mark.parametrize("source", [METRICS, LOGS])
def test_rules_are_created_listed_edited_and_deleted(grafana: Grafana, source: str) -> None:
    assert grafana.listed(source) == {}
    for name in ("first", "second"):
        made = grafana.rules("POST", source, "shop", body=group(source, name))
        assert made.status_code == 202, made.text
    assert grafana.listed(source) == {"shop": ["first", "second"]}
    edited = group(source, "first", "Edited")
    assert grafana.rules("POST", source, "shop", body=edited).status_code == 202
    found = grafana.rules("GET", source, "shop", "first").json()
    assert [rule["alert"] for rule in found["rules"]] == ["Edited"]
    wrong = group(source, "first")
    wrong["rules"][0]["expr"] = "sum("
    assert grafana.rules("POST", source, "shop", body=wrong).status_code == 400
    assert grafana.rules("DELETE", source, "shop", "second").status_code == 202
    assert grafana.listed(source) == {"shop": ["first"]}
    assert grafana.rules("DELETE", source, "shop").status_code == 202
    assert grafana.listed(source) == {}


def test_alerts_are_listed(grafana: Grafana) -> None:
    for source in (METRICS, LOGS):
        alert = f"Seven of {source}"
        assert grafana.rules("POST", source, source, body=group(source, "g", alert)).status_code == 202
    grafana.ruled.look()
    grafana.ruled.evaluate(round(time.time() * 1000) - 1_000)
    for source in (METRICS, LOGS):
        rules = grafana.http.get(f"/api/prometheus/{source}/api/v1/rules").json()["data"]["groups"]
        shown = {rule["name"]: rule for one in rules for rule in one["rules"]}
        assert shown[f"Seven of {source}"]["state"] == "firing"
        alerts = grafana.http.get(f"/api/prometheus/{source}/api/v1/alerts").json()["data"]["alerts"]
        found = {one["labels"]["alertname"]: one for one in alerts}
        assert found[f"Seven of {source}"]["state"] == "firing"
        assert found[f"Seven of {source}"]["annotations"] == {"summary": "7 is too much"}
        assert grafana.rules("DELETE", source, source).status_code == 202
