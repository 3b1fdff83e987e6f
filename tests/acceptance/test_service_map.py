"""Spans through the whole stack become span metrics and a service map; late halves join."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakerunner_cli.accounts import create_org, open_index, replace_key
from resources.lake.timecut import SECOND_NS, hour_start
from resources.settings import Settings
from tests.support.materialized.spans import distinct, plain_edges, request, traces
from tests.support.patience import wait_for
from tests.support.stack_fixture import lakerunner

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ORG = "mapped"
HOURS_S = 3 * 3600


@pytest.fixture(scope="module")
def key(stack: Settings) -> str:
    with open_index(stack) as desk:
        create_org(desk, ORG)
        return replace_key(desk, ORG, "admin", "mapped")


def get(stack: Settings, key: str, path: str, **fields: object) -> dict[str, Any]:
    url = f"http://127.0.0.1:{stack.query_port}{path}"
    answer = httpx.get(url, params=fields, headers={"Api-Key": key}, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_late_halves_join_what_was_derived_before(stack: Settings, key: str, tmp_path: Path) -> None:
    hour = hour_start(time.time_ns()) - HOURS_S * SECOND_NS
    calls = traces(random.Random(11), 80, hour)  # of an hour that is over, and some beside it
    hours = [hour + n * 3600 * SECOND_NS for n in (-1, 0, 1)]
    start_s, end_s = hours[0] // SECOND_NS, hours[-1] // SECOND_NS + 3600
    for part in (1, 2):
        sent = calls[::2] if part == 1 else calls
        path = tmp_path / f"part{part}.binpb"
        path.write_bytes(request(calls[part - 1 :: 2]))
        done = lakerunner(stack.data_dir, "ingest", str(path), "--org", ORG, "--signal", "traces", "--wait")
        assert done.returncode == 0, done.stdout + done.stderr
        edges: Counter[tuple[str, str, str]] = sum((plain_edges(sent, one)[0] for one in hours), Counter())

        def shown() -> bool:
            found = get(stack, key, "/api/v1/service-map", start=start_s, end=end_s)
            requests = {
                (edge["client"], edge["server"], edge["connection_type"]): edge["requests"]
                for edge in found["edges"]
            }
            return requests == edges  # noqa: B023 - called within this turn

        wait_for(shown)
        query = f"sum(increase(traces_spanmetrics_calls_total[{end_s - start_s}s]))"
        answer = get(stack, key, "/prometheus/api/v1/query", query=query, time=end_s)
        ((_, value),) = [one["value"] for one in answer["data"]["result"]]
        assert float(value) == len(distinct(sent))
    exemplars = get(
        stack, key, "/prometheus/api/v1/query_exemplars", start=start_s, end=end_s,
        query="traces_service_graph_request_server_seconds_bucket",
    )  # fmt: skip
    traced = {one["labels"]["trace_id"] for series in exemplars["data"] for one in series["exemplars"]}
    assert traced <= {call.trace.hex() for call in calls}
    assert traced
