"""Bodies out of their encodings: exact, bounded, and refused with what is wrong."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_ingress.errors import OverloadedError
from lakerunner_ingress.receivers.memory import Memory
from lakerunner_ingress.receivers.opening import open_body
from lakerunner_ingress.receivers.refusals import BadRequestError, TooLargeError, UnsupportedError

MOST = 1 << 20


def snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "snappy": snappy,
}
packed = pytest.mark.parametrize("name", PACKERS)


@packed
@settings(max_examples=25)
@given(data=st.binary(max_size=3000), times=st.integers(1, 200))
def test_what_was_packed_comes_out(name: str, data: bytes, times: int) -> None:
    memory = Memory(1 << 30)
    with memory.hold() as hold:
        assert open_body(PACKERS[name](data * times), name, MOST, hold) == data * times
        assert memory.used == len(data) * times
    assert memory.used == 0


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_one_after_the_other_are_one_body(name: str) -> None:
    pack = PACKERS[name]
    assert open_body(pack(b"one,") + pack(b"two"), name, MOST, Memory(MOST).hold()) == b"one,two"


@packed
def test_a_bomb_is_refused_before_it_is_in_memory(name: str) -> None:
    bomb = PACKERS[name](b"\0" * (256 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match=str(MOST)):
            open_body(bomb, name, MOST, Memory(1 << 30).hold())
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


@packed
def test_a_body_that_does_not_fit_in_memory_is_for_later(name: str) -> None:
    memory, body = Memory(8000), PACKERS[name](b"x" * 5000)
    memory.hold().grow(4000)
    with pytest.raises(OverloadedError, match="of 8000 bytes"):
        open_body(body, name, MOST, memory.hold())
    with pytest.raises(TooLargeError, match="more than the 4000 bytes"):
        open_body(body, name, MOST, Memory(4000).hold())


@packed
@pytest.mark.parametrize("cut", [0, 1, -1, -3])
def test_a_body_cut_short_is_refused(name: str, cut: int) -> None:
    with pytest.raises(BadRequestError, match=f"{name}: "):
        open_body(PACKERS[name](bytes(range(256)) * 40)[:cut], name, MOST, Memory(MOST).hold())


@packed
@settings(max_examples=50)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_opened_or_refused(name: str, data: bytes) -> None:
    with suppress(BadRequestError, TooLargeError, OverloadedError):
        assert len(open_body(data, name, MOST, Memory(MOST).hold())) <= MOST


def test_a_snappy_length_that_cannot_be_true_is_refused_without_allocating() -> None:
    claim = b"\x80\x80\x20" + b"\0" * 30  # says half a MiB
    with pytest.raises(BadRequestError, match="33 bytes cannot stand for 524288"):
        open_body(claim, "snappy", MOST, Memory(MOST).hold())


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(UnsupportedError, match="'br'"):
        open_body(b"", "br", MOST, Memory(1).hold())


def test_a_hold_that_is_over_takes_nothing_more() -> None:
    memory = Memory(100)
    with memory.hold() as hold:
        hold.grow(60)
        hold.shrink_to(40)
        hold.shrink_to(70)
        assert memory.used == 40
    with pytest.raises(OverloadedError):
        hold.grow(1)
    hold.shrink_to(0)
    assert memory.used == 0
