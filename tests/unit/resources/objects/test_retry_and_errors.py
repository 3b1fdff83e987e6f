"""What is tried again, what is not, and that nothing secret reaches a message."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore import exceptions as native

from resources.objects.client import ObjectStore, delay_bound, with_retries
from resources.objects.errors import AlreadyExistsError, NotFoundError, UnavailableError, translate
from resources.objects.latency import LatencyTable
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError


def failing(times: int, error: Exception) -> Callable[[int], int]:
    def call(attempt: int) -> int:
        if attempt <= times:
            raise error
        return attempt

    return call


def test_transient_failures_are_tried_again_with_growing_jittered_pauses() -> None:
    pauses: list[float] = []
    assert with_retries(failing(3, UnavailableError("k", "down")), 5, pauses.append) == 4
    assert len(pauses) == 3
    assert all(0 <= pause <= delay_bound(n) for n, pause in enumerate(pauses, start=1))


def test_retries_are_bounded() -> None:
    pauses: list[float] = []
    with pytest.raises(UnavailableError, match="down"):
        with_retries(failing(99, UnavailableError("k", "down")), 2, pauses.append)
    assert len(pauses) == 2


@pytest.mark.parametrize("error", [NotFoundError("k", "gone"), AlreadyExistsError("k", "taken")])
def test_what_another_try_cannot_cure_is_not_tried_again(error: Exception) -> None:
    pauses: list[float] = []
    with pytest.raises(type(error)):
        with_retries(failing(1, error), 5, pauses.append)
    assert pauses == []


def test_messages_name_the_object_and_hold_no_signature() -> None:
    noise = "GET https://acct.blob/x?sig=SECRET&se=2026 failed\n\nDebug source:\nAccountKey=SECRET"
    error = translate(native.GenericError(noise), "get", "az://acct/c/", "a/b.json")
    assert isinstance(error, UnavailableError)
    assert "get az://acct/c/a/b.json" in str(error)
    assert "SECRET" not in str(error)
    assert pickle.loads(pickle.dumps(error)).key == "a/b.json"  # noqa: S301


class Scripted:
    """Stands for `obstore`: answers each call with the next entry, raising those that are errors."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A client that retries (as against S3), over a directory."""
    monkeypatch.setattr("resources.objects.client.FIRST_DELAY_S", 0.0)
    store = open_store(f"file://{tmp_path}", Settings())
    return ObjectStore("s3://bucket", "", store._backend, max_retries=3)


def test_a_create_whose_answer_was_lost_is_recognised_as_ours(
    remote: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = remote.put("k", b"mine")
    lost = Scripted(native.GenericError("timeout"), native.AlreadyExistsError("412"))
    monkeypatch.setattr("resources.objects.client.obstore.put", lost)
    assert remote.put_new("k", b"mine") == etag


def test_a_create_that_lost_to_somebody_else_says_so(
    remote: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote.put("k", b"theirs")
    lost = Scripted(native.GenericError("timeout"), native.AlreadyExistsError("412"))
    monkeypatch.setattr("resources.objects.client.obstore.put", lost)
    with pytest.raises(AlreadyExistsError, match="s3://bucket/k"):
        remote.put_new("k", b"mine")
    assert remote.get_bytes("k") == b"theirs"


def test_latency_is_counted_per_attempt_and_outcome() -> None:
    table = LatencyTable("test_seconds")
    assert table.timed("get", lambda: 5) == 5
    with pytest.raises(NotFoundError):
        table.timed("get", Scripted(NotFoundError("k", "gone")))
    assert (table.count("get"), table.count("get", "NotFoundError")) == (1, 1)
    assert 'operation="get",outcome="ok",le="+Inf"} 1' in table.render()


def test_clients_are_shared_within_a_process_and_pickle_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        s3_endpoint="http://127.0.0.1:9", s3_access_key_id="AK", s3_secret_access_key="TOPSECRET"
    )
    store = open_store("s3://bucket/prefix", settings)
    assert open_store("s3://bucket/prefix", settings) is store
    assert b"TOPSECRET" not in pickle.dumps(store)
    monkeypatch.setattr("resources.objects.store._open", {})
    monkeypatch.setenv("LAKERUNNER_DATA_DIR", str(tmp_path))
    again = pickle.loads(pickle.dumps(store))  # noqa: S301
    assert (again.url, again is store) == ("s3://bucket/prefix", False)


@pytest.mark.parametrize("url", ["ftp://x/y", "/plain/path", "file://relative/path", "az://no-account/x"])
def test_a_url_we_cannot_open_is_a_settings_error(url: str) -> None:
    with pytest.raises(SettingsError, match="object store URL"):
        open_store(url, Settings())


def test_an_unreachable_store_is_unavailable_after_its_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.objects.client.FIRST_DELAY_S", 0.0)
    settings = Settings(
        s3_endpoint="http://127.0.0.1:9", s3_access_key_id="AK", s3_secret_access_key="S", store_max_retries=1
    )
    with pytest.raises(UnavailableError, match="get s3://nowhere/k"):
        open_store("s3://nowhere", settings).get("k")
