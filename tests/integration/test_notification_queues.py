"""One contract, four queues: in memory, SQS (moto, in a process of its own), Pub/Sub and Azure as documented.

Then the real thing: objects put into a bucket, whose notifications come through SQS.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lakerunner_ingress.notifications.queues.azure_queue import open_azure_queue
from lakerunner_ingress.notifications.queues.pubsub import open_pubsub
from lakerunner_ingress.notifications.queues.queue import Queue, QueueUnavailableError
from lakerunner_ingress.notifications.queues.sqs import open_sqs
from resources.notifications.references import decode_message
from resources.settings import Settings
from tests.support.ingress.doubles import GOOD
from tests.support.ingress.queue_servers import SAS, SUBSCRIPTION
from tests.support.notification_sites import (
    HOLD_S,
    LONG_HOLD_S,
    Site,
    Taker,
    azure_site,
    client,
    memory_site,
    pubsub_site,
    sqs_settings,
    sqs_site,
)
from tests.support.patience import wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def hold_s() -> int:
    return HOLD_S


@pytest.fixture(params=["memory", "sqs", "pubsub", "azure"])
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, hold_s: int) -> Iterator[Site]:
    sites = {
        "memory": lambda: memory_site(hold_s),
        "sqs": lambda: sqs_site(request.getfixturevalue("s3"), hold_s),
        "pubsub": lambda: pubsub_site(monkeypatch, hold_s),
        "azure": lambda: azure_site(hold_s),
    }
    with sites[request.param]() as found:
        yield found


def test_an_acknowledged_message_never_comes_back(site: Site) -> None:
    site.put("a")
    received = site.queue.receive()
    assert len(received) == 1
    event = site.queue.shape(received[0].body, "test")
    assert [record.key for _, record in event.created] == ["a"]
    site.queue.acknowledge(received)
    time.sleep(HOLD_S + 0.2)
    assert site.queue.receive() == []


@pytest.mark.parametrize("hold_s", [LONG_HOLD_S])
def test_a_released_message_comes_back_at_once(site: Site) -> None:
    site.put("a")
    first = site.queue.receive()
    assert site.queue.receive() == []
    site.queue.release(first)
    again = site.queue.receive()
    assert [message.body for message in again] == [message.body for message in first]
    site.queue.acknowledge(again)


def test_a_message_nobody_spoke_for_comes_back_by_itself(site: Site) -> None:
    site.put("a")
    assert len(site.queue.receive()) == 1
    time.sleep(HOLD_S + 0.2)
    assert len(site.queue.receive()) == 1


@pytest.mark.parametrize("hold_s", [LONG_HOLD_S])
def test_more_messages_than_one_answer_holds_all_arrive(site: Site) -> None:
    keys = [f"otel-raw/acme/eu/logs/{n}" for n in range(70)]
    for key in keys:
        site.put(key)
    taker = Taker(site.queue)
    with taker.polling():
        wait_for(lambda: len(taker.producer.keys) >= len(keys), "all messages")
    assert sorted(taker.producer.keys) == sorted(keys)
    assert site.queue.receive() == []


def test_a_message_that_is_no_notification_is_kept_and_deleted(site: Site) -> None:
    site.put_text("nonsense")
    site.put(GOOD)
    taker = Taker(site.queue)
    taker.take()
    assert taker.producer.keys == [GOOD]
    assert [(letter.source, b"nonsense" in letter.payload) for letter in taker.index.dead_letters()] == [
        (site.queue.name, True)
    ]
    time.sleep(HOLD_S + 0.2)
    assert site.queue.receive() == []


def test_what_nobody_takes_stays(site: Site) -> None:
    taker = Taker(site.queue)
    site.put(GOOD)
    taker.take()
    site.put(GOOD)
    taker.producer.down = taker.index.down = True
    taker.take()
    taker.producer.down = taker.index.down = False
    taker.take()
    assert taker.producer.keys == [GOOD, GOOD]


@contextmanager
def dead_address() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["sqs", "pubsub", "azure"])
def test_a_queue_that_does_not_answer_is_away(kind: str) -> None:
    with dead_address() as dead:
        settings = Settings(
            sqs_queue_url=f"{dead}/1/q",
            sqs_endpoint=dead,
            s3_access_key_id="t",
            s3_secret_access_key="t",
            queue_wait_s=0,
            pubsub_subscription=dead + SUBSCRIPTION,
            azure_queue_url=f"{dead}/acc/q",
            azure_queue_sas_token=SAS,
        )
        openers: dict[str, Callable[[Settings], Queue]] = {
            "sqs": open_sqs,
            "pubsub": open_pubsub,
            "azure": open_azure_queue,
        }
        queue = openers[kind](settings)
        with pytest.raises(QueueUnavailableError):
            queue.receive()
        queue.close()


def test_a_queue_of_sqs_that_does_not_exist_is_named(s3: Settings) -> None:
    settings = replace(sqs_settings(s3, "gone"), sqs_queue_url=f"{s3.s3_endpoint}/123456789012/none")
    queue = open_sqs(settings)
    with pytest.raises(QueueUnavailableError, match=r"QueueDoesNotExist|NonExistentQueue"):
        queue.receive()
    queue.close()


# --- real notifications of a bucket ---------------------------------------------------------------


ODD_KEYS = [
    "otel-raw/acme/eu/logs/2026/01/02/03/plain.binpb",
    "otel-raw/acme/eu/logs/a b.binpb",
    "otel-raw/acme/eu/logs/a+b%20c&d=e.binpb",
    "otel-raw/acme/eu/logs/ünï-日本-😀.binpb",
]


def notify(s3: Settings, bucket: str, arns: dict[str, str]) -> None:
    kinds = {"sqs": ("QueueConfigurations", "QueueArn"), "sns": ("TopicConfigurations", "TopicArn")}
    configuration = {
        kinds[kind][0]: [{kinds[kind][1]: arn, "Events": ["s3:ObjectCreated:*"]}]
        for kind, arn in arns.items()
    }
    with client("s3", s3) as store:
        store.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)


@pytest.fixture(params=["sqs", "sns"])
def bucket_queue(request: pytest.FixtureRequest, s3: Settings) -> Iterator[tuple[str, Queue]]:
    """A bucket whose notifications reach a queue: directly, or through a topic."""
    name = f"raw-{request.param}"
    settings = sqs_settings(s3, f"{name}-{time.time_ns()}")
    with client("sqs", s3) as sqs, client("sns", s3) as sns, client("s3", s3) as store:
        store.create_bucket(Bucket=name)
        asked = sqs.get_queue_attributes(QueueUrl=settings.sqs_queue_url, AttributeNames=["QueueArn"])
        arn = asked["Attributes"]["QueueArn"]
        if request.param == "sqs":
            notify(s3, name, {"sqs": arn})
        else:
            topic = sns.create_topic(Name=f"{name}-topic")["TopicArn"]
            sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
            notify(s3, name, {"sns": topic})
    queue = open_sqs(settings)
    yield name, queue
    queue.close()


def test_an_object_put_into_a_bucket_is_produced(s3: Settings, bucket_queue: tuple[str, Queue]) -> None:
    bucket, queue = bucket_queue
    taker = Taker(queue)
    taker.index.put_storage_profile(replace(taker.index.storage_profiles()["raw"], bucket=bucket))
    with client("s3", s3) as store:
        for key in ODD_KEYS:
            store.put_object(Bucket=bucket, Key=key, Body=b"12345")
        etag = store.head_object(Bucket=bucket, Key=ODD_KEYS[0])["ETag"].strip('"')
        store.delete_object(Bucket=bucket, Key=ODD_KEYS[0])
    for _ in range(3):
        taker.take()
    records = [record for message in taker.producer.sent for record in decode_message(message.payload)]
    assert sorted(record.key for record in records) == sorted(ODD_KEYS)
    assert {(r.bucket, r.size, r.etag, r.source) for r in records} == {(bucket, 5, etag, "sqs")}
    assert taker.index.dead_letters() == []
    time.sleep(HOLD_S + 0.2)
    assert queue.receive() == []
