"""Runs Dagster's webserver behind a key, which Dagster itself does not know.

`python -m lakerunner_cli.stack.dagster_webserver` takes the arguments of `dagster-webserver`. Programs send
the key as a bearer token or as the password of basic authentication; a browser opens `/?key=…` once and gets
a cookie. Pages of other sites reach nothing: they lack the key, and their host is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, quote

from resources.http_server import ASGIApp, Receive, Scope, Send, host_check
from resources.settings import Settings

ASK = b"""<!doctype html><meta charset="utf-8"><title>Dagster: key</title>
<form method="get"><p>Key (<code>LAKERUNNER_WEBSERVER_TOKEN</code> in <code>stack.env</code>):</p>
<input name="key" type="password" autofocus autocomplete="current-password"> <button>Open</button></form>
"""
JSON_ASK = (
    b'{"message": "Dagster asks for the key LAKERUNNER_WEBSERVER_TOKEN, as a bearer token or as a password"}'
)


class KeyCheck:
    """Lets requests with the key through to an ASGI application."""

    def __init__(self, app: ASGIApp, key: str, port: int) -> None:
        self._app, self._key = app, key
        self._cookie = f"lakerunner_dagster_{port}"  # cookies do not tell ports of a host apart
        self._sign = hmac.digest(key.encode(), b"cookie", hashlib.sha256).hex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_known(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4401})
        elif self._fits(parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])[0]):
            await _answer(send, 303, b"", self._welcome(scope["path"]))
        else:
            await _answer(send, 401, *_ask(_headers(scope)))

    def _is_known(self, scope: Scope) -> bool:
        headers = _headers(scope)
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._fits(given)
        if kind.lower() == "basic":
            return self._fits(_password(given))
        if not _is_own_page(headers):
            return False
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._sign.encode())

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._key.encode())

    def _welcome(self, path: str) -> dict[str, str]:
        cookie = f"{self._cookie}={self._sign}; HttpOnly; SameSite=Strict; Path=/"
        return {"location": quote("/" + path.lstrip("/")), "set-cookie": cookie}


def main() -> None:
    upstream: Any = import_module("dagster_webserver.cli")
    settings = Settings.load()
    key, port = settings.require("webserver_token"), settings.webserver_port
    create = upstream.create_app_from_workspace_process_context

    def create_guarded(*args: Any, **kwargs: Any) -> ASGIApp:
        return host_check(KeyCheck(create(*args, **kwargs), key, port), settings, "127.0.0.1")

    upstream.create_app_from_workspace_process_context = create_guarded
    upstream.main()


def _is_own_page(headers: Mapping[str, str]) -> bool:
    """Tell if a request comes from a page of this server: cookies go with those of its other ports, too."""
    origin = headers.get("origin", "")
    return not origin or origin.partition("://")[2] == headers.get("host", "")


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _ask(headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    """Ask a person with a form, a program with a sentence."""
    if "text/html" in headers.get("accept", ""):
        return ASK, {"content-type": "text/html; charset=utf-8"}
    return JSON_ASK, {"content-type": "application/json"}


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _answer(send: Send, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent += [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    main()
