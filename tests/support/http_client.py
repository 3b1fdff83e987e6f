"""HTTP as a client of the stack speaks it."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from resources.settings import Settings
from tests.support.patience import PATIENCE_S


def call(
    url: str, body: Any = None, headers: Mapping[str, str] | None = None, timeout: float = 60
) -> tuple[int, Any]:
    """(status, JSON body or text); errors are answers too."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=data, headers={"Content-Type": "application/json", **(headers or {})}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, _parsed(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, _parsed(error.read())


def query_url(settings: Settings, path: str, **values: object) -> str:
    query = f"?{urllib.parse.urlencode(values)}" if values else ""
    return f"http://{settings.query_host}:{settings.query_port}{path}{query}"


def key_header(key: str) -> dict[str, str]:
    return {"x-cardinalhq-api-key": key}


def stream(settings: Settings, key: str, body: Mapping[str, object]) -> list[dict[str, Any]]:
    """The events of `POST /api/v1/logs/query`."""
    request = urllib.request.Request(
        query_url(settings, "/api/v1/logs/query"),
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **key_header(key)},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return [json.loads(line[len("data:") :]) for line in lines if line.startswith("data:")]


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
