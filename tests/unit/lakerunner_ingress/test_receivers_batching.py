"""Batches: who shares an object, when it is written, and what its requests hear; what follows a failure."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_ingress.errors import UnavailableError
from lakerunner_ingress.receivers.batching import WRITERS, Batcher, BatchLimits, PutBudget
from lakerunner_ingress.receivers.forms import Form, Lane
from lakerunner_ingress.receivers.limits import BURST_S, MAX_AGE_S, PushLimits, Quota
from lakerunner_ingress.receivers.retries import RetryQueue
from lakerunner_ingress.receivers.writing import Writer
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import PushTelemetry
from resources.index.account_types import StorageProfile
from resources.lake.layout import PrefixMapping, Signal
from resources.notifications.raw_objects import compress
from resources.objects import errors as store_errors
from resources.objects import store
from resources.settings import Settings
from tests.support.ingress.doubles import FakeProducer, FlakyIndex
from tests.support.ingress.push_fakes import announced, index_with, objects
from tests.support.patience import PATIENCE_S, until, wait_for

LANE = Lane("acme", "push", Signal.LOGS, Form.OTLP_JSON)
OTHER = Lane("acme", "push", Signal.LOGS, Form.OTLP_PROTOBUF)


class Objects:
    """What a batcher wrote; `gate` holds writing up, `error` makes it fail."""

    def __init__(self) -> None:
        self.written: list[tuple[Lane, bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def write(self, lane: Lane, parts: Sequence[bytes]) -> None:
        assert self.gate.wait(PATIENCE_S)
        if self.error:
            raise self.error
        self.written.append((lane, b"".join(parts)))


def test_requests_of_a_lane_share_an_object_and_lanes_do_not() -> None:
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 0.05, 0))
        await asyncio.gather(batcher.offer(LANE, b"a"), batcher.offer(OTHER, b"x"), batcher.offer(LANE, b"b"))
        await batcher.close()

    asyncio.run(work())
    assert sorted(found.written, key=str) == sorted([(LANE, b"ab"), (OTHER, b"x")], key=str)


def test_a_batch_is_written_when_it_is_full_and_never_larger_unless_one_request_is() -> None:
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(10, 3600.0, 0))
        sizes = (4, 5, 6, 30, 10)
        offers = [asyncio.create_task(batcher.offer(LANE, b"x" * n)) for n in sizes]
        await asyncio.wait_for(asyncio.gather(*offers), PATIENCE_S)
        await batcher.close()

    asyncio.run(work())
    assert sorted(len(data) for _, data in found.written) == [6, 9, 10, 30]


def test_nobody_is_answered_before_the_object_is_durable() -> None:
    found = Objects()
    found.gate.clear()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 0.01, 0))
        offer = asyncio.create_task(batcher.offer(LANE, b"a"))
        await asyncio.sleep(0.1)
        assert not offer.done()
        found.gate.set()
        await offer
        await batcher.close()

    asyncio.run(work())
    assert found.written == [(LANE, b"a")]


def test_a_failure_is_told_to_every_request_of_the_batch_and_to_no_other() -> None:
    found = Objects()
    found.error = UnavailableError("no store")

    async def work() -> list[Any]:
        batcher = Batcher(found.write, BatchLimits(1000, 0.01, 0))
        offers = [batcher.offer(LANE, b"a"), batcher.offer(LANE, b"b")]
        failed = await asyncio.gather(*offers, return_exceptions=True)
        found.error = None
        await batcher.offer(LANE, b"c")
        await batcher.close()
        return failed

    assert [str(error) for error in asyncio.run(work())] == ["no store", "no store"]
    assert found.written == [(LANE, b"c")]


def test_a_request_that_was_cancelled_does_no_harm_to_its_batch() -> None:
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 0.05, 0))
        gone = asyncio.create_task(batcher.offer(LANE, b"a"))
        stays = asyncio.create_task(batcher.offer(LANE, b"b"))
        await asyncio.sleep(0)
        gone.cancel()
        await stays
        await batcher.close()

    asyncio.run(work())
    assert found.written == [(LANE, b"ab")]


def test_draining_writes_at_once_answers_all_and_takes_nothing_more() -> None:
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 3600.0, 0))
        offers = [asyncio.create_task(batcher.offer(lane, b"a")) for lane in (LANE, OTHER)]
        await asyncio.sleep(0)
        await asyncio.wait_for(batcher.drain(), PATIENCE_S)
        await asyncio.wait_for(asyncio.gather(*offers), PATIENCE_S)
        with pytest.raises(UnavailableError, match="stopping"):
            await batcher.offer(LANE, b"b")
        await batcher.close()

    asyncio.run(work())
    assert sorted(data for _, data in found.written) == [b"a", b"a"]


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 3), st.booleans()), min_size=1, max_size=60),
    st.integers(0, 60),
    st.sampled_from([0, 600, 6000]),
)
def test_what_is_accepted_is_written_exactly_once_and_what_is_refused_is_not(
    pushes: list[tuple[int, int, bool]], drained_after: int, puts: int
) -> None:
    """Whatever sizes, pauses, failing puts and the moment of the end."""
    written: list[bytes] = []
    lanes = [LANE, OTHER]

    def write(lane: Lane, parts: Sequence[bytes]) -> None:
        if parts[0].endswith(b"!"):
            raise UnavailableError("no store")
        written.extend(parts)

    async def work() -> list[bytes]:
        batcher = Batcher(write, BatchLimits(60, 0.001, puts))
        accepted: list[bytes] = []

        async def push(number: int, size: int, fails: bool) -> None:
            data = b"%d:" % number + b"x" * size + (b"!" if fails else b"")
            try:
                await batcher.offer(lanes[number % 2], data)
            except UnavailableError:
                return
            accepted.append(data)

        tasks = []
        for number, (size, pause, fails) in enumerate(pushes):
            if number == drained_after:
                tasks.append(asyncio.create_task(batcher.drain()))
            tasks.append(asyncio.create_task(push(number, size, fails)))
            await asyncio.sleep(pause * 0.0005)
        await asyncio.gather(*tasks)
        await batcher.close()
        return accepted

    accepted = asyncio.run(work())
    assert sorted(accepted) == sorted(written)


# --- commit while busy, and the budget of puts -------------------------------------------------------


def test_an_idle_lane_is_written_at_once_and_others_gather_while_it_is() -> None:
    found = Objects()
    found.gate.clear()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 3600.0, 60_000))
        first = asyncio.create_task(batcher.offer(LANE, b"a"))
        await asyncio.sleep(0.05)
        later = [asyncio.create_task(batcher.offer(LANE, b"%d" % n)) for n in range(5)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in (first, *later))
        found.gate.set()
        await asyncio.wait_for(asyncio.gather(first, *later), PATIENCE_S)
        assert [data for _, data in found.written] == [b"a", b"01234"]
        await batcher.close()

    asyncio.run(work())


def test_a_sender_that_waits_for_each_answer_is_not_held_up() -> None:
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 3600.0, 60_000))
        for _ in range(20):
            await asyncio.wait_for(batcher.offer(LANE, b"a"), PATIENCE_S)
        await batcher.close()

    asyncio.run(work())
    assert len(found.written) == 20


def test_without_tokens_lanes_wait_for_their_age_and_share_objects_meanwhile() -> None:
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 0.2, 1))
        batcher._budget = PutBudget(1, lambda: 0.0)  # one put, and no other one until the clock moves
        await batcher.offer(LANE, b"a")
        began = time.monotonic()
        later = asyncio.gather(*(batcher.offer(LANE, b"b") for _ in range(9)))
        await asyncio.wait_for(later, PATIENCE_S)
        assert time.monotonic() - began > 0.15
        await batcher.close()

    asyncio.run(work())
    assert [data for _, data in found.written] == [b"a", b"b" * 9]


def test_a_neighbour_waits_for_one_object_of_a_busy_organisation_and_not_for_all() -> None:
    """One organisation has 200 lanes; the budget and the threads go round."""
    found = Objects()
    found.gate.clear()
    busy = [Lane("acme", f"c{n}", Signal.LOGS, Form.OTLP_JSON) for n in range(200)]
    quiet = Lane("beta", "push", Signal.LOGS, Form.OTLP_JSON)

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 3600.0, 60_000))
        offers = [asyncio.create_task(batcher.offer(lane, b"a")) for lane in busy]
        await asyncio.sleep(0.05)
        late = asyncio.create_task(batcher.offer(quiet, b"b"))
        await asyncio.sleep(0.05)
        found.gate.set()
        await asyncio.wait_for(asyncio.gather(late, *offers), PATIENCE_S)
        await batcher.close()

    asyncio.run(work())
    assert [lane.org for lane, _ in found.written].index("beta") <= 2 * WRITERS


def test_tokens_go_round_between_organisations() -> None:
    found = Objects()

    async def work() -> None:
        now = [0.0]
        batcher = Batcher(found.write, BatchLimits(1000, 3600.0, 600))
        batcher._budget = PutBudget(600, lambda: now[0])  # ten a second, a hundred at once
        lanes = [Lane("acme", f"c{n}", Signal.LOGS, Form.OTLP_JSON) for n in range(200)]
        offers = [asyncio.create_task(batcher.offer(lane, b"a")) for lane in lanes]
        await until(lambda: sum(offer.done() for offer in offers) == 100, "the first hundred")
        beta = asyncio.create_task(batcher.offer(Lane("beta", "p", Signal.LOGS, Form.OTLP_JSON), b"b"))
        await asyncio.sleep(0)
        now[0] += 0.21  # two puts, of which beta's is one
        await asyncio.wait_for(beta, PATIENCE_S)
        assert sum(not offer.done() for offer in offers) >= 98
        await batcher.close()
        await asyncio.gather(*offers)

    asyncio.run(work())


@pytest.mark.parametrize("puts", [0, 60])
def test_lanes_that_were_written_for_their_age_wait_for_nothing_more(puts: int) -> None:
    """Names of collectors come from outside, so lanes that were used once must not be remembered."""
    found = Objects()

    async def work() -> None:
        batcher = Batcher(found.write, BatchLimits(1000, 0.05, puts))
        lanes = [Lane("acme", f"c{n}", Signal.LOGS, Form.OTLP_JSON) for n in range(100)]
        await asyncio.gather(*(batcher.offer(lane, b"a") for lane in lanes))
        assert not batcher._thrifty
        assert not batcher._unwritten
        assert not batcher._open
        await batcher.close()

    asyncio.run(work())
    assert len(found.written) == 100


def test_a_budget_is_kept_over_time() -> None:
    now, taken = [0.0], 0
    budget = PutBudget(600, lambda: now[0])
    for _ in range(100_000):
        now[0] += 0.01
        taken += budget.take()
    assert taken == pytest.approx(10 * 1000, rel=0.02)
    assert PutBudget(0).wait_s is None
    assert not PutBudget(0).take()


# --- writing -----------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path) -> FlakyIndex:
    return index_with(tmp_path)


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


def writer(index: FlakyIndex, producer: FakeProducer, **known: Any) -> Writer:
    found = Writer(Settings(**known), index, producer, RegistryCache(index), PushTelemetry())  # type: ignore[arg-type]
    object.__setattr__(found, "announcements", RetryQueue("announce", (UnavailableError,), 0.02))
    object.__setattr__(found, "withdrawals", RetryQueue("withdraw", (store_errors.UnavailableError,), 0.02))
    return found


def settled(afterwork: RetryQueue) -> bool:
    return wait_for(lambda: not afterwork.waiting, "the end of what was put off")


def test_an_object_is_where_its_notice_says(
    index: FlakyIndex, producer: FakeProducer, tmp_path: Path
) -> None:
    lane = Lane("acme", "eu", Signal.METRICS, Form.REMOTE_WRITE)
    writer(index, producer).write(lane, [b"one", b"two"])
    ((key, data),) = objects(tmp_path).items()
    assert data == b"\xc2\xa9\x07\x17prometheus.WriteRequestonetwo"
    (record,) = announced(producer)
    assert (record.bucket, record.key, record.source) == ("raw", key, "push")
    assert record.size == (tmp_path / key).stat().st_size
    assert key.startswith("otel-raw/acme/eu/metrics/20")
    assert key.endswith(".binpb.zst")
    assert [message.topic for message in producer.sent] == ["objstore.ingest.metrics"]
    info = store.open_store(f"file://{tmp_path}", Settings()).head(key)
    assert record.etag == info.etag


def test_the_frame_says_its_size() -> None:
    packed = compress(b"head", [b"x" * 1000, b"y" * 1000])
    assert zstandard.frame_content_size(packed) == 2004


def test_without_kafka_the_outbox_takes_it(index: FlakyIndex, producer: FakeProducer) -> None:
    producer.down = True
    writer(index, producer).write(LANE, [b"a"])
    assert [m.topic for _, m in index._state.outbox] == ["objstore.ingest.logs"]


def test_what_is_durable_is_accepted_and_announced_as_soon_as_that_works(
    index: FlakyIndex, producer: FakeProducer, tmp_path: Path
) -> None:
    found = writer(index, producer)
    found.registry.current()
    producer.down = index.down = True
    found.write(LANE, [b"a"])
    wait_for(lambda: found.announcements.waiting == 1)
    producer.down = False
    assert settled(found.announcements)
    assert [record.key for record in announced(producer)] == list(objects(tmp_path))


class LostAnswer:
    """A store whose put happens and is never confirmed."""

    def __init__(self, folder: Path) -> None:
        self.store = store.open_store(f"file://{folder}", Settings())
        self.away = True

    def put_new(self, key: str, data: bytes) -> str:
        self.store.put_new(key, data)
        raise store_errors.UnavailableError(key, "no answer")

    def delete(self, keys: Sequence[str]) -> None:
        if self.away:
            raise store_errors.UnavailableError(keys[0], "no answer")
        self.store.delete(keys)


def test_what_is_refused_is_removed_since_its_senders_send_it_again(
    index: FlakyIndex, producer: FakeProducer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = LostAnswer(tmp_path)
    monkeypatch.setattr("lakerunner_ingress.receivers.writing.open_store", lambda *_: lost)
    found = writer(index, producer)
    with pytest.raises(UnavailableError, match="nothing was stored: the object store does not answer"):
        found.write(LANE, [b"a"])
    wait_for(lambda: found.withdrawals.waiting == 1)
    assert len(objects(tmp_path)) == 1
    lost.away = False
    assert settled(found.withdrawals)
    assert objects(tmp_path) == {}
    assert producer.sent == []


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [("", "2 buckets are registered: set LAKERUNNER_RECEIVER_BUCKET"), ("nope", "'nope'")],
)
def test_an_unclear_bucket_is_an_error_that_says_so(
    index: FlakyIndex, producer: FakeProducer, bucket: str, reason: str
) -> None:
    index.put_storage_profile(StorageProfile("second", "file:///tmp/none"))
    with pytest.raises(UnavailableError, match=reason):
        writer(index, producer, receiver_bucket=bucket).write(LANE, [b"a"])
    writer(index, producer, receiver_bucket="raw").write(LANE, [b"a"])
    assert len(producer.sent) == 1


def test_a_mapping_cannot_give_an_object_to_somebody_else(
    index: FlakyIndex, producer: FakeProducer, tmp_path: Path
) -> None:
    index.put_prefix_mapping(PrefixMapping("raw", "otel-raw/acme/", "beta", "push", Signal.LOGS))
    with pytest.raises(UnavailableError, match="a prefix mapping"):
        writer(index, producer).write(LANE, [b"a"])
    assert objects(tmp_path) == {}


def test_an_organisation_that_was_just_created_can_push(index: FlakyIndex, producer: FakeProducer) -> None:
    found = writer(index, producer)
    found.registry.current()
    index.create_organisation("newcomer")
    found.write(Lane("newcomer", "push", Signal.LOGS, Form.OTLP_JSON), [b"a"])
    assert len(producer.sent) == 1


# --- afterwork and quota -----------------------------------------------------------------------------


def test_a_chore_that_cannot_be_done_does_not_stop_the_others() -> None:
    done: list[str] = []

    def hopeless() -> None:
        raise ValueError("no")

    work = RetryQueue("test", (UnavailableError,), 0.01)
    work.add("hopeless", hopeless)
    work.add("fine", lambda: done.append("fine"))
    assert settled(work)
    work.add("later", lambda: done.append("later"))
    assert settled(work)
    assert done == ["fine", "later"]


def test_closing_tries_once_more_and_names_what_remains(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[int] = []

    def never() -> None:
        tries.append(1)
        raise UnavailableError("down")

    work = RetryQueue("test", (UnavailableError,), 3600.0)
    work.add("the key", never)
    work.close()
    assert tries == [1]
    assert "given up at the end of this process: the key" in caplog.text


def test_a_quota_lets_a_burst_through_and_then_the_rate() -> None:
    now = [0.0]
    quota = Quota(lambda org: 100 if org == "acme" else None, lambda: now[0])
    assert quota.try_charge("acme", int(100 * BURST_S)) is None
    assert quota.try_charge("acme", 1) is not None
    now[0] += 1.0
    assert quota.try_charge("acme", 350) is None  # 100 there, 250 in debt
    assert quota.try_charge("acme", 1) == pytest.approx(2.5)
    now[0] += 2.6
    assert quota.try_charge("acme", 1) is None
    assert quota.try_charge("beta", 10**12) is None


def test_over_time_a_quota_lets_through_what_it_says() -> None:
    now, passed = [0.0], 0
    quota = Quota(lambda _: 1000, lambda: now[0])
    for _ in range(5000):
        now[0] += 0.1
        passed += 300 if quota.try_charge("acme", 300) is None else 0
    assert passed == pytest.approx(1000 * 500, rel=0.05)


def test_limits_are_read_again_when_they_are_old_and_hold_while_the_index_is_away(index: FlakyIndex) -> None:
    now = [0.0]
    limits = PushLimits(index, lambda: now[0])

    def limit(seconds_later: float) -> int | None:
        now[0] += seconds_later
        limits("acme")
        limits.settle()
        return limits("acme")

    assert limit(0) is None
    index.put_org_setting("acme", "push_bytes_per_second", 5)
    assert limit(MAX_AGE_S - 1) is None
    assert limit(1) == 5
    index.down = True
    assert limit(MAX_AGE_S) == 5
    assert limits("beta") is None
