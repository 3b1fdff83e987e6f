"""Perses, a dashboard that is not ours, shows metrics and log lines of the lake.

`~/.cache/lakerunner/peers/perses` holds its server and the archives of its plugins from npm, made as
benchmarks/README.md says. The browser's part needs Chromium; screenshots of what failed stay in pytest's
folder.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from resources.lake.timecut import SECOND_NS
from tests.support.patience import PATIENCE_S
from tests.support.query.lake import BASE, Client, Lake, Line, Stack, free_port
from tests.support.query.metric_lake import BASE_MS, labels, write_samples
from tests.support.query.real_prometheus import served

pytestmark = pytest.mark.integration
PEER = Path.home() / ".cache" / "lakerunner" / "peers" / "perses"
SERVER, PLUGINS = PEER / "perses", PEER / "plugins"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECRET = {"kind": "GlobalSecret", "metadata": {"name": "lakerunner"},
          "spec": {"authorization": {"type": "Bearer", "credentials": "key-acme"}}}  # fmt: skip
NOW_S = int(time.time())


@pytest.fixture(scope="module")
def data(lake: Lake, client: Client) -> None:
    """Half an hour of a counter and some lines, up to now."""
    now = NOW_S * 1000 - BASE_MS
    rows = [(now - 1_800_000 + n * 15_000, float(n * 30)) for n in range(120)]
    write_samples(
        lake, "acme", {labels("hits_total", job="web"): rows, labels("hits_total", job="api"): rows[::2]}
    )
    first = (NOW_S - 600) * SECOND_NS - BASE
    lake.write("acme", [Line(first + n * SECOND_NS, f"GET /checkout {n} took 3ms", "web") for n in range(60)])


def source(kind: str, url: str) -> dict[str, Any]:
    proxy = {"kind": "HTTPProxy", "spec": {"url": url, "secret": "lakerunner"}}
    plugin = {"kind": kind, "spec": {"proxy": proxy}}
    spec = {"default": True, "plugin": plugin}
    return {"kind": "GlobalDatasource", "metadata": {"name": kind.lower()}, "spec": spec}


def panel(title: str, chart: str, kind: str, query: str, language: str) -> dict[str, Any]:
    asked = {"kind": kind, "spec": {"plugin": {"kind": language, "spec": {"query": query}}}}
    return {"kind": "Panel", "spec": {
        "display": {"name": title}, "plugin": {"kind": chart, "spec": {}}, "queries": [asked],
    }}  # fmt: skip


VISITS = 5
"""The browser's clock runs ahead of servers on a busy machine, and it leaves before they answer."""
PANELS = {
    "rate": panel("Hits per second", "TimeSeriesChart", "TimeSeriesQuery",
                  "sum by (job) (rate(hits_total[5m]))", "PrometheusTimeSeriesQuery"),
    "lines": panel("Lines", "LogsTable", "LogQuery", '{service_name="web"}', "LokiLogQuery"),
    "count": panel("Lines per minute", "TimeSeriesChart", "TimeSeriesQuery",
                   'sum(count_over_time({service_name="web"}[1m]))', "LokiTimeSeriesQuery"),
}  # fmt: skip
GRID = [
    {"x": 0, "y": 8 * row, "width": 24, "height": 8, "content": {"$ref": f"#/spec/panels/{name}"}}
    for row, name in enumerate(PANELS)
]
DASHBOARD = {"kind": "Dashboard", "metadata": {"name": "shop", "project": "shop"}, "spec": {
    "duration": "30m", "panels": PANELS, "layouts": [{"kind": "Grid", "spec": {"items": GRID}}],
}}  # fmt: skip


