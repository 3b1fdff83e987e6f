"""Rules of today get their history by a back-fill in Dagster, and late lines correct it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakerunner_assets.partitions import partition_key
from lakerunner_cli.accounts import create_org, open_index, replace_key
from resources.lake.timecut import HOUR_NS, SECOND_NS, hour_start
from resources.settings import Settings
from tests.acceptance.test_operations import backfill
from tests.support.otlp_logs import Line, otlp_logs
from tests.support.patience import wait_for
from tests.support.stack_fixture import lakerunner

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ORG = "derived"
HOURS = 72
SERVICES = ("checkout", "payment")
RULES = """
materialize:
- metric: shop_lines
  from: logs
  select: '{service_name=~".+"}'
  keep: [service_name]
- metric: shop_errors
  from: logs
  select: '{service_name=~".+"} |= "error"'
  keep: [service_name]
- metric: shop_took
  from: logs
  select: '{service_name=~".+"} | logfmt | __error__=""'
  keep: [service_name]
  value: took
"""
QUERIES = (
    "sum by (service_name) (count_over_time({service_name=~`.+`} [1h]))",
    "sum by (service_name) (count_over_time({service_name=~`.+`} |= `error` [1h]))",
    "sum by (service_name) (sum_over_time({service_name=~`.+`} | logfmt | __error__=`` | unwrap took [1h]))",
)
"""A question for each rule; an hour is one window."""
Answer = dict[str, dict[int, float]]


def lines_of(chance: random.Random, hour_ns: int, count: int) -> Iterator[Line]:
    for _ in range(count):
        moment = hour_ns + 1 + chance.randrange(HOUR_NS - 1)
        yield moment, f"level={chance.choice(('info', 'error'))} took={chance.randrange(500)}"


class Shop:
    """An organisation with logs of the last three days."""

    def __init__(self, stack: Settings, client: httpx.Client, folder: Path) -> None:
        self.stack, self._http, self._folder = stack, client, folder
        self.hours = [hour_start(time.time_ns()) - (n + 2) * HOUR_NS for n in range(HOURS)][::-1]
        self._sent = 0

    def send(self, service: str, lines: list[Line]) -> None:
        self._sent += 1
        path = self._folder / f"{self._sent}.binpb"
        path.write_bytes(otlp_logs(lines, service))
        done = lakerunner(
            self.stack.data_dir, "ingest", str(path), "--org", ORG, "--signal", "logs", "--wait"
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def apply(self, text: str) -> None:
        body = {"files": [{"name": "rules.yaml", "namespace": "shop", "text": text}], "language": "promql"}
        answer = self._http.post("/api/v1/rules", json=body)
        assert answer.status_code == 200, answer.text

    def ask(self, query: str, *, rewrite: bool) -> tuple[Answer, int]:
        """Return the answer by service and end of the hour, and how many steps the metric answered."""
        times = [(self.hours[0] + HOUR_NS) // SECOND_NS, (self.hours[-1] + HOUR_NS) // SECOND_NS]
        fields: dict[str, Any] = {
            "query": query, "start": times[0], "end": times[1], "step": 3600, "rewrite": str(rewrite).lower(),
        }  # fmt: skip
        answer = self._http.get("/loki/api/v1/query_range", params=fields)
        assert answer.status_code == 200, answer.text
        found = {
            series["metric"]["service_name"]: {int(at): float(value) for at, value in series["values"]}
            for series in answer.json()["data"]["result"]
        }
        return found, self._steps(query, times) if rewrite else 0

    def _steps(self, query: str, times: list[int]) -> int:
        body = {"q": query, "s": str(times[0] * 1000), "e": str(times[1] * 1000), "step": "1h"}
        answer = self._http.post("/api/v1/logs/explain", json=body)
        assert answer.status_code == 200, answer.text
        counted = [
            text for text in answer.text.splitlines() if text.startswith("steps from derived metrics:")
        ]
        return int(counted[0].split(":")[1].split(",")[0]) if counted else 0

    def is_served(self) -> bool:
        return all(self.ask(query, rewrite=True)[1] == HOURS for query in QUERIES)

    def check(self) -> None:
        """Compare every hour of every question with the records."""
        for query in QUERIES:
            derived, steps = self.ask(query, rewrite=True)
            records, _ = self.ask(query, rewrite=False)
            assert steps == HOURS, query
            assert derived == records, query
            assert derived.keys() == set(SERVICES)


@pytest.fixture(scope="module")
def shop(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_index(stack) as desk:
        create_org(desk, ORG)
        key = replace_key(desk, ORG, "admin", "derived")
    url = f"http://127.0.0.1:{stack.query_port}"
    with httpx.Client(base_url=url, headers={"Api-Key": key}, timeout=60) as client:
        yield Shop(stack, client, tmp_path_factory.mktemp("derived"))


def test_rules_of_today_are_backfilled_over_three_days_and_late_lines_correct_them(shop: Shop) -> None:
    chance = random.Random(16)
    sent: Counter[str] = Counter()
    for service in SERVICES:
        lines = [line for hour in shop.hours for line in lines_of(chance, hour, 12)]
        shop.send(service, lines)
        sent[service] += len(lines)
    shop.apply(RULES)
    assert shop.ask(QUERIES[0], rewrite=True)[1] == 0, "hours before a rule was made belong to a back-fill"
    keys = [str(partition_key(ORG, hour)) for hour in shop.hours]
    assert backfill(shop.stack, ["materialized"], keys) == "COMPLETED_SUCCESS"
    shop.check()
    found, _ = shop.ask(QUERIES[0], rewrite=True)
    assert {service: sum(values.values()) for service, values in found.items()} == sent
    hour = shop.hours[HOURS // 2]
    shop.send(SERVICES[0], list(lines_of(chance, hour, 5)))
    wait_for(shop.is_served, "the hour with late lines to be derived again")
    shop.check()
    assert backfill(shop.stack, ["cooked"], keys[:1]) == "COMPLETED_SUCCESS"
    wait_for(shop.is_served, "the hour that was cooked again to be derived again")
    shop.check()
