"""The safety net: objects nobody announced are found, whatever the state of other buckets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakerunner_assets.raw.listing import Listing, register_missed
from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings

HOUR = 490_896 * HOUR_NS  # 2026-01-01T00


@pytest.fixture
def index(tmp_path: Path) -> MemoryIndex:
    made = MemoryIndex()
    for org in ("acme", "beta"):
        made.create_organisation(org)
    made.put_storage_profile(StorageProfile("a-broken", "s3://a-broken", "no-such-credentials"))
    made.put_storage_profile(StorageProfile("raw", f"file://{tmp_path}/raw"))
    return made


def put(folder: Path, key: str) -> None:
    path = folder / "raw" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


def listed(index: MemoryIndex, org: str = "acme") -> Listing:
    return register_missed(index, Settings(), Signal.LOGS, org, [HOUR])


def test_a_bucket_that_cannot_be_listed_is_named_and_hides_no_other(
    index: MemoryIndex, tmp_path: Path
) -> None:
    put(tmp_path, "otel-raw/acme/c/logs/2026/01/01/00/a.binpb")
    found = listed(index)
    assert found.registered == 1
    assert "a-broken" in found.unreachable[0]


@pytest.mark.parametrize(
    "key", ["otel-raw/acme/c/2026/01/01/00/logs_a.binpb", "logs-raw/acme/2026/01/01/00/a.binpb"]
)
def test_every_dated_form_of_a_key_is_found(index: MemoryIndex, tmp_path: Path, key: str) -> None:
    put(tmp_path, key)
    assert listed(index).registered == 1


def test_another_organisations_objects_are_left_to_it(index: MemoryIndex, tmp_path: Path) -> None:
    put(tmp_path, "otel-raw/beta/c/logs/2026/01/01/00/a.binpb")
    put(tmp_path, "otel-raw/acme-2/c/logs/2026/01/01/00/a.binpb")
    assert listed(index).registered == 0
    assert listed(index, "beta").registered == 1