@pytest.fixture(scope="module")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The address of a Perses with both sources and a dashboard of three panels, and ours."""
    archives = sorted(PLUGINS.glob("*.tgz")) if PLUGINS.is_dir() else []
    if not SERVER.is_file() or not archives:
        pytest.skip(f"no {SERVER} with plugins here (see benchmarks/README.md)")
    request.getfixturevalue("data")
    lake: Lake = request.getfixturevalue("lake")
    stack: Stack = request.getfixturevalue("stack")
    folder = tmp_path_factory.mktemp("perses")
    for archive in archives:
        unpack(archive, folder / "plugins" / archive.stem)
    config = {
        "database": {"file": {"folder": str(folder / "data"), "extension": "json"}},
        "plugin": {"path": str(folder / "plugins"), "archive_path": str(folder / "none")},
    }
    (folder / "none").mkdir()
    (folder / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    command = [str(SERVER), f"--config={folder}/config.yaml", f"--web.listen-address=127.0.0.1:{port}"]
    with served(lake, stack) as ours, (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        address = f"http://127.0.0.1:{port}"
        try:
            wait(address, process, folder / "log")
            bare = ours.address.removesuffix("/prometheus")
            for path, body in (
                ("globalsecrets", SECRET),
                ("globaldatasources", source("PrometheusDatasource", ours.address)),
                ("globaldatasources", source("LokiDatasource", bare)),
                ("projects", {"kind": "Project", "metadata": {"name": "shop"}}),
                ("projects/shop/dashboards", DASHBOARD),
            ):
                made = httpx.post(f"{address}/api/v1/{path}", json=body, timeout=PATIENCE_S)
                assert made.is_success, made.text
            yield address, bare
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a plugin from npm, and add schemas that allow everything: those are not part of it."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder.parent / "unpacked", filter="data")
    shutil.move(folder.parent / "unpacked" / "package", folder)
    shutil.rmtree(folder.parent / "unpacked")
    (folder / "cue.mod").mkdir()
    (folder / "cue.mod" / "module.cue").write_text(
        'module: "example.com/plugin@v0"\nlanguage: version: "v0.12.0"\n'
    )
    for plugin in json.loads((folder / "package.json").read_text())["perses"]["plugins"]:
        if plugin["kind"] != "Explore":
            name = plugin["spec"]["name"]
            (folder / "schemas" / name).mkdir(parents=True)
            (folder / "schemas" / name / f"{name}.cue").write_text(
                f'package model\n\nkind: "{name}"\nspec: {{...}}\n'
            )


def wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        try:
            found = httpx.get(f"{address}/api/v1/plugins", timeout=10).json()
        except (httpx.HTTPError, ValueError):
            time.sleep(0.1)
            continue
        assert all(plugin["status"]["isLoaded"] for plugin in found), found
        return
    raise AssertionError(log.read_text())


def asked(ours: str, route: str) -> int:
    """Count the answers of a route with 200."""
    text = httpx.get(f"{ours}/metrics", timeout=PATIENCE_S).text
    name = "lakerunner_http_request_seconds_count"
    found = re.search(rf'{name}{{route="{re.escape(route)}",status="200"}} (\d+)', text)
    return int(found[1]) if found else 0


def test_what_panels_ask_through_its_proxy(servers: tuple[str, str]) -> None:
    proxy = f"{servers[0]}/proxy/globaldatasources"
    times = {"start": NOW_S - 1800, "end": NOW_S, "step": 15}
    rates = httpx.post(
        f"{proxy}/prometheusdatasource/api/v1/query_range", timeout=PATIENCE_S,
        data={"query": "sum by (job) (rate(hits_total[5m]))", **times},
    ).json()  # fmt: skip
    assert {one["metric"]["job"] for one in rates["data"]["result"]} == {"api", "web"}
    lines = httpx.get(
        f"{proxy}/lokidatasource/loki/api/v1/query_range", timeout=PATIENCE_S,
        params={"query": '{service_name="web"}', **times},
    ).json()  # fmt: skip
    assert "GET /checkout 59 took 3ms" in {
        line for one in lines["data"]["result"] for _, line in one["values"]
    }


def test_the_dashboard_in_a_browser(servers: tuple[str, str], tmp_path: Path) -> None:
    perses, ours = servers
    if CHROMIUM is None:
        pytest.skip("no Chromium here (apt-get install chromium)")
    if "forget to generate the react app" in httpx.get(perses, timeout=PATIENCE_S).text:
        pytest.skip(f"{SERVER} was built without its pages (see benchmarks/README.md)")
    screenshot = tmp_path / "perses.png"
    page = f"{perses}/projects/shop/dashboards/shop?start=30m"
    common = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1300",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000",
    ]  # fmt: skip
    metrics, lines = "/prometheus/api/v1/query_range", "/loki/api/v1/query_range"
    before = asked(ours, metrics), asked(ours, lines)
    for _ in range(VISITS):
        subprocess.run(
            [*common, f"--screenshot={screenshot}", page], capture_output=True, check=True, timeout=PATIENCE_S
        )
        if asked(ours, metrics) > before[0] and asked(ours, lines) >= before[1] + 2:
            break
    else:
        pytest.fail(f"the panels did not ask for their data: see {screenshot}")
    dump = [*common, "--dump-dom", page]
    for _ in range(VISITS):
        dom = subprocess.run(dump, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
        if "<canvas" in dom:
            break
    for expected in ("Hits per second", "Lines", "Lines per minute", "<canvas"):
        assert expected in dom, f"see {screenshot}"
    for unexpected in ("No data", "MuiAlert", "Failed to"):
        assert unexpected not in dom, f"see {screenshot}"
