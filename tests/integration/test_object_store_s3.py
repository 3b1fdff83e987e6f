"""One contract, two stores: a directory, and a real S3 server (moto) in a process of its own."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from resources.objects.client import ObjectStore
from resources.objects.errors import AlreadyExistsError, ChangedError, NotFoundError, UnavailableError
from resources.objects.store import open_store
from resources.settings import Settings

pytestmark = pytest.mark.integration
NAMES = ["plain", "a b", "a+b", "a%20b", "ünï", "a&b=c", "a,b(c)'d"]


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "file":
        return open_store(f"file://{tmp_path}/lake", Settings())
    return open_store(f"s3://lake/{tmp_path.name}", request.getfixturevalue("s3"))


@pytest.mark.parametrize("name", NAMES)
def test_any_name_comes_back_as_it_was_put(store: ObjectStore, name: str) -> None:
    etag = store.put_new(f"f/{name}", b"data")
    got = store.get(f"f/{name}")
    assert (got.data, got.etag, got.size) == (b"data", etag, 4)
    assert [o.key for chunk in store.list("f") for o in chunk] == [f"f/{name}"]


def test_create_only_never_replaces(store: ObjectStore) -> None:
    store.put_new("k", b"first")
    with pytest.raises(AlreadyExistsError, match="k"):
        store.put_new("k", b"second")
    assert store.get_bytes("k") == b"first"


def test_of_many_creators_one_wins(store: ObjectStore) -> None:
    won: list[int] = []

    def create(n: int) -> None:
        try:
            store.put_new("race", str(n).encode())
        except AlreadyExistsError:
            return
        won.append(n)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.get_bytes("race")] == [str(n).encode() for n in won]


def test_the_etag_changes_with_the_content(store: ObjectStore) -> None:
    first = store.put("k", b"1")
    second = store.put("k", b"2")
    assert first
    assert second
    assert first != second
    assert store.head("k").etag == second


def test_ranges(store: ObjectStore) -> None:
    store.put("k", bytes(range(100)))
    assert store.get_range("k", 10, 5) == bytes(range(10, 15))
    assert store.get_range("k", 95, 50) == bytes(range(95, 100))
    assert store.get_range("k", 3, 0) == b""


def test_files_go_up_and_come_down_whole(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.objects.client.FETCH_CHUNK", 1_000_000)
    data = bytes(range(256)) * 10_000
    source, target = tmp_path / "up", tmp_path / "down"
    source.write_bytes(data)
    etag = store.put_new("big", source)
    assert store.fetch_to("big", target, etag) == len(data)
    assert target.read_bytes() == data
    store.put_new("empty", b"")
    assert store.fetch_to("empty", target) == 0
    assert target.read_bytes() == b""


def test_an_object_replaced_meanwhile_is_noticed_and_leaves_no_file(
    store: ObjectStore, tmp_path: Path
) -> None:
    etag = store.put("k", b"old")
    store.put("k", b"new!")
    with pytest.raises(ChangedError):
        store.fetch_to("k", tmp_path / "down", etag)
    assert not [p for p in tmp_path.iterdir() if "down" in p.name]


def test_what_is_not_there_is_not_found(store: ObjectStore, tmp_path: Path) -> None:
    for call in (store.get, store.head, lambda key: store.get_range(key, 0, 1)):
        with pytest.raises(NotFoundError, match="none/such"):
            call("none/such")
    with pytest.raises(NotFoundError):
        store.fetch_to("none/such", tmp_path / "x")
    assert not store.exists("none/such")


def test_listing_in_chunks_by_folder(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.objects.client.LIST_CHUNK", 10)
    for n in range(25):
        store.put(f"a/b/{n:02d}", b"x" * n)
    store.put("a/bc/other", b"x")
    chunks = list(store.list("a/b"))
    found = {o.key: o.size for chunk in chunks for o in chunk}
    assert found == {f"a/b/{n:02d}": n for n in range(25)}
    assert len(chunks) == 3
    assert store.list_folders("a") == ["a/b", "a/bc"]
    assert list(store.list("nothing/here")) == []


def test_deleting_is_idempotent(store: ObjectStore) -> None:
    for n in range(5):
        store.put(f"d/{n}", b"x")
    store.delete(["d/0", "d/9", "d/1", "d/2"])
    store.delete(["d/0", "d/1"])
    store.delete([])
    assert sorted(o.key for chunk in store.list("d") for o in chunk) == ["d/3", "d/4"]


def test_a_bucket_that_does_not_exist(s3: Settings) -> None:
    with pytest.raises(NotFoundError):
        open_store("s3://missing-bucket", s3).get("k")


def test_a_dead_server_is_given_up_in_bounded_time(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{probe.getsockname()[1]}"
    settings = Settings(s3_endpoint=dead, s3_access_key_id="t", s3_secret_access_key="t", store_max_retries=2)
    with pytest.raises(UnavailableError):
        open_store("s3://lake", settings).get("k")
