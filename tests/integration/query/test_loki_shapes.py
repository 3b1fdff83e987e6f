"""Requests recorded from a real Loki, replayed: the answers have its structure, types and errors.

The rows are those the recorded server had, as far as its answers tell: a minute of two streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.lake.timecut import SECOND_NS
from resources.settings import Settings
from tests.support.corpora import CORPORA
from tests.support.query.lake import Client, Entry, Lake
from tests.support.query.shapes import assert_like

pytestmark = pytest.mark.integration
FOLDER = CORPORA / "http_shapes"
SHAPES = sorted(FOLDER.glob("loki_*.json"))
LAST_NS = 1_794_983_610_620_184_512
SENT_ELSEWHERE = {"loki_push"}
"""The ingress takes it: tests/integration/test_receivers.py."""
EXACT = (
    ".metric.", ".status", ".resultType", "loki_labels.data", "loki_label_values.data",
    "loki_label_values_query.data", "loki_series.data", "loki_format_query.data", ".stream.",
    ".encodingFlags", "].values", ".parsers", ".label", "loki_detected_field_values.limit", ".error",
)  # fmt: skip
WITHOUT_KEY = {"loki_drilldown_limits": "no API key"}
"""Recorded without an organisation; here without a key."""
UNREADY = {"loki_ready"}
DISCOVERED = frozenset({"service_name", "detected_level"})
"""Labels that a push gets here, as in Loki by default; the recorded server had been told not to."""
ASKED = {"loki_logs_volume_histogram": {"query": 'sum by (level) (count_over_time({app="web"}[1m]))'}}
"""The same without a discovered label."""
IN_ORDER = {
    "loki_index_volume", "loki_index_volume_range", "loki_series", "loki_detected_fields",
    "loki_query_instant_vector", "loki_query_range_streams", "loki_query_range_categorize",
}  # fmt: skip
"""Compared by labels: there by size of lines, by chance, or here by a discovered label first."""


@pytest.fixture(scope="module", autouse=True)
def rows(lake: Lake, client: Client) -> None:
    levels, statuses = ("info", "warn", "error"), (200, 404, 500)
    web: list[Entry] = []
    for n in range(60):
        line = (
            f"level={levels[n % 3]} method=GET path=/api/{n % 4} status={statuses[n % 3]} "
            f"duration={7 * n}ms size={n}KB"
        )
        web.append((LAST_NS - (59 - n) * SECOND_NS, line, {"trace_id": f"{n:032x}"}))
    auth: list[Entry] = [
        (at, json.dumps({"user": f"u{n}", "ok": True}), {}) for n, (at, _, _) in enumerate(web)
    ]
    lake.push("acme", [({"app": "web", "env": "prod"}, web), ({"app": "auth", "env": "dev"}, auth)])


@pytest.fixture(scope="module")
def unready(lake: Lake) -> Iterator[TestClient]:  # type: ignore[type-arg]
    settings = Settings(internal_token="t", worker_urls="http://127.0.0.1:1")
    with TestClient(create_app(settings, lake.index)) as http:
        yield http


def test_there_are_shapes_to_replay() -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"no {FOLDER} here: recorded answers are not part of the repository")
    assert len(SHAPES) >= 25


@pytest.mark.parametrize(
    "path", [path for path in SHAPES if path.stem not in SENT_ELSEWHERE], ids=lambda path: path.stem
)
def test_the_answer_has_the_recorded_shape(
    client: Client,
    unready: TestClient,  # type: ignore[type-arg]
    path: Path,
) -> None:
    recorded = json.loads(path.read_text())
    request, expected = recorded["request"], recorded["body"]
    headers = (request["headers"] or {}) | ({} if path.stem in WITHOUT_KEY else client.headers)
    asked = unready if path.stem in UNREADY else client.http
    params = (request["params"] or {}) | ASKED.get(path.stem, {})
    response = asked.request(request["method"], request["path"], params=params, headers=headers)
    assert response.status_code == recorded["status"], response.text
    found_type, expected_type = (
        text.replace("UTF-8", "utf-8")
        for text in (response.headers["content-type"], recorded["content_type"])
    )
    assert found_type == expected_type
    if path.stem in WITHOUT_KEY:
        assert response.text.startswith(WITHOUT_KEY[path.stem])
    elif path.stem in UNREADY:
        assert "workers ready: 0" in response.text
    elif isinstance(expected, str):
        assert re.sub(r'(?:detected_level|service_name)="\w*", ', "", response.text).startswith(expected)
    elif path.stem == "loki_rules":  # an address of Prometheus' too, which leaves empty errors out
        assert response.json() == {name: expected[name] for name in ("status", "data")}
    else:
        found = undiscovered(response.json())
        if path.stem in IN_ORDER:
            found, expected = in_order(found), in_order(expected)
        assert_like(found, expected, path.stem, EXACT, any_length="loki_patterns")


def undiscovered(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: undiscovered(value) for name, value in found.items() if name not in DISCOVERED}
    if isinstance(found, list):
        return [undiscovered(one) for one in found if _name(one) not in DISCOVERED]
    return found


def _name(one: Any) -> str:
    return str(one.get("label", "")) if isinstance(one, dict) else str(one)


def in_order(found: Any) -> Any:
    """Lists of objects by what they are about."""
    if isinstance(found, dict):
        return {name: in_order(value) for name, value in found.items()}
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return sorted(map(in_order, found), key=_about)
    return found


def _about(one: dict[str, Any]) -> str:
    return json.dumps(next((one[name] for name in ("metric", "stream", "label") if name in one), one))
