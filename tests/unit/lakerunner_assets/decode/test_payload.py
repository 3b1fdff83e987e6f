"""Envelopes of any size, in memory and in files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from lakerunner_assets.decode import payload as opening
from lakerunner_assets.decode.errors import EmptyObjectError, MalformedError, TooLargeError
from lakerunner_assets.decode.payload import open_payload

DATA = bytes(range(256)) * 5000


def packed(kind: str, data: bytes = DATA) -> bytes:
    return {"plain": data, "gz": gzip.compress(data), "zst": zstandard.compress(data)}[kind]


def content(source: bytes | Path, max_bytes: int = 1 << 24) -> bytes:
    with open_payload(source, max_bytes) as found:
        assert found.read(3, 5) == DATA[3:8]
        assert found.head(10) == DATA[:10]
        return found.read(0, found.size)


@pytest.mark.parametrize("kind", ["plain", "gz", "zst"])
@pytest.mark.parametrize("how", ["memory", "spilled", "file"])
def test_the_content_comes_out_whichever_way(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source: bytes | Path = packed(kind)
    if how == "spilled":
        monkeypatch.setattr(opening, "IN_MEMORY_BYTES", 10)
    if how == "file":
        source = tmp_path / "object"
        source.write_bytes(packed(kind))
    assert content(source) == DATA


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("in_file", [False, True])
def test_several_members_are_one_payload(kind: str, in_file: bool, tmp_path: Path) -> None:
    both = packed(kind, DATA[:1000]) + packed(kind, DATA[1000:])
    source: bytes | Path = both
    if in_file:
        source = tmp_path / "object"
        source.write_bytes(both)
    assert content(source) == DATA


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("in_file", [False, True])
def test_a_truncated_envelope_is_told_from_a_short_one(kind: str, in_file: bool, tmp_path: Path) -> None:
    cut = packed(kind)[:-9]
    source: bytes | Path = cut
    if in_file:
        source = tmp_path / "object"
        source.write_bytes(cut)
    with pytest.raises(MalformedError, match="damaged or truncated"), open_payload(source, 1 << 24):
        pass


@pytest.mark.parametrize("kind", ["plain", "gz", "zst"])
@pytest.mark.parametrize("in_file", [False, True])
def test_more_than_the_limit_is_refused(kind: str, in_file: bool, tmp_path: Path) -> None:
    source: bytes | Path = packed(kind)
    if in_file:
        source = tmp_path / "object"
        source.write_bytes(packed(kind))
    with pytest.raises(TooLargeError), open_payload(source, 1000):
        pass


def test_a_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    bomb.write_bytes(zstandard.compress(bytes(2_000_000_000), 1))
    with pytest.raises(TooLargeError, match="unfolds to more"), open_payload(bomb, 1 << 20):
        pass


@pytest.mark.parametrize("source", [b"", gzip.compress(b""), zstandard.compress(b"")])
def test_nothing_is_an_error_of_its_own(source: bytes) -> None:
    with pytest.raises(EmptyObjectError), open_payload(source, 1000):
        pass
