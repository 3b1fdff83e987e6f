"""Kept traces are claimed in a real Redis, and in the index while that is away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from lakerunner_sampling.dedup import FIRST_REST_S, Deduplicator
from resources.index.memory import MemoryIndex
from resources.index.sampling_types import Reason, SamplerRecord, SamplingStep, rows_of
from tests.support.redis_server import RedisServer, start_redis

pytestmark = pytest.mark.integration
IDS = [number.to_bytes(16, "big") for number in (1, 2, 10, 13)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    found = start_redis(tmp_path_factory.mktemp("redis"))
    yield found
    found.stop()


@pytest.fixture
def index() -> MemoryIndex:
    found = MemoryIndex()
    for org in ("acme", "beta"):
        found.create_organisation(org)
    return found


def claim(index: MemoryIndex, name: str, org: str = "acme") -> SamplerRecord:
    found = index.claim_sampler(org, name, "owner", 60)
    assert found is not None
    return found


def test_a_trace_belongs_to_the_sampler_that_claims_it_first(server: RedisServer, index: MemoryIndex) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        dedup = Deduplicator(index, 7200, server.url)
        us, eu, beta = claim(index, "us"), claim(index, "eu"), claim(index, "us", "beta")
        assert dedup.claim(us, IDS[:2]).tolist() == [True, True]
        assert dedup.claim(us, IDS[:3]).tolist() == [True] * 3, "a step that is repeated claims its own again"
        assert dedup.claim(eu, IDS).tolist() == [False, False, False, True]
        assert dedup.claim(beta, IDS).tolist() == [True] * 4
        assert dedup.claim(us, []).tolist() == []
        assert 7190 < client.ttl(b"lr:acme:" + IDS[0]) <= 7200
        assert client.dbsize() == 8
        dedup.close()


def test_many_traces_are_claimed_in_bounded_calls(server: RedisServer, index: MemoryIndex) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        ids = [number.to_bytes(16, "little") for number in range(12_000)]
        dedup = Deduplicator(index, 60, server.url)
        assert dedup.claim(claim(index, "us"), ids[::2]).all()
        assert dedup.claim(claim(index, "eu"), ids).tolist() == [False, True] * 6000
        dedup.close()


def test_the_index_answers_while_redis_is_away(tmp_path: Path, index: MemoryIndex) -> None:
    server, now = start_redis(tmp_path), 0.0
    dedup = Deduplicator(index, 7200, server.url, clock=lambda: now)
    us, eu = claim(index, "us"), claim(index, "eu")
    assert dedup.claim(us, IDS[:1]).all()
    decisions = rows_of({"trace_id": IDS[0] + IDS[1], "is_kept": True, "sequence": 1, "revision": 1}, 2)
    assert index.write_step(SamplingStep(replace(us, sequence=1), decisions, [Reason("p", "r")]))
    server.stop()
    assert dedup.claim(eu, IDS).tolist() == [False, False, True, True]
    assert dedup.claim(us, IDS).all()
    assert dedup.counts == {"redis": 1, "postgres": 8, "failures": 1}, "a rest, and no second attempt"
    server.start()
    now += FIRST_REST_S + 0.1
    assert dedup.claim(eu, IDS[2:]).all()
    assert dedup.counts["redis"] == 3
    dedup.close()
    server.stop()
