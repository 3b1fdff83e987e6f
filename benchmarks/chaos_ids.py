"""Compares row ids: what was sent, what the query API returns, what the files of live segments hold.

The index says which object got which number, and the sender knows the text of each of its rows, so the
expected ids are known without asking either reader. Samples have no id in answers: PromQL counts them.
"""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow.dataset as ds

from benchmarks.samples import GAUGE, NS_PER_MS, SERIES
from benchmarks.traffic import ROWS, Traffic, row_text
from resources.lake.timecut import HOUR_NS, SECOND_NS
from resources.settings import Settings

LIMIT = 50_000
WINDOW_NS = 6 * HOUR_NS
SHOWN = 5
Row = tuple[str, int, int, str]
"""Organisation, object, position, text."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Rows by id from three sources; the differences of the last two from the first."""

    expected: int
    answered: int
    stored: int
    wrong_answers: list[str] = field(default_factory=list)
    wrong_files: list[str] = field(default_factory=list)
    samples_expected: int = 0
    samples_counted: int = 0


def compare_ids(settings: Settings, traffic: Traffic, start_ns: int) -> Ids:
    expected = expected_rows(settings, traffic)
    end_ns = time.time_ns() + 60 * SECOND_NS
    answered = Counter(
        row for org in traffic.orgs for row in _answered(settings, traffic, org, start_ns, end_ns)
    )
    stored = Counter(row for org in traffic.orgs for row in _stored(settings, org, traffic.service))
    return Ids(
        expected.total(),
        answered.total(),
        stored.total(),
        difference(expected, answered),
        difference(expected, stored),
        _distinct_milliseconds(traffic),
        sum(_counted(settings, traffic, org, start_ns, end_ns) for org in traffic.orgs),
    )


def difference(expected: Counter[Row], found: Counter[Row]) -> list[str]:
    """Return what is missing, too many or another text, in words.

    >>> difference(Counter({("a", 1, 0, "x"): 1, ("a", 1, 1, "y"): 1}), Counter({("a", 1, 0, "x"): 2}))
    ["1 missing, e.g. [('a', 1, 1, 'y')]", "1 too many, e.g. [('a', 1, 0, 'x')]"]
    """
    texts = []
    for what, rows in (("missing", expected - found), ("too many", found - expected)):
        if rows:
            texts.append(f"{rows.total()} {what}, e.g. {sorted(rows)[:SHOWN]}")
    return texts


def expected_rows(settings: Settings, traffic: Traffic) -> Counter[Row]:
    """Return one row per position of each object that was sent, under the number the index gave it."""
    with psycopg.connect(settings.index_dsn) as connection:
        numbers: dict[str, int] = dict(
            connection.execute("SELECT key, object_id FROM lakerunner.raw_object").fetchall()
        )
    return Counter(
        (sent.org, numbers[sent.key], row, row_text(sent.number, row))
        for sent in traffic.sent
        for row in range(ROWS)
    )


def _answered(settings: Settings, traffic: Traffic, org: str, start_ns: int, end_ns: int) -> list[Row]:
    """Ask for every row by event time, window by window."""
    rows: list[Row] = []
    for begin in range(start_ns, end_ns, WINDOW_NS):
        body = {
            "q": f'{{service_name="{traffic.service}"}}',
            "s": str(begin),
            "e": str(min(begin + WINDOW_NS, end_ns)),
            "limit": LIMIT,
        }
        found = _stream(settings, traffic.keys[org], body)
        if len(found) == LIMIT:
            raise RuntimeError(f"{LIMIT} rows or more within {WINDOW_NS} ns: ask for shorter windows")
        for each in found:
            source, position = each["id"].split(":")
            rows.append((org, int(source), int(position), each["message"]))
    return rows


def _stream(settings: Settings, key: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Read one answer to its end; anything but a complete one is an error."""
    request = urllib.request.Request(
        f"http://{settings.query_host}:{settings.query_port}/api/v1/logs/query",
        data=json.dumps(body).encode(),
        headers={"x-cardinalhq-api-key": key, "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        events = [
            json.loads(line[5:]) for line in answer.read().decode().splitlines() if line.startswith("data:")
        ]
    if not events or events[-1]["type"] != "done" or events[-1]["data"]["status"] != "complete":
        raise RuntimeError(f"the answer is not complete: {events[-1:]}")
    return [event["data"] for event in events if event["type"] == "result"]


def _stored(settings: Settings, org: str, service: str) -> list[Row]:
    """Read the files of live segments with pyarrow alone."""
    with psycopg.connect(settings.index_dsn) as connection:
        keys = connection.execute(
            "SELECT key FROM lakerunner.segment WHERE org_id = %s AND signal = 'logs' AND retired_at IS NULL",
            (org,),
        ).fetchall()
    rows: list[Row] = []
    for (key,) in keys:
        table = ds.dataset(f"{settings.data_dir}/lake/{key}", format="parquet").to_table(
            columns=["chq_object", "chq_position", "log_message", "resource_service_name"]
        )
        rows += [
            (org, row["chq_object"], row["chq_position"], row["log_message"])
            for row in table.to_pylist()
            if row["resource_service_name"] == service
        ]
    return rows


def _distinct_milliseconds(traffic: Traffic) -> int:
    """Count samples as PromQL does: of several in one millisecond the last one counts."""
    return len({(p.org, p.metric, p.label, p.at_ns // NS_PER_MS) for p in traffic.samples.points})


def _counted(settings: Settings, traffic: Traffic, org: str, start_ns: int, end_ns: int) -> int:
    names = "|".join(sorted({metric for metric, _ in SERIES}))
    seconds = (end_ns - start_ns) // SECOND_NS + 1
    selector = f'{{__name__=~"{names}", service_name="{traffic.service}"}}'
    url = (
        f"http://{settings.query_host}:{settings.query_port}/prometheus/api/v1/query?"
        + urllib.parse.urlencode(
            {"query": f"sum(count_over_time({selector}[{seconds}s]))", "time": end_ns / SECOND_NS}
        )
    )
    request = urllib.request.Request(url, headers={"x-cardinalhq-api-key": traffic.keys[org]})
    with urllib.request.urlopen(request, timeout=120) as answer:
        body = json.load(answer)
    if body.get("warnings"):
        raise RuntimeError(f"the count of {GAUGE} and others is not whole: {body['warnings']}")
    return sum(int(float(each["value"][1])) for each in body["data"]["result"])
