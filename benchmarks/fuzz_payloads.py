"""Payloads for the decoders: good ones of every format, and what random changes make of them."""

from __future__ import annotations

import gzip
import io
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from lakerunner_assets.decode.dispatch import Place, Request, decode
from lakerunner_assets.decode.formats import Format, sniff
from lakerunner_assets.decode.payload import payload_of
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions

MOMENT_NS = 1_767_225_600_000_000_000
TINY = 17
"""Payloads below this size are made of random bytes behind the first bytes of a format."""
HEADS = (
    b"", b"\n", b"{", b"[", b"PAR1", b"\xc2\xa9\x07", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"a,b\n", b'"',
    b"\xef\xbb\xbf", b'{"resourceLogs":', b"\xc2\xa9\x07\x17prom", b"\n\x00", b"\n\x02\n\x00",
)  # fmt: skip
WORDS = (
    b"\xff" * 4, b"\xff" * 9 + b"\x01", b"\x80", b"\x00" * 4, b"\x7f\xff\xff\xff", b"-1", b"1e999",
    b"\\ud800", b'"', b"{", b"[" * 120, b",", b"\n", b"NaN", b"\x15\xfe\xff\xff\xff\x0f",
    b"9223372036854775808",
)  # fmt: skip
"""Lengths, numbers and marks that formats give a meaning to."""
SLICES = (1, 64, 1000, *(1 << 20,) * 5)
"""Sizes of slices. A payload in tiny ones takes up to ten times as long."""


@dataclass(frozen=True, slots=True)
class Case:
    """One payload."""

    number: int
    signal: Signal
    format: str
    """Format of the payload it was made from."""
    name: str
    data: bytes
    slice_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A good payload."""

    signal: Signal
    format: str
    name: str
    data: bytes


def cases_of(seed: int, start: int, count: int) -> Iterator[Case]:
    """Make cases; each depends on the seed and its own number only."""
    good = samples()
    for number in range(start, start + count):
        random_ = random.Random(f"{seed}/{number}")
        sample = random_.choice(good)
        data = _tiny(random_) if random_.random() < 0.05 else _mutate(random_, sample, good)
        signal = sample.signal if random_.random() < 0.95 else random_.choice(list(Signal))
        slice_bytes = random_.choice(SLICES)
        yield Case(number, signal, sample.format, sample.name, _wrap(random_, data), slice_bytes)


def _tiny(random_: random.Random) -> bytes:
    head = random_.choice(HEADS)
    return head + random_.randbytes(random_.randrange(max(1, TINY - len(head))))


def _mutate(random_: random.Random, sample: Sample, good: tuple[Sample, ...]) -> bytes:
    data = bytearray(sample.data)
    for _ in range(random_.choice((1, 1, 1, 2, 3, 8))):
        random_.choice(MUTATIONS)(random_, data, good)
    return bytes(data)


def _place(random_: random.Random, data: bytearray) -> int:
    """Choose a place, often near the end: there Parquet has its footer."""
    near_end = random_.random() < 0.3
    return (
        random_.randrange(max(0, len(data) - 600), len(data) + 1)
        if near_end
        else random_.randint(0, len(data))
    )


def _flip(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    if data:
        at = min(_place(random_, data), len(data) - 1)
        data[at] ^= 1 << random_.randrange(8)


def _overwrite(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    at = _place(random_, data)
    word = random_.choice((random_.randbytes(1), random_.randbytes(4), random_.choice(WORDS)))
    data[at : at + len(word)] = word


def _insert(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    at = _place(random_, data)
    data[at:at] = random_.choice((random_.randbytes(random_.randint(1, 8)), random_.choice(WORDS)))


def _cut(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    del data[_place(random_, data) :]


def _drop(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    at = _place(random_, data)
    del data[at : at + random_.choice((1, 2, 8, 100))]


def _repeat(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    at, length = _place(random_, data), random_.choice((1, 8, 100))
    data[at:at] = data[at : at + length] * random_.choice((1, 2, 20))


def _splice(random_: random.Random, data: bytearray, good: tuple[Sample, ...]) -> None:
    other = random_.choice(good).data
    data[_place(random_, data) :] = other[random_.randint(0, len(other)) :]


def _length(random_: random.Random, data: bytearray, _: tuple[Sample, ...]) -> None:
    """Change a byte by a little, as lengths and counts are off by one."""
    if data:
        at = min(_place(random_, data), len(data) - 1)
        data[at] = (data[at] + random_.choice((-2, -1, 1, 2))) & 255


Mutation = Callable[[random.Random, bytearray, tuple[Sample, ...]], None]
MUTATIONS: tuple[Mutation, ...] = (
    _flip, _flip, _overwrite, _overwrite, _insert, _cut, _drop, _repeat, _splice, _length, _length,
)  # fmt: skip


def _wrap(random_: random.Random, data: bytes) -> bytes:
    """Put a few into an envelope, and damage the envelope of some."""
    chance = random_.random()
    if chance < 0.9:
        return data
    packed = bytearray(gzip.compress(data, 1) if chance < 0.95 else zstandard.compress(data, 1))
    if random_.random() < 0.5:
        _flip(random_, packed, ())
    return bytes(packed)


@cache
def samples() -> tuple[Sample, ...]:
    """Make good payloads of every format and signal, the same in every process."""
    found: list[Sample] = []
    for signal, spec in SIGNALS.items():
        for name, data in spec.warm_up_samples():
            found.append(Sample(signal, sniff(data[:4096], name).value, name, data))
        found.append(Sample(signal, Format.PARQUET.value, "own.parquet", _own(signal)))
        found.append(Sample(signal, Format.PARQUET.value, "x.parquet", _foreign()))
    return tuple(found)


def _own(signal: Signal) -> bytes:
    """Write a segment of ours, of the samples in protobuf and text."""
    spec = SIGNALS[signal]
    tables: list[pa.Table] = []
    for name, data in spec.warm_up_samples():
        request = Request(name, Place(1, 0, MOMENT_NS), DecodeOptions(), 1 << 20)
        tables += [part.table for part in decode(payload_of(data), request, spec.decoders())]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.parquet"
        spec.write(tables, path, SegmentIdentity("fuzz", "c", spec.dataset, MOMENT_NS, "0" * 32))
        return path.read_bytes()


def _foreign() -> bytes:
    rows = 40
    table = pa.table(
        {
            "time": pa.array([MOMENT_NS + row for row in range(rows)], pa.timestamp("ns")),
            "name": ["up"] * rows,
            "value": pa.array([float(row) for row in range(rows)]),
            "message": [f"line {row % 3}" for row in range(rows)],
            "trace_id": pa.array([bytes(16)] * rows, pa.binary(16)),
            "tags": pa.array([[("a", "b")]] * rows, pa.map_(pa.string(), pa.string())),
            "list": pa.array([[1, None, 3]] * rows),
            "inner": pa.array([{"a": {"b": row}} for row in range(rows)]),
            "flag": pa.array([None, True] * (rows // 2)),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", row_group_size=25)
    return sink.getvalue()
