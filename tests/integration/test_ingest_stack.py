"""`lakerunner ingest` and the Kafka reader with a real broker, a real index and the real ingress."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from resources.index.types import OutboxMessage, TopicOffset
from resources.kafka.producer import Producer, ingest_topic
from resources.kafka.reader import EventKind, close_readers, commit_for_lag, read_batch
from resources.notifications.references import decode_message
from resources.settings import Settings
from tests.support.patience import PATIENCE_S, wait_for
from tests.support.stack_fixture import lakerunner, stack_settings, start_stack, stop_stack

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("ingest")
    start_stack(directory, ["ingress"])
    yield directory
    close_readers()
    stop_stack(directory)


@pytest.fixture
def settings(data_dir: Path) -> Settings:
    return stack_settings(data_dir)


@pytest.fixture
def topic(settings: Settings) -> str:
    name = f"test.{uuid.uuid4().hex}"
    create(settings, name)
    return name


def create(settings: Settings, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(PATIENCE_S)


def send(settings: Settings, topic: str, count: int) -> None:
    producer = Producer(settings.kafka_bootstrap)
    producer.send([OutboxMessage(topic, str(n), str(n).encode()) for n in range(count)])
    producer.close()


def test_files_become_references_once_announced(data_dir: Path, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "a.binpb").write_text('{"a": 1}')
    (tmp_path / "b c+d.binpb.gz").write_text('{"b": 1}')
    assert lakerunner(data_dir, "admin", "org", "create", "acme").returncode == 0
    for expected in ("2 new object(s)", "2 already there"):
        done = lakerunner(data_dir, "ingest", str(tmp_path), "--org", "acme")
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
    batch = read_batch(settings.kafka_bootstrap, ingest_topic("logs"), ())
    keys = [record.key for message in batch.messages for record in decode_message(message.value)]
    assert len(keys) == 4
    assert {(data_dir / "raw" / key).is_file() for key in keys} == {True}
    assert len(set(keys)) == 2


def test_an_unknown_organisation_is_one_line(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "a.binpb").write_text("{}")
    done = lakerunner(data_dir, "ingest", str(tmp_path), "--org", "nobody")
    assert done.returncode == 2
    assert done.stderr.startswith("lakerunner ingest: no enabled organisation 'nobody'")


def test_messages_dropped_by_the_broker_are_a_gap(settings: Settings, topic: str) -> None:
    send(settings, topic, 10)
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        future.result(PATIENCE_S)
    batch = read_batch(settings.kafka_bootstrap, topic, [TopicOffset(topic, 0, 2)])
    (event,) = batch.events
    assert (event.kind, event.start, event.end, event.lost) == (EventKind.GAP, 2, 6, 4)
    assert [int(m.value) for m in batch.messages] == [6, 7, 8, 9]


def test_a_recreated_topic_is_read_from_its_start(settings: Settings, topic: str) -> None:
    send(settings, topic, 10)
    before = read_batch(settings.kafka_bootstrap, topic, ()).next_offsets
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    for future in admin.delete_topics([topic]).values():
        future.result(PATIENCE_S)
    wait_for(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics, "the end of the topic")
    create(settings, topic)
    send(settings, topic, 3)
    batch = read_batch(settings.kafka_bootstrap, topic, before)
    assert [event.kind for event in batch.events] == [EventKind.BROKER_RESET]
    assert [int(m.value) for m in batch.messages] == [0, 1, 2]
    assert batch.next_offsets == (TopicOffset(topic, 0, 3),)


def test_lag_is_committed_for_dashboards(settings: Settings, topic: str) -> None:
    send(settings, topic, 5)
    assert (
        commit_for_lag(settings.kafka_bootstrap, read_batch(settings.kafka_bootstrap, topic, ()).next_offsets)
        == ""
    )
