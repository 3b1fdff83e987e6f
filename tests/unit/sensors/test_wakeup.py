"""Notices are hints: read once, refused with a reason, and never needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resources.index.types import TopicOffset
from resources.kafka.reader import KafkaUnavailableError, Message, ReadBatch
from resources.lake.frequency import TEN_SECONDS
from resources.lake.layout import Signal
from sensors import wakeup
from tests.support.cooking_lake import Lake, lake_in
from tests.support.rolling_lake import arrive, every, gauge, roll


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


def message(value: bytes, offset: int = 0) -> Message:
    return Message("boxer.logs.compact", 0, offset, b"", value, 0)


def test_what_publications_write_are_notices(lake: Lake) -> None:
    arrive(lake, "a", gauge(every(60)))
    lake.cook(Signal.METRICS)
    roll(lake, TEN_SECONDS)
    written = [sent for _, sent in lake.index._state.outbox]
    assert {sent.topic for sent in written} == {"boxer.metrics.compact", wakeup.ROLLUP_TOPIC}
    assert [wakeup.dead_letter_of(message(sent.payload)) for sent in written] == [None] * len(written)


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b'{"org": "acme"}', b'{"org": "a", "hour_ns": 1, "what": 2}', b"\xff"]
)
def test_what_is_no_notice_is_refused_with_a_reason(value: bytes) -> None:
    letter = wakeup.dead_letter_of(message(value, 7))
    assert letter is not None
    assert (letter.payload, letter.offset) == (value, 7)
    assert letter.reason.startswith("not a notice about a partition: ")


def test_each_notice_is_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[TopicOffset]] = []

    def read(_: str, topic: str, offsets: list[TopicOffset], __: int) -> ReadBatch:
        asked.append(list(offsets))
        start = offsets[0].next_offset if offsets else 0
        found = [message(b"nonsense", start)] if start < 1 else []
        return ReadBatch(messages=tuple(found), next_offsets=(TopicOffset(topic, 0, 1),), events=(), lag=0)

    settings: Any = lake.settings.__class__(
        data_dir=lake.folder, lake_url="file:///x", kafka_bootstrap="localhost:1"
    )
    monkeypatch.setattr(wakeup, "read_batch", read)
    taken = [wakeup.take_notices(lake.index, settings, "boxer.logs.compact") for _ in range(2)]
    assert taken == [1, 0]
    assert asked == [[], [TopicOffset("boxer.logs.compact", 0, 1)]]
    assert lake.index.backlog().dead_letters == 1


def test_kafka_away_is_said_and_nothing_else_happens(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> ReadBatch:
        raise KafkaUnavailableError("no broker")

    monkeypatch.setattr(wakeup, "read_batch", read)
    settings: Any = lake.settings.__class__(data_dir=lake.folder, kafka_bootstrap="localhost:1")
    with pytest.raises(KafkaUnavailableError):
        wakeup.take_notices(lake.index, settings, wakeup.ROLLUP_TOPIC)
