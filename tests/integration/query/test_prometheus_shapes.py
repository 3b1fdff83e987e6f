"""Requests recorded from a real Prometheus, replayed: the answers have its structure, types and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.corpora import CORPORA
from tests.support.query.lake import Client, Lake
from tests.support.query.metric_lake import BASE_MS, labels, write_samples
from tests.support.query.shapes import assert_like

pytestmark = pytest.mark.integration
FOLDER = CORPORA / "http_shapes"
SHAPES = sorted(FOLDER.glob("prom_*.json"))
START, END = 1_767_231_600, 1_767_232_200
FORMS: dict[str, dict[str, object]] = {
    "prom_health_1plus1": {"query": "1+1", "time": 4},
    "prom_labels": {"start": START, "end": END, "match[]": "demo_num_cpus"},
    "prom_series": {"start": START, "end": END, "match[]": "demo_num_cpus"},
    "prom_query_range": {
        "query": "sum by (mode) (rate(demo_cpu_usage_seconds_total[5m]))",
        "start": START, "end": END, "step": 300,
    },
}  # fmt: skip
"""Bodies, which were not recorded."""
OURS = {"prom_flags": {"query.lookback-delta", "query.max-concurrency", "query.max-samples", "query.timeout"}}
"""Flags of another server: those that mean something here."""
ADDED = {"prom_buildinfo": "features"}
"""Fields that Mimir adds to Prometheus' answer; Grafana edits rules where it finds them."""
EXACT = (
    ".metric.", ".error", ".status", ".resultType", "format_query", "prom_series", "label_values_match",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def demo(lake: Lake, client: Client) -> None:
    """As much of the demo's metrics as the requests ask for: ten minutes at 5 s, of three instances."""
    begin = START * 1000 - BASE_MS - 300_000
    times = range(begin, END * 1000 - BASE_MS + 5_000, 5_000)
    series = {}
    for place in range(3):
        of = {"instance": f"demo.promlabs.com:{10_000 + place}", "job": "demo"}
        series[labels("demo_num_cpus", **of)] = [(at + 918, 4.0) for at in times]
        for mode in ("idle", "system", "user"):
            cpu = labels("demo_cpu_usage_seconds_total", mode=mode, **of)
            series[cpu] = [(at, n * 1.5) for n, at in enumerate(times)]
    write_samples(lake, "acme", series)


def test_there_are_shapes_to_replay() -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"no {FOLDER} here: recorded answers are not part of the repository")
    assert len(SHAPES) >= 20


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_the_answer_has_the_recorded_shape(client: Client, path: Path) -> None:
    recorded = json.loads(path.read_text())
    request = recorded["request"]
    response = client.http.request(
        request["method"],
        "/prometheus" + request["path"],
        params=request["params"],
        data=FORMS.get(path.stem),
        headers=client.headers,
    )
    assert response.status_code == recorded["status"], response.text
    assert response.headers["content-type"] == recorded["content_type"]
    if isinstance(recorded["body"], str):
        assert response.text == recorded["body"]
    elif path.stem in OURS:
        assert OURS[path.stem] <= set(response.json()["data"]) & set(recorded["body"]["data"])
    else:
        found = response.json()
        if path.stem in ADDED:
            assert found["data"].pop(ADDED[path.stem])
        assert_like(found, recorded["body"], path.stem, EXACT, any_length="prom_label_values_name")
