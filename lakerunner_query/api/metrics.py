"""What a process counts, and the wrapper that times requests.

Dictionaries and a lock: the few numbers of this process do not need a client library.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from resources.exposition import families, render
from resources.store.latency import LatencyTable


class Counters:
    """Sums by series, and the latency of requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: defaultdict[str, float] = defaultdict(float)
        self.requests = LatencyTable("lakerunner_http_request_seconds", ("route", "status"))

    def add(self, series: str, amount: float = 1) -> None:
        """`series` is a name, or a name with its labels as they appear in the text."""
        with self._lock:
            self._values[series] += amount

    def render(self, gauges: Mapping[str, float] | None = None) -> str:
        with self._lock:
            found = dict(self._values)
        return render(families({**found, **(gauges or {})})) + self.requests.render()


def counting(app: ASGIApp, counters: Counters) -> ASGIApp:
    """Seconds by route and status, last byte included; the route is the template, never the path as sent."""

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
            seconds = time.perf_counter() - began
            counters.requests.add(scope.get("path_template", "?"), str(status), seconds)

    return counted
