"""The ingress over real HTTP and a real Kafka protocol (librdkafka's own broker)."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from confluent_kafka import Producer as NativeProducer

from lakerunner_ingress.app import create_app
from resources.http_server import server_options
from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.index.types import OutboxMessage
from resources.kafka.producer import Producer
from resources.kafka.reader import close_readers, read_batch
from resources.notifications.references import decode_message
from resources.settings import Settings
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.integration
PATH = "/api/v1/notifications/s3"
TOKEN = "webhook-secret"


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    mock = NativeProducer({"test.mock.num.brokers": 1, "log_level": 0})
    found = next(iter(mock.list_topics(timeout=PATIENCE_S).brokers.values()))
    yield f"{found.host}:{found.port}"
    close_readers()


@pytest.fixture
def index() -> MemoryIndex:
    found = MemoryIndex()
    found.create_organisation("acme")
    found.put_storage_profile(StorageProfile("raw", "file:///raw"))
    return found


@contextmanager
def serving(index: MemoryIndex, producer: Producer, **settings: Any) -> Iterator[httpx.Client]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        known = Settings(webhook_token=TOKEN, log_level="WARNING", **settings)
        config = uvicorn.Config(create_app(known, index, producer), **server_options(known))
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(
                base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_S
            ) as client:
                while not server.started:
                    time.sleep(0.01)
                yield client
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)


def event(key: str) -> bytes:
    thing = {"bucket": {"name": "raw"}, "object": {"key": key, "size": 1}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": thing}]}).encode()


def test_many_senders_at_once_lose_nothing(broker: str, index: MemoryIndex) -> None:
    keys = [f"logs-raw/acme/{n}.binpb" for n in range(200)]
    with serving(index, Producer(broker)) as client, ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda key: client.post(PATH, content=event(key)).status_code, keys))
    assert set(statuses) == {202}
    values = [m.value for m in read_batch(broker, "objstore.ingest.logs", ()).messages]
    assert sorted(record.key for value in values for record in decode_message(value)) == sorted(keys)


def test_a_dead_broker_neither_loses_references_nor_stops_the_event_loop(
    index: MemoryIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{probe.getsockname()[1]}"
    producer, asked, is_alive = Producer(dead, timeout_s=1.0), threading.Event(), threading.Event()
    send = producer.send

    def send_late(messages: Sequence[OutboxMessage]) -> None:
        asked.set()
        assert is_alive.wait(PATIENCE_S)
        send(messages)

    monkeypatch.setattr(producer, "send", send_late)
    with serving(index, producer) as client, ThreadPoolExecutor(4) as pool:
        slow = [pool.submit(client.post, PATH, content=event(f"logs-raw/acme/{n}.binpb")) for n in range(4)]
        assert asked.wait(PATIENCE_S)
        assert client.get("/livez").text == "ok"
        is_alive.set()
        assert [future.result().status_code for future in slow] == [202] * 4
        assert client.get("/readyz").json()["status"] == "degraded"
    taken: list[str] = []
    index.drain_outbox(lambda messages: taken.extend(m.topic for m in messages), 10)
    assert taken == ["objstore.ingest.logs"] * 4


def test_a_body_without_a_length_is_still_limited(broker: str, index: MemoryIndex) -> None:
    with serving(index, Producer(broker)) as client:
        answer = client.post(PATH, content=(b" " * 65_536 for _ in range(40)))
        assert (answer.status_code, answer.json()["status"]) == (413, 413)


def test_an_idle_connection_is_kept_as_long_as_the_setting_says(broker: str, index: MemoryIndex) -> None:
    ask = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(index, Producer(broker), http_keep_alive_s=2) as client:
        idle = socket.create_connection((client.base_url.host, client.base_url.port or 0), PATIENCE_S)
        began = time.monotonic()
        idle.sendall(ask)
        assert idle.recv(4096).endswith(b"ok")
        assert idle.recv(4096) == b""
        assert time.monotonic() - began > 1.9
        idle.close()
