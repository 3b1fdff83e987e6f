"""The jar cache: nothing unverified ever gets its real name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lakerunner_cli.command import StackError
from lakerunner_cli.stack import jars
from lakerunner_cli.stack.jars import Jar, fetch, find_absent, find_damaged, kafka_jars


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    monkeypatch.setattr(jars, "TRIES", 1)
    root = tmp_path / "repository"
    root.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield root, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def _jar(root: Path, name: str, content: bytes) -> Jar:
    root.joinpath(name).write_bytes(content)
    return Jar(name, hashlib.sha256(content).hexdigest(), len(content))


def test_manifest_is_complete() -> None:
    every = kafka_jars()
    assert any("kafka_2.13-" in jar.path for jar in every)
    assert any("log4j-slf4j-impl" in jar.path for jar in every)
    assert len({jar.path for jar in every}) == len(every)
    assert all(len(jar.sha256) == 64 and jar.size > 0 and not jar.path.startswith("/") for jar in every)


def test_fetch_verifies_and_keeps(repository: tuple[Path, str], tmp_path: Path) -> None:
    wanted = [_jar(repository[0], "a.jar", b"aaa"), _jar(repository[0], "b.jar", b"bbbb")]
    said: list[str] = []
    fetch(wanted, tmp_path, repository[1], said.append)
    assert find_damaged(wanted, tmp_path) == []
    assert "2 jars" in said[0]


def test_another_checksum_is_refused(repository: tuple[Path, str], tmp_path: Path) -> None:
    jar = _jar(repository[0], "a.jar", b"aaa")
    repository[0].joinpath("a.jar").write_bytes(b"bad")
    with pytest.raises(StackError, match="another checksum"):
        fetch([jar], tmp_path, repository[1], lambda _text: None)
    assert not jar.in_cache(tmp_path).exists()


def test_a_missing_file_leaves_the_others_for_the_next_try(
    repository: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "PARALLEL", 1)
    good, bad = _jar(repository[0], "a.jar", b"aaa"), Jar("absent.jar", "0" * 64, 3)
    with pytest.raises(StackError, match=r"absent\.jar"):
        fetch([good, bad], tmp_path, repository[1], lambda _text: None)
    assert find_absent([good, bad], tmp_path) == [bad]


def test_a_damaged_cache_is_noticed(repository: tuple[Path, str], tmp_path: Path) -> None:
    jar = _jar(repository[0], "a.jar", b"aaa")
    fetch([jar], tmp_path, repository[1], lambda _text: None)
    jar.in_cache(tmp_path).write_bytes(b"xxx")
    assert find_absent([jar], tmp_path) == []
    assert find_damaged([jar], tmp_path) == [jar]
