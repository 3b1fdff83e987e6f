"""Where the tests of notification queues get their queues from, and the pipeline behind one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest

from lakerunner_ingress.notifications.pipeline import Pipeline
from lakerunner_ingress.notifications.queues import pubsub
from lakerunner_ingress.notifications.queues.azure_queue import open_azure_queue
from lakerunner_ingress.notifications.queues.poll import poll, take
from lakerunner_ingress.notifications.queues.pubsub import open_pubsub
from lakerunner_ingress.notifications.queues.queue import Queue, QueueTelemetry
from lakerunner_ingress.notifications.queues.sqs import open_sqs
from lakerunner_ingress.registry import RegistryCache
from resources.settings import Settings
from tests.support.ingress import payloads
from tests.support.ingress.doubles import FakeProducer, accounts
from tests.support.ingress.queue_servers import (
    SAS,
    SUBSCRIPTION,
    MemoryQueue,
    Server,
    azure_server,
    base64_text,
    pubsub_server,
)
from tests.support.patience import PATIENCE_S

HOLD_S, LONG_HOLD_S = 1, 60
"""Seconds for which messages are hidden: in tests that wait for their return, and where none may come."""


@dataclass
class Site:
    """A queue, how to put a notification of a key into it, and how to put something else."""

    queue: Queue
    put: Callable[[str], object]
    put_text: Callable[[str], object]


@contextmanager
def memory_site(hold_s: int) -> Iterator[Site]:
    queue = MemoryQueue(hold_s=hold_s)
    yield Site(
        queue,
        lambda key: queue.shelf.put(json.dumps(payloads.s3(key)).encode()),
        lambda text: queue.shelf.put(text.encode()),
    )


@contextmanager
def sqs_site(s3: Settings, hold_s: int) -> Iterator[Site]:
    settings = sqs_settings(s3, f"q{time.time_ns()}", hold_s)
    with client("sqs", s3) as sqs:

        def put(text: str) -> None:
            sqs.send_message(QueueUrl=settings.sqs_queue_url, MessageBody=text)

        queue = open_sqs(settings)
        yield Site(queue, lambda key: put(json.dumps(payloads.s3(key))), put)
        queue.close()


@contextmanager
def pubsub_site(monkeypatch: pytest.MonkeyPatch, hold_s: int) -> Iterator[Site]:
    monkeypatch.setattr(pubsub, "HOLD_S", hold_s)
    with pubsub_server() as server:
        queue = open_pubsub(Settings(pubsub_subscription=server.url + SUBSCRIPTION))
        queue.hold_s = hold_s
        yield Site(
            queue,
            lambda key: server.shelf.put(payloads.gcs_message(key)),
            lambda text: server.shelf.put({"data": text, "messageId": "1"}),
        )
        queue.close()


@contextmanager
def azure_site(hold_s: int) -> Iterator[Site]:
    with azure_server() as server:
        queue = open_azure_queue(azure_settings(server, hold_s=hold_s))
        yield Site(queue, lambda key: server.shelf.put(base64_text(payloads.blob(key))), server.shelf.put)
        queue.close()


def azure_settings(server: Server, sas: str = SAS, hold_s: int = HOLD_S) -> Settings:
    url = f"{server.url}/acc/q"
    return Settings(azure_queue_url=url, azure_queue_sas_token=sas, azure_queue_visibility_s=hold_s)


@contextmanager
def client(service: str, s3: Settings) -> Iterator[Any]:
    found = boto3.client(
        service,
        endpoint_url=s3.s3_endpoint,
        region_name=s3.s3_region,
        aws_access_key_id=s3.s3_access_key_id,
        aws_secret_access_key=s3.s3_secret_access_key,
    )
    try:
        yield found
    finally:
        found.close()


def sqs_settings(s3: Settings, name: str, hold_s: int = HOLD_S) -> Settings:
    with client("sqs", s3) as sqs:
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
    return replace(
        s3, sqs_queue_url=url, sqs_endpoint=s3.s3_endpoint, sqs_visibility_s=hold_s, queue_wait_s=0
    )


class Taker:
    """The pipeline behind a queue, and what came out of it."""

    def __init__(self, queue: Queue) -> None:
        self.queue, self.stop = queue, threading.Event()
        self.index, self.producer = accounts(), FakeProducer()
        self.telemetry = QueueTelemetry(queue.name, self.index)
        self.pipeline = Pipeline(self.index, self.producer, RegistryCache(self.index), self.telemetry)  # type: ignore[arg-type]

    def take(self) -> None:
        take(self.queue, self.pipeline, self.telemetry, self.stop)

    @contextmanager
    def polling(self) -> Iterator[None]:
        thread = threading.Thread(target=poll, args=(self.queue, self.pipeline, self.telemetry, self.stop))
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
