"""The proxy before an S3 server passes requests, counts them, and injects faults."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from resources.objects.client import ObjectStore
from resources.objects.errors import UnavailableError
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.slow_store import FAULTS, Conditions, SlowStore, slow_store

pytestmark = pytest.mark.integration
DATA = bytes(range(256)) * 8_000


@pytest.fixture
def proxy(s3: Settings) -> Iterator[SlowStore]:
    with slow_store(s3.s3_endpoint) as started:
        yield started


@pytest.fixture
def lake(proxy: SlowStore, s3: Settings, tmp_path: Path) -> ObjectStore:
    settings = replace(s3, s3_endpoint=proxy.url, store_max_retries=0, store_timeout_s=10.0)
    return open_store(f"s3://lake/{tmp_path.name}", settings)


def test_objects_pass_unchanged_and_are_counted(lake: ObjectStore, proxy: SlowStore) -> None:
    lake.put_new("a b", DATA)
    assert lake.get_bytes("a b") == DATA
    assert lake.get_range("a b", 1_000, 500) == DATA[1_000:1_500]
    assert lake.head("a b").size == len(DATA)
    assert [found.key for chunk in lake.list() for found in chunk] == ["a b"]
    lake.delete(["a b"])
    counts = proxy.forget_counts()
    assert (counts.gets("a b"), counts.bytes_read("a b")) == (2, len(DATA) + 500)
    assert [(key.rsplit("/", 1)[1], text) for key, text in counts.ranges] == [("a b", "bytes=1000-1499")]
    assert {method for method, _ in counts.requests} == {"PUT", "GET", "HEAD", "POST"}
    assert proxy.counts.gets() == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_strikes_ranges_and_nothing_else(lake: ObjectStore, proxy: SlowStore, fault: str) -> None:
    lake.put_new("k", DATA)
    proxy.conditions = Conditions(failing=1.0, faults=(fault,), stall_s=0.3)
    assert lake.get_bytes("k") == DATA
    began = time.monotonic()
    if fault == "slow":
        assert lake.get_range("k", 0, 100_000) == DATA[:100_000]
        assert time.monotonic() - began >= 0.3
    elif fault == "short":
        with pytest.raises((UnavailableError, ValueError)):
            _whole(lake.get_range("k", 0, 100_000), 100_000)
    else:
        with pytest.raises(UnavailableError):
            lake.get_range("k", 0, 100_000)
    assert proxy.counts.faults[fault] == 1
    proxy.conditions = Conditions()
    assert lake.get_range("k", 7, 9) == DATA[7:16]


def _whole(data: bytes, length: int) -> None:
    """The store answered with less than was asked for and said so; a reader has to look."""
    if len(data) != length:
        raise ValueError(f"{len(data)} bytes of {length}")


def test_requests_wait_and_bodies_flow_at_the_speed_of_the_conditions(
    lake: ObjectStore, proxy: SlowStore
) -> None:
    lake.put_new("k", DATA)
    proxy.conditions = Conditions(delay_ms=100, bytes_per_s=10e6)
    began = time.monotonic()
    assert lake.get_bytes("k") == DATA
    assert time.monotonic() - began >= 0.1 + len(DATA) / 10e6 - 0.01


def test_the_same_seed_picks_the_same_faults(lake: ObjectStore, s3: Settings, tmp_path: Path) -> None:
    lake.put_new("k", DATA)

    def failures(seed: int) -> list[bool]:
        with slow_store(s3.s3_endpoint, Conditions(failing=0.4, faults=("503",)), seed) as other:
            settings = replace(s3, s3_endpoint=other.url, store_max_retries=0)
            there = open_store(f"s3://lake/{tmp_path.name}", settings)
            return [_fails(there) for _ in range(30)]

    first = failures(3)
    assert first == failures(3)
    assert 3 < sum(first) < 25


def _fails(store: ObjectStore) -> bool:
    try:
        store.get_range("k", 0, 10)
    except UnavailableError:
        return True
    return False


def test_a_listing_that_fails_again_and_again_is_never_short(
    lake: ObjectStore, proxy: SlowStore, s3: Settings, tmp_path: Path
) -> None:
    for number in range(3):
        lake.put_new(f"k{number}", b"x")
    proxy.conditions = Conditions(failing=1.0, faults=("503",), ranges_only=False)
    settings = replace(s3, s3_endpoint=proxy.url, store_max_retries=3)
    patient = open_store(f"s3://lake/{tmp_path.name}", settings)
    with pytest.raises(UnavailableError):
        list(patient.list())
    proxy.conditions = Conditions(failing=0.5, faults=("503",), ranges_only=False)
    for _ in range(5):
        with contextlib.suppress(UnavailableError):
            assert len([found for chunk in patient.list() for found in chunk]) == 3


def test_as_a_program_it_is_asked_and_changed_over_http(s3: Settings, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.slow_store", s3.s3_endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            settings = replace(s3, s3_endpoint=url, store_max_retries=0)
            store = open_store(f"s3://lake/{tmp_path.name}", settings)
            store.put_new("k", DATA)
            changed = httpx.put(f"{url}/_proxy/conditions", json={"failing": 1, "faults": ["503"]}).json()
            assert changed["faults"] == ["503"]
            assert _fails(store)
            counts = httpx.delete(f"{url}/_proxy/counts").json()
            assert counts["faults"] == {"503": 1}
            assert httpx.get(f"{url}/_proxy/counts").json()["faults"] == {}
        finally:
            process.terminate()
