"""What a person can do next: addresses, keys, and commands that work when pasted."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from lakerunner_cli.demo.watch import ORDERS, TIMEOUTS
from lakerunner_cli.webhook import base_url
from resources.settings import Settings

REQUESTS = "sum by (job, level) (rate(shop_requests_total[1m]))"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds; `first_answer` counts from the moment the stack was ready."""

    download: float
    start: float
    first_answer: float | None

    def __str__(self) -> str:
        first = "none" if self.first_answer is None else f"{self.first_answer:.1f} s"
        return f"download {self.download:.1f} s, start {self.start:.1f} s, first answer {first}"


def farewell(settings: Settings, org: str, read_key: str, times: Times) -> list[str]:
    query_api = base_url(settings.query_host, settings.query_port)
    key = f"-H {shlex.quote(f'x-cardinalhq-api-key: {read_key}')}"
    loki = f"curl -sG {key} {query_api}/loki/api/v1/query_range --data-urlencode limit=5 --data-urlencode"
    prometheus = f"curl -sG {key} {query_api}/prometheus/api/v1/query --data-urlencode"
    stream = f"""curl -sN {key} -H 'content-type: application/json' {query_api}/api/v1/logs/query -d"""
    return [
        "",
        f"time: {times}",
        f"Explore page   {query_api}/        (API key: {read_key})",
        f"Dagster        {base_url('127.0.0.1', settings.webserver_port)}",
        f"query API      {query_api}   (organisation {org})",
        "",
        "Try it (the key is valid for 7 days):",
        f"  {loki} {shlex.quote(f'query={ORDERS}')}",
        f"  {loki} {shlex.quote(f'query={TIMEOUTS}')}",
        f"  {prometheus} {shlex.quote(f'query={REQUESTS}')}",
        f"""  {stream} '{{"q": "{{service_name=\\"frontend\\"}} |= \\" 502 \\"", "limit": 5}}'""",
        "",
        "The stack goes on running: `lakerunner status`, `lakerunner logs`, `lakerunner down`.",
    ]
