"""How far the shop's telemetry has come: from the index, and from the query API as any user would ask."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import httpx

from lakerunner_cli.accounts import Desk
from lakerunner_cli.webhook import base_url
from resources.index.postgres.connections import IndexUnavailableError
from resources.settings import Settings

ORDERS = '{service_name="checkout"} |= "order"'
TIMEOUTS = '{service_name="payment"} |= "timeout"'
LINES = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """One look; `None` is "not known (yet)"."""

    rows: int = 0
    samples: int = 0
    spans: int = 0
    pending_objects: int = 0
    parked_objects: int = 0
    freshness_s: float | None = None
    answer: tuple[str, ...] = ()
    answer_ms: float | None = None
    problem: str = ""


class Watcher:
    def __init__(self, desk: Desk, settings: Settings, org: str, key: str) -> None:
        self._desk, self._org = desk, org
        self._client = httpx.Client(
            base_url=base_url(settings.query_host, settings.query_port),
            headers={"x-cardinalhq-api-key": key},
            timeout=20,
        )

    def look(self) -> Seen:
        """Never raises for a part that is away: that is something to show."""
        try:
            status = {row["signal"]: row for row in self._desk.pipeline_status() if row["org"] == self._org}
            row = status.get("logs", {})
            newest = self._desk.newest_queryable_ns(self._org, "logs")
        except IndexUnavailableError as error:
            return Seen(problem=str(error))
        lines, answer_ms, problem = self._ask()
        return Seen(
            rows=_number(row, "rows"),
            samples=_number(status.get("metrics", {}), "rows"),
            spans=_number(status.get("traces", {}), "rows"),
            pending_objects=sum(_number(each, "pending_objects") for each in status.values()),
            parked_objects=sum(_number(each, "parked_objects") for each in status.values()),
            freshness_s=None if newest is None else max(0.0, time.time() - newest / 1e9),
            answer=lines,
            answer_ms=answer_ms,
            problem=problem,
        )

    def close(self) -> None:
        self._client.close()

    def _ask(self) -> tuple[tuple[str, ...], float | None, str]:
        began = time.perf_counter()
        try:
            answer = self._client.get("/loki/api/v1/query_range", params={"query": ORDERS, "limit": LINES})
        except httpx.TransportError as error:
            return (), None, f"query API: {type(error).__name__}"
        if answer.status_code != 200:
            return (), None, f"query API: {answer.status_code} {answer.text[:200]}"
        lines = newest_lines(answer.json())
        return lines, (time.perf_counter() - began) * 1000 if lines else None, ""


def newest_lines(body: dict[str, Any]) -> tuple[str, ...]:
    """Of a Loki answer, newest first, with the time of day (UTC)."""
    values = [value for stream in body["data"]["result"] for value in stream["values"]]
    values.sort(key=lambda value: int(value[0]), reverse=True)
    return tuple(f"{_clock(int(value[0]))}  {value[1].splitlines()[0]}" for value in values[:LINES])


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(time_ns // 1_000_000_000))


def _number(row: Any, name: str) -> int:
    return int(row.get(name, 0))
