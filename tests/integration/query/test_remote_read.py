"""Remote read over real segments: its two forms, its refusals, and Prometheus itself as the reader."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from lakerunner_query.histogram.model import Histogram, buckets_at
from resources.proto.prometheus import ReadRequest, ReadResponse
from tests.golden.lake_source import sample_table
from tests.golden.memory_source import STALE, Sample
from tests.support.query import chunk_reader
from tests.support.query.lake import BASE, Client, Lake, Stack
from tests.support.query.metric_lake import BASE_MS, BASE_S, labels, publish, write_samples
from tests.support.query.real_prometheus import Peer, running, served

pytestmark = pytest.mark.integration
MINUTE = 60_000
EQUAL, NOT_EQUAL, REGEX, NOT_REGEX = range(4)
SAMPLES, CHUNKS = 0, 1


def histogram(n: int) -> Histogram:
    return Histogram(
        1,
        6.0 * n,
        12.5 * n,
        0.001,
        float(n),
        buckets_at(-1, [2.0 * n, 0.0, 1.0 * n]),
        buckets_at(3, [2.0 * n]),
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def data(lake: Lake, client: Client) -> None:
    """Twenty minutes of counters, one of which ends; native histograms with a reset; another organisation."""
    jobs = {
        labels("hits_total", job=job): [(n * MINUTE, float(step * n)) for n in range(1, 21)]
        for job, step in (("a", 6), ("b", 12), ("é", 1))
    }
    ending = [(n * MINUTE, 1.0) for n in range(1, 10)]
    write_samples(lake, "acme", jobs | {labels("up", job="a"): [*ending, (10 * MINUTE, STALE)]})
    waits = [
        (labels("wait", job="a"), Sample(BASE_MS + n * MINUTE, 0.0, histogram(n if n < 12 else n - 11)))
        for n in range(1, 21)
    ]
    publish(lake, "acme", [sample_table(waits)], BASE + MINUTE * 1_000_000)
    lake.add_org("other", "key-other-reads")
    write_samples(lake, "other", {labels("hits_total", job="secret"): [(MINUTE, 1.0)]})


def request(*queries: tuple[list[tuple[int, str, str]], int, int], accept: tuple[int, ...] = ()) -> bytes:
    message = ReadRequest(accepted_response_types=accept)
    for matchers, start, end in queries:
        query = message.queries.add(start_timestamp_ms=BASE_MS + start, end_timestamp_ms=BASE_MS + end)
        for kind, name, value in matchers:
            query.matchers.add(type=kind, name=name, value=value)
    return bytes(pa.compress(message.SerializeToString(), codec="snappy", asbytes=True))


def read(client: Client, body: bytes, key: str | None = None) -> httpx.Response:
    headers = {"x-cardinalhq-api-key": key} if key else client.headers
    sent = headers | {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
    return client.http.post("/prometheus/api/v1/read", content=body, headers=sent)


def results(response: httpx.Response) -> list[list[Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-protobuf"
    assert response.headers["content-encoding"] == "snappy"
    size = shift = 0
    for byte in response.content:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    opened = pa.Codec("snappy").decompress(response.content, size, asbytes=True)
    return [list(result.timeseries) for result in ReadResponse.FromString(opened).results]


def names(one: Any) -> dict[str, str]:
    return {label.name: label.value for label in one.labels}


def test_samples_of_several_queries(client: Client) -> None:
    named = (EQUAL, "__name__", "hits_total")
    body = request(
        ([named, (NOT_EQUAL, "job", "b")], MINUTE, 3 * MINUTE),
        ([named, (REGEX, "job", "[^a]")], 20 * MINUTE, 99 * MINUTE),
        ([named, (NOT_REGEX, "job", "a|b")], 20 * MINUTE, 20 * MINUTE),
        ([named], 5 * MINUTE, 4 * MINUTE),
    )
    first, second, third, fourth = results(read(client, body))
    assert [names(one)["job"] for one in first] == ["a", "é"]
    assert [(s.timestamp - BASE_MS, s.value) for s in first[0].samples] == [
        (MINUTE, 6.0), (2 * MINUTE, 12.0), (3 * MINUTE, 18.0),
    ]  # fmt: skip
    assert [(names(one)["job"], one.samples[0].value) for one in second] == [("b", 240.0), ("é", 20.0)]
    assert [names(one)["job"] for one in third] == ["é"]
    assert fourth == []


def test_streamed_chunks(client: Client) -> None:
    queries = ([(EQUAL, "__name__", "up")], 0, 20 * MINUTE), ([(EQUAL, "__name__", "wait")], 0, 20 * MINUTE)
    response = read(client, request(*queries, accept=(7, CHUNKS, SAMPLES)))
    assert response.headers["content-type"] == (
        "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
    )
    up, wait = chunk_reader.frames(response.content)
    assert (up.query_index, wait.query_index) == (0, 1)
    (chunk,) = up.chunked_series[0].chunks
    samples = chunk_reader.xor_samples(chunk.data)
    assert [(t - BASE_MS) // MINUTE for t, _ in samples] == list(range(1, 11))
    assert np.float64(samples[-1][1]).view(np.uint64) == np.float64(STALE).view(np.uint64)
    found = [one for c in wait.chunked_series[0].chunks for one in chunk_reader.histogram_samples(c.data)]
    assert [one.count for _, one in found] == [histogram(n if n < 12 else n - 11).count for n in range(1, 21)]
    assert [(t - BASE_MS) // MINUTE for t, one in found if one.reset == chunk_reader.UNKNOWN] == [1, 12]


def test_a_key_reads_its_organisation(client: Client) -> None:
    body = request(([(EQUAL, "__name__", "hits_total")], 0, 20 * MINUTE))
    assert [
        [names(one)["job"] for one in each] for each in results(read(client, body, "key-other-reads"))
    ] == [["secret"]]
    assert read(client, body, "nobody").status_code == 401


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is no snappy block"),
        (b"\xff\xff\xff\xff\x0f" + b"x" * 20, "a request of 4294967295 bytes: expected at most 1048576"),
        (b"\x05nonsense", "the body is no snappy block"),
        (
            pa.compress(b"\x0a\xff", codec="snappy", asbytes=True),
            "no prometheus.ReadRequest: byte 1: cut short",
        ),
        (request(([(REGEX, "job", "(")], 0, 1)), "matcher of 'job': "),
        (request(([(9, "job", "a")], 0, 1)), "matcher of type 9: expected 0 (=), 1 (!=), 2 (=~) or 3 (!~)"),
        (request(([], 0, 1), accept=(7,)), "accepted_response_types [7]: expected"),
        (request(*[([], 0, 1)] * 65), "65 queries: expected at most 64"),
        (request(([(EQUAL, "job", "a")] * 257, 0, 1)), "257 matchers: expected at most 256"),
    ],
)
def test_refusals(client: Client, body: bytes, says: str) -> None:
    response = read(client, body)
    assert response.status_code == 400
    assert says in response.json()["error"], response.text


@pytest.fixture(scope="module")
def both(lake: Lake, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    """Our API, and a Prometheus that reads from it."""
    with served(lake, stack) as ours:
        remote = {
            "url": f"{ours.address}/api/v1/read",
            "read_recent": True,
            "authorization": {"credentials": "key-acme"},
        }
        with running(tmp_path_factory.mktemp("prometheus"), {"remote_read": [remote]}) as theirs:
            yield ours, theirs


def assert_same(mine: Any, its: Any) -> None:
    """Compare answers; bounds of exponential buckets differ from Prometheus' in the last digit."""
    if isinstance(mine, dict):
        assert mine.keys() == its.keys()
        for key in mine:
            assert_same(mine[key], its[key])
    elif isinstance(mine, list):
        assert len(mine) == len(its)
        for one, other in zip(mine, its, strict=True):
            assert_same(one, other)
    else:
        try:
            assert math.isclose(float(mine), float(its), rel_tol=1e-14)
        except ValueError:
            assert mine == its


