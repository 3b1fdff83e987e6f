"""Descriptions of metric families: from remote write into the index, per organisation, without objects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from litestar.testing import TestClient

from lakerunner_ingress.app import create_app
from lakerunner_ingress.receivers import metadata
from lakerunner_ingress.receivers.metadata import MetadataWriter
from resources.index.account_types import MetricFamily
from resources.proto.prometheus import RequestV2, WriteRequest
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, FlakyIndex
from tests.support.ingress.push_fakes import KEY, index_with, objects
from tests.support.patience import PATIENCE_S, wait_for

PROTOBUF = {"content-type": "application/x-protobuf"}
V2 = {"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
UP = MetricFamily("up", "gauge", "", "Whether it answers.")


@pytest.fixture
def index(tmp_path: Path) -> FlakyIndex:
    return index_with(tmp_path)


@pytest.fixture
def client(index: FlakyIndex) -> Iterator[TestClient[Any]]:
    with TestClient(create_app(Settings(), index, FakeProducer())) as found:  # type: ignore[arg-type]
        yield found


def push(client: TestClient[Any], message: Any, headers: dict[str, str] = PROTOBUF) -> int:
    body = pa.compress(message.SerializeToString(), codec="snappy", asbytes=True)
    return int(client.post("/api/v1/write", content=body, headers=KEY | headers).status_code)


def listed(index: FlakyIndex, org: str = "acme") -> list[MetricFamily]:
    return wait_for(lambda: index.metric_metadata(org, 0), "the descriptions in the index")


def test_a_request_of_descriptions_alone_is_in_the_index_and_needs_no_object(
    client: TestClient[Any], index: FlakyIndex, tmp_path: Path
) -> None:
    request = WriteRequest()
    request.metadata.add(metric_family_name="up", type=2, help="Whether it answers.")
    request.metadata.add(metric_family_name="rtt", type=3, unit="seconds")
    request.metadata.add(metric_family_name="", type=1)
    request.metadata.add(metric_family_name="odd\0", type=99, help="x" * 5000)
    assert push(client, request) == 204
    assert index.metric_metadata("acme", 0) == [
        MetricFamily("odd\\x00", "unknown", "", "x" * 1500),
        MetricFamily("rtt", "histogram", "seconds", ""),
        UP,
    ]
    assert index.metric_metadata("beta", 0) == []
    assert objects(tmp_path) == {}


def test_without_the_index_such_a_request_is_sent_again(client: TestClient[Any], index: FlakyIndex) -> None:
    request = WriteRequest()
    request.metadata.add(metric_family_name="up", type=2, help="Whether it answers.")
    assert push(client, WriteRequest()) == 204  # the key is known from here on
    index.down = True
    assert push(client, request) == 503
    index.down = False
    assert push(client, request) == 204
    assert index.metric_metadata("acme", 0) == [UP]


def test_descriptions_that_come_with_samples_are_kept_as_well(
    client: TestClient[Any], index: FlakyIndex, tmp_path: Path
) -> None:
    request = RequestV2(symbols=["", "__name__", "rtt_bucket", "Round trip.", "le", "1"])
    series = request.timeseries.add(labels_refs=[1, 2, 4, 5])
    series.samples.add(value=1.0, timestamp=1)
    series.metadata.type, series.metadata.help_ref = 3, 3
    assert push(client, request, V2) == 204
    assert listed(index) == [MetricFamily("rtt", "histogram", "", "Round trip.")]
    assert len(objects(tmp_path)) == 1


def test_a_description_is_written_once_in_a_while(index: FlakyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = [0.0], []
    monkeypatch.setattr(index, "put_metric_metadata", lambda org, found: written.append((org, found)))

    async def work() -> None:
        writer = MetadataWriter(index, lambda: now[0])
        for _ in range(3):
            await writer.write("acme", [UP])
        await writer.write("beta", [UP])
        now[0] += metadata.REFRESH_S
        await writer.write("acme", [UP, MetricFamily("a", "gauge")])
        await writer.close()

    asyncio.run(work())
    assert written == [
        ("acme", [UP]),
        ("beta", [UP]),
        ("acme", [MetricFamily("a", "gauge"), UP]),
    ]


def test_a_slow_index_gathers_one_write_per_organisation_and_neighbours_go_on(
    index: FlakyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, calls = threading.Event(), []

    def slow(org: str, _: Any) -> None:
        calls.append(org)
        assert org == "beta" or gate.wait(PATIENCE_S)

    monkeypatch.setattr(index, "put_metric_metadata", slow)

    async def work() -> None:
        writer = MetadataWriter(index)
        for number in range(1000):
            writer.write_later("acme", [MetricFamily(f"m{number}", "gauge")])
        await asyncio.wait_for(writer.write("beta", [UP]), PATIENCE_S)
        gate.set()
        await writer.close()

    asyncio.run(work())
    assert sorted(calls) == ["acme", "beta"]
