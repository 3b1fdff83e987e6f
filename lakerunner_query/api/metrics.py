"""Counters of a process in Prometheus text form, and the wrapper that counts requests.

A dictionary and a lock: the few numbers of this process do not need a client library.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send


class Counters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[str, float] = defaultdict(float)

    def add(self, series: str, amount: float = 1) -> None:
        """`series` is a name, or a name with its labels as they appear in the text."""
        with self._lock:
            self._values[series] += amount

    def render(self, gauges: Mapping[str, float] | None = None) -> str:
        with self._lock:
            found = sorted(self._values.items())
        lines = [f"{series} {value:g}" for series, value in found]
        lines += [f"{series} {value:g}" for series, value in (gauges or {}).items()]
        return "\n".join(lines) + "\n"


def counting(app: ASGIApp, counters: Counters) -> ASGIApp:
    """Requests and seconds by route and status; the route is the template, never the path as sent."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, noted)
        finally:
            labels = f'{{route="{scope.get("path_template", "?")}",status="{status}"}}'
            counters.add(f"lakerunner_http_requests_total{labels}")
            counters.add(f"lakerunner_http_request_seconds_total{labels}", time.perf_counter() - began)

    return counted
