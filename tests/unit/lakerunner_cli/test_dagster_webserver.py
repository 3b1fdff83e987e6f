"""Dagster's webserver answers who has its key, and nobody who asks for another host."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import MutableMapping
from typing import Any

import pytest

from lakerunner_cli.stack.dagster_webserver import KeyCheck
from resources.http_server import host_check
from resources.settings import Settings

KEY = "secret-key"


async def _dagster(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"Dagster"})


APP = host_check(KeyCheck(_dagster, KEY, 4300), Settings(), "127.0.0.1")


def ask(
    headers: dict[str, str], path: str = "/graphql", query: str = "", kind: str = "http"
) -> list[dict[str, Any]]:
    """Return what is sent to a request."""
    sent: list[dict[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    async def receive() -> MutableMapping[str, Any]:
        return {"type": f"{kind}.connect"}

    pairs = [(name.encode(), value.encode()) for name, value in {"host": "localhost:4300", **headers}.items()]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": pairs}
    asyncio.run(APP(scope, receive, send))
    return sent


def basic(text: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, basic(f"anybody:{KEY}")])
def test_the_key_opens(headers: dict[str, str]) -> None:
    assert ask(headers)[0]["status"] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Bearer "},
        {"authorization": "Basic %%%"},
        {"authorization": KEY},
        basic("anybody:wrong"),
        basic(KEY),
        {"cookie": f"lakerunner_dagster_4300={KEY}"},
        {"cookie": "lakerunner_dagster_4300="},
        {"cookie": "\u00a7;;=,"},
    ],
)
def test_nothing_else_does(headers: dict[str, str]) -> None:
    assert ask(headers)[0]["status"] == 401


def test_a_browser_gets_a_form_and_then_a_cookie() -> None:
    assert b"<form" in ask({"accept": "text/html"}, "/")[1]["body"]
    answer = ask({}, "/runs", f"key={KEY}")[0]
    headers = {name.decode(): value.decode() for name, value in answer["headers"]}
    assert (answer["status"], headers["location"]) == (303, "/runs")
    cookie, _, rules = headers["set-cookie"].partition(";")
    assert "HttpOnly" in rules
    assert "SameSite=Strict" in rules
    assert KEY not in cookie
    assert ask({"cookie": cookie})[0]["status"] == 200
    assert ask({"cookie": cookie, "origin": "http://localhost:4300"})[0]["status"] == 200
    for other in ("http://localhost:9999", "http://evil.example", "null"):
        assert ask({"cookie": cookie, "origin": other})[0]["status"] == 401


def test_a_redirect_stays_on_this_server() -> None:
    headers = dict(ask({}, "//evil.example/x", f"key={KEY}")[0]["headers"])
    assert headers[b"location"] == b"/evil.example/x"


def test_subscriptions_need_the_key_too() -> None:
    assert ask({}, kind="websocket") == [{"type": "websocket.close", "code": 4401}]
    assert ask({"authorization": f"Bearer {KEY}"}, kind="websocket")[0]["status"] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""])
def test_another_host_is_refused_with_the_key_too(host: str) -> None:
    assert ask({"host": host, "authorization": f"Bearer {KEY}"})[0]["status"] == 421
    assert ask({"host": host}, kind="websocket") == [{"type": "websocket.close", "code": 1008}]
