"""While the index is away, what was known of it answers, says so, and never mixes two moments."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from lakerunner_query.coordinator import locate, replica
from lakerunner_query.coordinator.engine import Engine, Limits
from lakerunner_query.coordinator.languages import LOG_SAMPLES, STREAM_LABELS
from lakerunner_query.coordinator.locate import Locator, Lookup, RollupLookup
from lakerunner_query.coordinator.logql_samples import LogSamplesRequest
from lakerunner_query.coordinator.names import StreamsRequest
from lakerunner_query.coordinator.replica import Replicas
from lakerunner_query.errors import IndexUnavailableError
from lakerunner_query.fairness import Admission
from lakerunner_query.protocol.units import INDEX
from resources.index import postgres
from resources.index.memory import MemoryIndex
from resources.index.types import SegmentQuery, Snapshot, TierQuery
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS, SECOND_NS
from tests.contract.test_index_snapshots import publish
from tests.contract.test_index_tiers import DAY_START, FREQUENCIES, HOUR, segment
from tests.support.patience import PATIENCE_S, until
from tests.support.query.in_process import InProcess, compact
from tests.support.query.lake import BASE, Lake, Line

MAX_AGE_S = 900.0


class Switch:
    """An index that can be gone (every call fails at once) or frozen (every call hangs)."""

    def __init__(self, index: object) -> None:
        self._index = index
        self.is_gone = False
        self.thawed = threading.Event()
        self.thawed.set()
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        method = getattr(self._index, name)

        def call(*arguments: object) -> object:
            self.calls += 1
            self.thawed.wait(PATIENCE_S)
            if self.is_gone:
                raise postgres.IndexUnavailableError("connection refused")
            return method(*arguments)

        return call


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = Lake(tmp_path / "lake")
    found.add_org("acme", "key")
    found.write("acme", [Line((n + 1) * SECOND_NS, f"line {n}", "web") for n in range(30)])
    found.write("acme", [Line((n + 1) * SECOND_NS, f"line {n}", "db") for n in range(20)])
    return found


@pytest.fixture
def switch(lake: Lake) -> Iterator[Switch]:
    found = Switch(lake.index)
    yield found
    found.thawed.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "LOOK_S", 0.02)
    monkeypatch.setattr(locate, "SUSPECT_S", 0.1)
    monkeypatch.setattr(locate, "PROBE_S", 0.1)
    monkeypatch.setattr(locate, "KEY_GOOD_S", 0.0)
    monkeypatch.setattr(replica, "REFRESH_S", 0.05)
    monkeypatch.setattr(replica, "RECENT_NS", 2**62)


def run(switch: Switch, act: Callable[[Locator], Coroutine[Any, Any, Any]]) -> Any:
    async def whole() -> Any:
        locator = Locator(cast("Any", switch), max_age_s=MAX_AGE_S)
        locator.open()
        try:
            async with asyncio.timeout(PATIENCE_S):  # queries have a day
                return await act(locator)
        finally:
            switch.thawed.set()
            locator.close()

    return asyncio.run(whole())


def logs() -> StreamsRequest:
    return StreamsRequest("acme", BASE, BASE + 600 * SECOND_NS)


async def lines(engine: Engine, service: str, end_s: int = 600) -> tuple[int, dict[str, Any]]:
    text = f'sum(count_over_time({{service_name="{service}"}}[10m]))'
    at = BASE + end_s * SECOND_NS
    query = await engine.prepare(LOG_SAMPLES, text, LogSamplesRequest("acme", at, at))
    found = await engine.collect(query)
    values = [one.floats.split(b'"')[1] for one in found.series]
    return int(values[0]) if values else 0, found.missing


def engine_of(locator: Locator, lake: Lake, scratch: Path) -> Engine:
    dispatcher: Any = InProcess(lake.folder, scratch)
    return Engine(locator, dispatcher, Admission(4), Limits(24 * 3600.0, max_rows=1000))


def known(locator: Locator) -> Callable[[], bool]:
    return lambda: locator.gauges()["lakerunner_query_index_replica_segments"] > 0


def test_similar_queries_and_labels_are_answered_and_say_that_they_are_outdated(
    lake: Lake, switch: Switch, tmp_path: Path
) -> None:
    async def act(locator: Locator) -> Any:
        engine = engine_of(locator, lake, tmp_path / "worker")
        before = await lines(engine, "web")
        await until(known(locator))
        switch.is_gone = True
        asked_again, other, slid = [await lines(engine, *one) for one in (("web",), ("db",), ("web", 615))]
        labels = await engine.ask(STREAM_LABELS, logs())
        return before, asked_again, other, slid, labels, locator.gauges(), await locator.health()

    before, again, other, slid, labels, gauges, health = run(switch, act)
    assert before == (30, {})
    assert [one[0] for one in (again, other, slid)] == [30, 20, 15]
    assert "service_name" in labels.texts
    for missing in (again[1], other[1], slid[1], labels.missing):
        assert "the segment index has not answered for" in missing[INDEX].reason
        assert "may be missing" in missing[INDEX].reason
    assert gauges["lakerunner_query_index_away"] == 1
    assert gauges["lakerunner_query_index_outdated_answers_total"] == 4
    assert health.startswith("degraded")


def test_a_replica_answers_as_of_one_moment_whatever_was_merged_since(
    lake: Lake, switch: Switch, tmp_path: Path
) -> None:
    """Segment by segment is merged; at every moment the index may go away, and no line counts twice."""
    assert isinstance(lake.index, MemoryIndex)
    first = [stored.segment for stored in lake.index._state.segments.values()]

    async def act(locator: Locator) -> list[tuple[int, int]]:
        engine = engine_of(locator, lake, tmp_path / "worker")
        counts, newest = [], first
        await lines(engine, "web")
        await until(known(locator))
        for turn in range(6):
            newest = [compact(lake, one, turn + 1) for one in newest]
            await asyncio.sleep(0.02 * turn)
            switch.is_gone = True
            counts.append(((await lines(engine, "web"))[0], (await lines(engine, "db"))[0]))
            switch.is_gone = False
            await until(lambda: not locator.gauges()["lakerunner_query_index_away"])
            counts.append(((await lines(engine, "web"))[0], (await lines(engine, "db"))[0]))
        return counts

    assert run(switch, act) == [(30, 20)] * 12


def test_what_is_not_known_or_too_old_is_refused_at_once(lake: Lake, switch: Switch, tmp_path: Path) -> None:
    async def act(locator: Locator) -> list[str]:
        engine = engine_of(locator, lake, tmp_path / "worker")
        await lines(engine, "web")
        await until(known(locator))
        switch.is_gone = True
        await lines(engine, "web")
        refused = []
        for ask in (lines(engine, "web", -7200), engine.ask(STREAM_LABELS, replace(logs(), org="umbrella"))):
            with pytest.raises(IndexUnavailableError) as error:
                await ask
            refused.append(error.value.message)
        locator._max_age_s = 0.0
        with pytest.raises(IndexUnavailableError) as error:
            await lines(engine, "web")
        with pytest.raises(IndexUnavailableError):
            await locator.health()
        return [*refused, error.value.message]

    assert run(switch, act) == [locate.AWAY] * 3


def test_keys_stay_good_while_the_index_is_away_and_are_judged_anew_when_it_is_back(
    lake: Lake, switch: Switch
) -> None:
    key, stranger = sha256(b"key").digest(), sha256(b"stranger").digest()

    async def act(locator: Locator) -> None:
        assert await locator.api_key(stranger) is None
        good = await locator.api_key(key)
        assert good is not None
        switch.is_gone = True
        assert await locator.api_key(key) == good
        with pytest.raises(IndexUnavailableError):
            await locator.api_key(stranger)
        lake.index.revoke_api_key("acme", "key")
        assert await locator.api_key(key) == good, "nobody can know"
        switch.is_gone = False
        await until(lambda: not locator.gauges()["lakerunner_query_index_away"])
        assert await locator.api_key(key) is None
        switch.is_gone = True
        with pytest.raises(IndexUnavailableError):
            await locator.api_key(key)

    run(switch, act)


def test_a_frozen_index_is_waited_for_once(lake: Lake, switch: Switch, tmp_path: Path) -> None:
    async def act(locator: Locator) -> tuple[int, int]:
        engine = engine_of(locator, lake, tmp_path / "worker")
        await lines(engine, "web")
        await until(known(locator))
        switch.thawed.clear()
        first = await asyncio.gather(*(lines(engine, "web") for _ in range(5)))
        calls = switch.calls
        later = [await lines(engine, "web") for _ in range(5)]
        assert {one[0] for one in (*first, *later)} == {30}
        asked = switch.calls - calls
        switch.thawed.set()
        await until(lambda: not locator.gauges()["lakerunner_query_index_away"])
        return asked, (await lines(engine, "web"))[0]

    asked, count = run(switch, act)
    assert count == 30
    assert asked <= 3, "nothing but probes"


def random_index(seed: int) -> MemoryIndex:
    chosen, index = random.Random(seed), MemoryIndex()
    index.create_organisation("acme")
    for number in range(1, 40):
        start = HOUR + chosen.randrange(-3, 3) * HOUR_NS + chosen.randrange(HOUR_NS)
        found = replace(
            segment(number, terms=tuple(chosen.sample(range(-8, 8), chosen.randrange(5)))),
            min_ns=start, max_ns=start + chosen.randrange(HOUR_NS), label_names=("a", str(number % 3)),
        )  # fmt: skip
        publish(index, [found])
    return index


@pytest.mark.parametrize("seed", range(5))
def test_a_replica_says_what_the_index_said(seed: int) -> None:
    index, chosen = random_index(seed), random.Random(seed)
    replicas = Replicas(index, 1 << 24)
    whole = SegmentQuery("acme", "metrics", 0, HOUR - 2 * HOUR_NS, HOUR + HOUR_NS)
    tiers = TierQuery("acme", Signal.METRICS, FREQUENCIES, DAY_START, HOUR + HOUR_NS)
    assert replicas.touch([whole], tiers)
    replicas.refresh("acme")
    assert not replicas.touch([whole], tiers)
    found = replicas.find("acme", 60)
    assert found is not None
    for _ in range(200):
        start = chosen.randrange(whole.start_ns, whole.end_ns)
        terms = tuple(
            tuple(chosen.sample(range(-8, 8), chosen.randrange(1, 4))) for _ in range(chosen.randrange(3))
        )
        asked = replace(
            whole, start_ns=start, end_ns=chosen.randrange(start, whole.end_ns + 1), terms=terms,
            names=chosen.random() < 0.5,
        )  # fmt: skip
        narrow = replace(tiers, start_ns=start, frequencies_ms=FREQUENCIES[: chosen.randrange(1, 3)])
        assert found.snapshot([asked, whole], narrow) == index.snapshot([asked, whole], narrow)
    assert found.snapshot([replace(whole, dataset="logs")], None) is None
    assert found.snapshot([replace(whole, start_ns=whole.start_ns - 2 * HOUR_NS)], None) is None
    assert found.snapshot([], replace(tiers, frequencies_ms=(*FREQUENCIES, 1))) is None


def test_replicas_stay_within_their_memory_and_leave_out_what_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica, "RECENT_NS", -(2**62))
    monkeypatch.setattr(replica, "BYTES_FOR_ONE", replica.ROW_BYTES)
    index = random_index(1)
    wide = SegmentQuery("acme", "metrics", 0, HOUR - 2 * HOUR_NS, HOUR + HOUR_NS)
    narrow = SegmentQuery("acme", "metrics", 0, HOUR - 9 * HOUR_NS, HOUR - 8 * HOUR_NS)
    replicas = Replicas(index, 20 * replica.ROW_BYTES)
    replicas.touch([wide], None)
    replicas.touch([narrow], None)
    replicas.refresh("acme")
    found = replicas.find("acme", 60)
    assert found is not None
    assert found.snapshot([wide], None) is None
    assert found.snapshot([narrow], None) == Snapshot(((),))
    assert replicas.gauges()["lakerunner_query_index_replica_bytes"] <= 20 * replica.ROW_BYTES
    assert not replicas.touch([wide], None), "not read again"
    assert replicas.due(max_age_s=60) == []
    part = replace(wide, start_ns=HOUR - 2 * HOUR_NS, end_ns=HOUR - 2 * HOUR_NS)
    replicas.touch([part], None)
    replicas.refresh("acme")
    found = replicas.find("acme", 60)
    assert found is not None
    assert found.snapshot([part], None) == index.snapshot([part]), "a part of it is"


def test_rollups_are_remembered_beside_their_samples(switch: Switch, lake: Lake) -> None:
    """Without them an answer whose samples are past retention would be short."""
    lookup = Lookup((), RollupLookup("acme", FREQUENCIES[1:], DAY_START // 1_000_000, HOUR // 1_000_000))

    async def act(locator: Locator) -> bool:
        now = await locator.look_up(lookup, asyncio.get_running_loop().time() + PATIENCE_S)
        await until(lambda: bool(locator.gauges()["lakerunner_query_index_replica_organisations"]))
        switch.is_gone = True
        then = await locator.look_up(lookup, asyncio.get_running_loop().time() + PATIENCE_S)
        return bool(then.outdated) and then.tiers == now.tiers

    assert run(switch, act)
