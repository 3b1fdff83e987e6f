"""The page about Grafana: its YAML parses, and its addresses answer what the clients ask there first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.query.lake import Client, Lake

pytestmark = pytest.mark.integration
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to-grafana.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
(PROVISIONING,) = (one for one in EXAMPLES if one.startswith("apiVersion"))
(PERSES,) = (one for one in EXAMPLES if one.startswith("kind"))
SOURCES = {one["type"]: one for one in yaml.safe_load(PROVISIONING)["datasources"]}
FIRST = {
    "prometheus": (
        "/api/v1/status/buildinfo", "/api/v1/query?query=1%2B1", "/api/v1/label/__name__/values",
        "/api/v1/query_exemplars?query=up", "/api/v1/metadata", "/api/v1/rules", "/api/v1/labels",
    ),
    "loki": (
        "/loki/api/v1/query?query=vector(1)%2Bvector(1)", "/loki/api/v1/labels",
        "/loki/api/v1/status/buildinfo",
        "/loki/api/v1/index/volume?query=%7Bservice_name%3D~%22.%2B%22%7D", "/loki/api/v1/detected_labels",
    ),
}  # fmt: skip
"""Requests of Grafana when a source is saved, and when Explore is opened."""


@pytest.fixture(scope="module", autouse=True)
def org(lake: Lake, client: Client) -> None:
    lake.add_org("acme", "key-grafana")


def headers(source: dict[str, Any]) -> dict[str, str]:
    """Put the secret where Grafana puts it."""
    name = source["jsonData"]["httpHeaderName1"]
    value: str = source["secureJsonData"]["httpHeaderValue1"]
    return {name: value.replace("${QUERY_KEY}", "key-grafana")}


@pytest.mark.parametrize("kind", FIRST)
def test_addresses_answer(client: Client, kind: str) -> None:
    source = SOURCES[kind]
    path = urlsplit(source["url"]).path
    for asked in FIRST[kind]:
        answer = client.http.get(path + asked, headers=headers(source))
        assert answer.status_code == 200, (asked, answer.text)
        assert answer.json().get("status", "success") == "success"


def test_a_query_by_post(client: Client) -> None:
    source = SOURCES["prometheus"]
    assert source["jsonData"]["httpMethod"] == "POST"
    path = urlsplit(source["url"]).path + "/api/v1/query_range"
    form = {"query": "vector(1)", "start": "1", "end": "2", "step": source["jsonData"]["timeInterval"]}
    assert client.http.post(path, data=form, headers=headers(source)).status_code == 200


def test_links_find_what_they_look_for() -> None:
    derived = {one["name"]: one for one in SOURCES["loki"]["jsonData"]["derivedFields"]}
    assert derived["trace"]["matcherType"] == "label"
    found = re.search(derived["request"]["matcherRegex"], "level=info request_id=ab12 took 3ms")
    assert found is not None
    assert found[1] == "ab12"
    destinations = SOURCES["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert {one["name"] for one in destinations} == {"trace_id"}


def test_perses_has_the_same_addresses() -> None:
    secret, *sources = yaml.safe_load_all(PERSES)
    found = {one["spec"]["plugin"]["kind"]: one["spec"]["plugin"]["spec"]["proxy"]["spec"] for one in sources}
    assert found["PrometheusDatasource"]["url"] == SOURCES["prometheus"]["url"]
    assert found["LokiDatasource"]["url"] == SOURCES["loki"]["url"]
    assert {one["secret"] for one in found.values()} == {secret["metadata"]["name"]}
