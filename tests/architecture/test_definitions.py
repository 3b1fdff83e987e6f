"""Definitions load anywhere, fast, and hold exactly the assets that the snapshot lists."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOT = Path(__file__).parent / "asset_graph.json"
LOAD = """
import json, socket, sys, time
def refuse(*args, **kwargs):
    raise OSError("definitions tried to use the network")
socket.socket.connect = refuse
socket.create_connection = refuse
socket.getaddrinfo = refuse
start = time.process_time()
import dagster, numpy
imported = time.process_time()
from lakerunner_assets.definitions import defs
loaded = time.process_time()
specs = {s.key.to_user_string(): sorted(d.asset_key.to_user_string() for d in s.deps)
         for s in defs.resolve_all_asset_specs()}
heavy = [m for m in ("pyspark", "pandas", "numba", "duckdb", "pyarrow") if m in sys.modules]
print(json.dumps({"dagster": imported - start, "ours": loaded - imported, "specs": specs, "heavy": heavy}))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOAD],
        env={},
        cwd=tmp_path_factory.mktemp("empty"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_definitions_load_without_network_and_environment(loaded: dict[str, object]) -> None:
    assert loaded["specs"]


def test_definitions_pull_in_nothing_heavy(loaded: dict[str, object]) -> None:
    assert loaded["heavy"] == []


def test_definitions_cost_less_than_the_libraries_they_need(loaded: dict[str, float]) -> None:
    """A ratio, since machines differ; importing dagster takes one to two seconds on a laptop."""
    assert loaded["ours"] < loaded["dagster"]


def test_the_asset_graph_is_the_one_somebody_saw(loaded: dict[str, object]) -> None:
    assert loaded["specs"] == json.loads(SNAPSHOT.read_text())


def test_the_snapshot_matches_the_chain() -> None:
    from lakerunner_assets.graph import CHAIN
    from resources.lake.frequency import ROLLUPS
    from resources.lake.layout import Signal

    told = {
        f"{link.tier.value}/{signal.value}": sorted(
            f"{parent.value}/{signal.value}" for parent in link.parents
        )
        for link in CHAIN
        for signal in link.signals
    }
    derived = [f"materialized/{signal.value}" for signal in Signal]
    told["recorded/metrics"] = sorted(["cooked/logs", "cooked/metrics", *derived])
    samples = ["cooked/metrics", *derived, "recorded/metrics"]
    below = ""
    for rollup in ROLLUPS:
        parents = {"10s": samples, "1d": [below]}.get(rollup.label, [*samples, below])
        told[f"rollup/{rollup.label}"] = sorted(parents)
        below = f"rollup/{rollup.label}"
        told[f"tables/metrics_{rollup.label}"] = [below]
    told |= {"tables/logs": ["cooked/logs"], "tables/spans": ["cooked/traces"]}
    told["tables/metrics"] = ["cooked/metrics"]
    assert told == json.loads(SNAPSHOT.read_text())