@pytest.mark.parametrize(
    "query",
    [
        "hits_total", "up", "wait", "rate(hits_total[5m])",
        'sum by (job) (increase(hits_total{job=~"a|é"}[7m]))',
        "histogram_quantile(0.9, rate(wait[5m]))", "histogram_count(wait)", "rate(wait[6m])",
        "resets(wait[20m])", "histogram_fraction(0, 2, wait)", "count_over_time(up[5m])",
        "wait - wait offset 1m",
        "changes(hits_total[10m]) > 3", 'hits_total{job!="b"} * on (job) group_left up', "nothing",
        "absent(up)", "present_over_time(wait[3m])", "avg_over_time(wait[5m])", '{__name__=~"hits.*|up"}',
    ],
)  # fmt: skip
def test_prometheus_evaluates_to_our_answers(both: tuple[Peer, Peer], query: str) -> None:
    ours, theirs = both
    during = {"start": BASE_S, "end": BASE_S + 1500, "step": 30}
    mine, its = (peer.ask("query_range", query, during) for peer in (ours, theirs))
    assert its["status"] == "success"
    assert not [warning for warning in its.get("warnings", []) if "remote" in warning]
    assert_same(mine["data"], its["data"])
    if query != "nothing":
        assert mine["data"]["result"]


def test_prometheus_shows_raw_samples(both: tuple[Peer, Peer]) -> None:
    ours, theirs = both
    for query in ("hits_total[20m]", "wait[20m]", "up[20m]"):
        mine, its = (peer.ask("query", query, {"time": BASE_S + 1200}) for peer in (ours, theirs))
        assert_same(mine["data"], its["data"])
