"""The OpenAPI document names every field and status; Prometheus' part of it stands alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from litestar.testing import TestClient

from lakerunner_query.api.shared.openapi import FIELDS
from lakerunner_query.app import create_app
from resources.index.memory import MemoryIndex
from resources.settings import Settings

KEY = {"Api-Key": "key-acme"}
API = Path(__file__).resolve().parents[4] / "lakerunner_query" / "api"


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient[Any]]:
    index = MemoryIndex()
    index.create_organisation("acme")
    index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    with TestClient(create_app(Settings(internal_token="t"), index)) as found:
        yield found


@pytest.fixture(scope="module")
def document(http: TestClient[Any]) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/schema/openapi.json").json()
    return found


def test_fields_are_of_paths_that_there_are(document: dict[str, Any]) -> None:
    assert not FIELDS.keys() - document["paths"].keys()


@pytest.mark.parametrize("dialect", ["prometheus", "loki", "jaeger"])
def test_every_field_that_is_read_is_named(dialect: str) -> None:
    text = "\n".join(path.read_text() for path in (API / dialect).glob("*.py") if path.name != "tail.py")
    read = set(
        re.findall(
            r"(?:fields\.text|fields\.all|_duration|_count|_time|optional_time|_required|flag)"
            r'\((?:fields, )?"([^"]+)"',
            text,
        )
    )
    named = {
        name.rstrip("*!")
        for path, names in FIELDS.items()
        if path.startswith(f"/{dialect}/")
        for name in names
    }
    assert read
    assert not read - named - {"match"}


def test_operations_name_their_keys_and_statuses(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        for operation in item.values():
            has_key = bool(operation.get("security"))
            assert has_key == ({"401", "403"} <= operation["responses"].keys()), path
            assert "503" in operation["responses"], path
    assert not document["paths"]["/livez"]["get"].get("security")
    assert document["paths"]["/prometheus/api/v1/query"]["get"]["security"]


def test_prometheus_document_stands_alone(http: TestClient[Any], document: dict[str, Any]) -> None:
    answer = http.get("/prometheus/api/v1/openapi.yaml", headers=KEY)
    assert answer.headers["content-type"].startswith("application/yaml")
    found = yaml.safe_load(answer.text)
    assert found["openapi"].startswith("3.1")
    (server,) = found["servers"]
    assert {server["url"] + path for path in found["paths"]} == {
        path for path in document["paths"] if path.startswith("/prometheus/api/v1/")
    }
    for path, item in found["paths"].items():
        if "get" in item and "{" not in path:
            asked = {p["name"]: "1" for p in item["get"].get("parameters", ()) if p.get("required")}
            status = http.get(server["url"] + path, params=asked, headers=KEY).status_code
            assert str(status) in item["get"]["responses"], path
