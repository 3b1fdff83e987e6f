"""Objects with known rows sent into a running stack, and the proof that each row is there exactly once.

Shared by the latency and chaos measurements and by the acceptance tests. A sender behaves as an object store
does: it puts an object and repeats its notification until somebody takes it. Rows may be late: of an event
time long before the object arrives. What samples must look like afterwards is in `benchmarks/samples.py`.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb
import psycopg
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from benchmarks.samples import Oracle, Point, points, samples_object
from lakerunner_cli.accounts import LOCAL_BUCKET, bucket_profile, create_org, open_index, replace_key
from resources.index.types import SegmentQuery
from resources.lake.layout import Signal, raw_key
from resources.lake.timecut import to_datetime
from resources.objects.client import ObjectStore
from resources.objects.store import open_store
from resources.settings import Settings

ROWS = 20
EVER = (-(2**62), 2**62)


@dataclass(slots=True)
class Sent:
    org: str
    number: int
    put_at: float
    key: str = ""
    at_ns: int = 0
    """Of its newest row."""


@dataclass(slots=True)
class Traffic:
    """A sender and a reader for some organisations of one stack."""

    settings: Settings
    orgs: Sequence[str]
    keys: dict[str, str] = field(default_factory=dict)
    service: str = field(default_factory=lambda: f"traffic-{time.time_ns():x}")
    """Tells the rows of this sender from those of an earlier one on the same stack."""
    sent: list[Sent] = field(default_factory=list)
    """Objects of logs; whatever is in it was announced."""
    samples: Oracle = field(default_factory=Oracle)
    """What the objects of metrics hold."""

    def prepare(self) -> None:
        with open_index(self.settings) as desk:
            bucket_profile(desk, LOCAL_BUCKET, self.settings)
            for org in self.orgs:
                create_org(desk, org)
                self.keys[org] = replace_key(desk, org, "admin", "traffic")

    def send(self, number: int, at_ns: int | None = None) -> None:
        """One object of `ROWS` log rows, announced until the ingress takes it."""
        org = self.orgs[number % len(self.orgs)]
        moment = at_ns or time.time_ns()
        put_at = time.time()
        key = self._put(org, Signal.LOGS, number, object_bytes(self.service, number, moment))
        self.sent.append(Sent(org, number, put_at, key, moment))

    def send_samples(self, number: int, at_ns: int | None = None) -> str:
        """One object of metrics, announced like those of logs; its key. No two may share a millisecond."""
        org = self.orgs[number % len(self.orgs)]
        made: list[Point] = points(org, number, at_ns or time.time_ns())
        key = self._put(org, Signal.METRICS, number, samples_object(self.service, made))
        self.samples.add(made)
        return key

    def _put(self, org: str, signal: Signal, number: int, data: bytes) -> str:
        arrival = to_datetime(time.time_ns())
        key = raw_key(org, "bench", signal, arrival, f"{self.service}-{number:05}.binpb")
        etag = raw_store(self.settings).put(key, data)
        self.announce(key, len(data), etag)
        return key

    def announce(self, key: str, size: int, etag: str, patience_s: float = 180.0) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                announce(Settings.load({"LAKERUNNER_DATA_DIR": str(self.settings.data_dir)}), key, size, etag)
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def visible(self, org: str) -> set[int]:
        """Numbers of the objects whose first row a query returns now."""
        found = loki(self.settings, self.keys[org], f'{{service_name="{self.service}"}} |= "row 0 of"', 5000)
        return {int(line.split()[-1]) for line in found}

    def expected(self) -> Counter[str]:
        return Counter(row_text(sent.number, row) for sent in self.sent for row in range(ROWS))


def object_bytes(service: str, number: int, now_ns: int) -> bytes:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    records = group.scope_logs.add().log_records
    for row in range(ROWS):
        record = records.add(time_unix_nano=now_ns - row, severity_text="INFO")
        record.body.string_value = row_text(number, row)
    return bytes(request.SerializeToString())


def row_text(number: int, row: int) -> str:
    return f"row {row} of object {number}"


def raw_store(settings: Settings) -> ObjectStore:
    return open_store(f"file://{settings.data_dir}/raw", settings)


def announce(settings: Settings, key: str, size: int, etag: str) -> None:
    """What an object store posts to a webhook."""
    moment = f"{to_datetime(time.time_ns()):%Y-%m-%dT%H:%M:%S.%fZ}"
    entry = {"key": urllib.parse.quote_plus(key), "size": size, "eTag": etag}
    event = {
        "eventName": "ObjectCreated:Put",
        "eventTime": moment,
        "s3": {"bucket": {"name": LOCAL_BUCKET}, "object": entry},
    }
    request = urllib.request.Request(
        f"http://{settings.ingress_host}:{settings.ingress_port}/api/v1/notifications/s3",
        data=json.dumps({"Records": [event]}).encode(),
        headers={"Authorization": f"Bearer {settings.webhook_token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=15) as answer:
        answer.read()


def loki(settings: Settings, key: str, query: str, limit: int, since_s: int = 7200) -> list[str]:
    """Lines of a Loki range query over the last hours."""
    now = time.time_ns()
    values = {"query": query, "limit": limit, "start": now - since_s * 10**9, "end": now + 60 * 10**9}
    url = f"http://{settings.query_host}:{settings.query_port}/loki/api/v1/query_range?"
    request = urllib.request.Request(
        url + urllib.parse.urlencode(values), headers={"x-cardinalhq-api-key": key}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = json.load(answer)
    return [value[1] for stream in body["data"]["result"] for value in stream["values"]]


@dataclass(frozen=True, slots=True)
class Content:
    """Everything live in the lake for some organisations, as the index and the files say."""

    rows: int
    distinct_row_ids: int
    messages: Counter[str]


def lake_content(settings: Settings, orgs: Sequence[str], service: str) -> Content:
    """Reads the segments themselves: no query service in between."""
    with open_index(settings) as desk:
        keys = [s.key for org in orgs for s in desk.find_segments(SegmentQuery(org, "logs", 0, *EVER))]
    if not keys:
        return Content(0, 0, Counter())
    files = [f"{settings.data_dir}/lake/{key}" for key in keys]
    connection = duckdb.connect()
    source = "read_parquet($files, union_by_name = true) WHERE resource_service_name = $service"
    values = {"files": files, "service": service}
    counted = f"SELECT count(*), count(DISTINCT (chq_object, chq_position)) FROM {source}"
    rows, distinct = connection.execute(counted, values).fetchall()[0]
    texts = connection.execute(f"SELECT log_message FROM {source}", values).fetchall()
    return Content(rows, distinct, Counter(text for (text,) in texts))


def unfinished(settings: Settings) -> dict[str, float]:
    """Pending objects and the age of the oldest, over all organisations."""
    with open_index(settings) as desk:
        status = desk.pipeline_status()
    return {
        "objects": float(sum(int(str(row["pending_objects"])) for row in status)),
        "oldest_s": max((float(str(row["oldest_pending_s"])) for row in status), default=0.0),
        "parked": float(sum(int(str(row["parked_objects"])) for row in status)),
    }


def run_counts(settings: Settings) -> dict[str, int]:
    """Dagster runs by job and status."""
    dsn = settings.index_dsn.rsplit("/", 1)[0] + "/dagster"
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT pipeline_name, status, count(*) FROM runs GROUP BY 1, 2").fetchall()
    return {f"{name} {status}": count for name, status, count in rows}
