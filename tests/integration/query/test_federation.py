"""Federation and the endpoints about targets, beside a real Prometheus that was sent the same samples."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakerunner_query.histogram.model import CUSTOM, Hint, Histogram, buckets_at
from lakerunner_query.vectors.vector import Labels
from lakerunner_query.worker.metrics.chunk_encoding import spans
from resources.proto.prometheus import MetricFamily, WriteRequest
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import STALE, Sample
from tests.support.query.lake import Client, Lake, Stack
from tests.support.query.metric_lake import labels, publish
from tests.support.query.real_prometheus import Peer, running, served

pytestmark = pytest.mark.integration
FAMILY = "io.prometheus.client.MetricFamily"
PROTOBUF = f"application/vnd.google.protobuf;proto={FAMILY};encoding=delimited,text/plain;q=0.1"
FLOATS = 'match[]={__name__=~"up|http.*|ended|old"}'
NATIVE = Histogram(1, 6.0, 12.5, 0.001, 1.0, buckets_at(-1, [2.0, 0.5]), buckets_at(3, [2.0]))
CLASSIC = Histogram(CUSTOM, 7.0, 9.5, 0.0, 0.0, buckets_at(0, [2.0, 1.0, 4.0]), bounds=(0.5, 1.0, 10.0))
GAUGE = Histogram(0, 3.0, 4.0, 0.001, 0.0, buckets_at(1, [3.0]), hint=Hint.GAUGE)


@functools.cache
def now() -> int:
    """Milliseconds at the first test: federation looks back five minutes, and collecting may be older."""
    return time.time_ns() // 1_000_000


@functools.cache
def all_series() -> dict[Labels, list[tuple[int, float, Histogram | None]]]:
    at = now()
    return {
        labels("up", job="a", instance="i:1"): [(at - 120_000, 0.0, None), (at - 60_000, 1.0, None)],
        labels("up", job="b"): [(at - 60_000, 1234567.5, None)],
        labels("ended", job="b"): [(at - 60_000, 1.0, None), (at - 30_000, STALE, None)],
        labels("old", job="b"): [(at - 600_000, 1.0, None)],
        labels("http.status", **{"k8s.pod": 'a"\\\n', "é": "ü"}): [(at - 60_000, float("nan"), None)],
        labels("wait", job="a"): [(at - 60_000, 0.0, NATIVE)],
        labels("sizes", job="a"): [(at - 60_000, 0.0, CLASSIC)],
        labels("fill", job="a"): [(at - 60_000, 0.0, GAUGE)],
    }


@pytest.fixture(scope="module", autouse=True)
def data(lake: Lake, client: Client) -> None:
    rows = [
        (of, Sample(at, value, histogram))
        for of, each in all_series().items()
        for at, value, histogram in each
    ]
    publish(lake, "acme", [sample_table(rows)], (now() - 60_000) * 1_000_000)
    lake.add_org("other", "key-other-federation")


@pytest.fixture(scope="module")
def both(lake: Lake, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    folder = tmp_path_factory.mktemp("prometheus")
    with served(lake, stack) as ours, running(folder, {}) as theirs:
        body = pa.compress(written().SerializeToString(), codec="snappy", asbytes=True)
        headers = {"Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0"}
        sent = httpx.post(f"{theirs.address}/api/v1/write", content=bytes(body), headers=headers)
        assert sent.is_success, sent.text
        yield ours, theirs


def written() -> Any:
    message = WriteRequest()
    for of, samples in all_series().items():
        series = message.timeseries.add()
        for name, value in of:
            series.labels.add(name=name, value=value)
        for at, value, histogram in samples:
            if histogram is None:
                series.samples.add(timestamp=at, value=value)
                continue
            one = series.histograms.add(
                timestamp=at, count_float=histogram.count, sum=histogram.sum, schema=histogram.schema,
                zero_threshold=histogram.zero_threshold, zero_count_float=histogram.zero_count,
                positive_counts=histogram.positive.count, negative_counts=histogram.negative.count,
                custom_values=histogram.bounds, reset_hint=int(histogram.hint),
            )  # fmt: skip
            for listed, side in (
                (one.positive_spans, histogram.positive),
                (one.negative_spans, histogram.negative),
            ):
                for offset, length in spans(side):
                    listed.add(offset=offset, length=length)
    return message


def families(body: bytes) -> list[Any]:
    found, at = [], 0
    while at < len(body):
        size = shift = 0
        while True:
            size |= (body[at] & 127) << shift
            at, shift, last = at + 1, shift + 7, body[at] < 128
            if last:
                break
        found.append(MetricFamily.FromString(body[at : at + size]))
        at += size
    return found


@pytest.mark.parametrize(
    "accept",
    [
        "", "text/plain;version=0.0.4;escaping=allow-utf-8", "text/plain;escaping=dots",
        "text/plain;escaping=values", "application/json", "text/*;q=0.3",
    ],
)  # fmt: skip
def test_text_is_prometheus_text(both: tuple[Peer, Peer], accept: str) -> None:
    mine, its = (peer.get(f"/federate?{FLOATS}&match[]=sizes", Accept=accept) for peer in both)
    assert (mine.status_code, mine.headers["content-type"]) == (its.status_code, its.headers["content-type"])
    assert mine.text.splitlines() == its.text.splitlines()
    assert 'instance="i:1"' in mine.text


@pytest.mark.parametrize("asked", [FLOATS, "match[]=wait", "match[]=sizes", "match[]=fill"])
def test_protobuf_is_prometheus_protobuf(both: tuple[Peer, Peer], asked: str) -> None:
    """Histograms are compared one by one: Prometheus 3.15 repeats the last of several."""
    mine, its = (peer.get(f"/federate?{asked}", Accept=PROTOBUF) for peer in both)
    assert mine.headers["content-type"] == its.headers["content-type"]
    assert [str(one) for one in families(mine.content)] == [str(one) for one in families(its.content)]
    assert families(mine.content)


def test_each_histogram_is_its_own(client: Client) -> None:
    headers = client.headers | {"Accept": PROTOBUF}
    found = client.http.get("/prometheus/federate?match[]={job='a'}", headers=headers)
    sums = {one.name: one.metric[0].histogram.sample_sum for one in families(found.content)}
    assert sums == {"fill": 4.0, "sizes": 9.5, "up": 0.0, "wait": 12.5}


@pytest.mark.parametrize(
    "asked",
    ["", "match[]=nothing", "match[]=up&match[]={job='b'}", "match[]=ended&match[]=old", "match[]=sizes"],
)
def test_selections(both: tuple[Peer, Peer], asked: str) -> None:
    mine, its = (peer.get(f"/federate?{asked}") for peer in both)
    assert (mine.status_code, mine.text) == (200, its.text)


def test_refusals(client: Client, both: tuple[Peer, Peer]) -> None:
    mine, its = (peer.get("/federate?match[]=not-a-name") for peer in both)
    assert (mine.status_code, mine.json()["error"]) == (its.status_code, its.text.strip())
    assert client.http.get("/prometheus/federate?match[]=up").status_code == 401
    other = {"x-cardinalhq-api-key": "key-other-federation"}
    assert client.http.get("/prometheus/federate?match[]=up", headers=other).text == ""


@pytest.mark.parametrize(
    "path",
    [
        "targets", "targets?state=any", "targets/metadata", "scrape_pools", "alertmanagers", "rules",
        "alerts", "status/walreplay", "status/tsdb/blocks", "notifications", "targets/relabel_steps",
        "scrape_pools/config", "status/tsdb?limit=0", "status/tsdb?limit=a", "status/tsdb?limit=10001",
    ],
)  # fmt: skip
def test_lists_are_those_of_a_prometheus_without_targets(both: tuple[Peer, Peer], path: str) -> None:
    mine, its = (peer.get(f"/api/v1/{path}") for peer in both)
    assert (mine.status_code, mine.json()) == (its.status_code, its.json())


@pytest.mark.parametrize("path", ["status/runtimeinfo", "status/buildinfo", "status/config", "status/tsdb"])
def test_fields_are_those_of_prometheus(both: tuple[Peer, Peer], path: str) -> None:
    mine, its = (peer.get(f"/api/v1/{path}").json()["data"] for peer in both)
    assert mine.keys() == its.keys()


def test_features_are_named_as_in_prometheus(both: tuple[Peer, Peer]) -> None:
    mine, its = (peer.get("/api/v1/features").json()["data"] for peer in both)
    for part, names in mine.items():
        assert names.keys() <= its[part].keys()
    assert mine["promql_functions"].keys() == its["promql_functions"].keys()


def test_series_are_counted_as_in_the_head(both: tuple[Peer, Peer]) -> None:
    mine, its = (peer.get("/api/v1/status/tsdb?limit=100").json()["data"] for peer in both)
    for part in ("numSeries", "numLabelPairs"):
        assert mine["headStats"][part] == its["headStats"][part]
    for part in its.keys() - {"headStats"}:
        assert {each["name"]: each["value"] for each in mine[part]} == {
            each["name"]: each["value"] for each in its[part]
        }
    top = both[0].get("/api/v1/status/tsdb?limit=1").json()["data"]
    assert top["seriesCountByMetricName"] == [{"name": "up", "value": 2}]


def test_the_connection_check_of_clients(client: Client) -> None:
    for path in ("/prometheus/", "/prometheus"):
        assert re.search("/prometheus/api/v1", client.http.get(path).text)
