"""Reads frames of streamed remote read and their chunks bit by bit, as the formats are described.

It shares nothing with the code that writes them, and is as slow as it is simple.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from resources.proto.prometheus import ChunkedReadResponse

XOR, FLOAT_HISTOGRAM = 1, 3
CLASSES = {2: 3, 3: 6, 4: 9, 5: 12, 6: 18, 7: 25}
UNKNOWN, NO_RESET, GAUGE = "unknown", "no reset", "gauge"


def crc32c(data: bytes) -> int:
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ 0x82F63B78 if rest & 1 else rest >> 1
    return rest ^ 0xFFFFFFFF


def frames(body: bytes) -> Iterator[ChunkedReadResponse]:
    at = 0
    while at < len(body):
        size = shift = 0
        while True:
            byte = body[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        (checksum,) = struct.unpack_from(">I", body, at)
        data = body[at + 4 : at + 4 + size]
        assert len(data) == size, (len(data), size)
        assert crc32c(data) == checksum
        at += 4 + size
        yield ChunkedReadResponse.FromString(data)


@dataclass
class Bits:
    data: bytes
    at: int = 0

    def take(self, count: int) -> int:
        found = 0
        for _ in range(count):
            byte = self.data[self.at >> 3]
            found = found << 1 | byte >> (7 - (self.at & 7)) & 1
            self.at += 1
        return found

    def prefix(self, longest: int) -> int:
        """Number of ones before a zero, at most `longest`."""
        ones = 0
        while ones < longest and self.take(1):
            ones += 1
        return ones

    def signed(self, size: int) -> int:
        """Numbers of few bits go up to half of their span, inclusive; those of 64 are complements."""
        number = self.take(size)
        half = 1 << (size - 1)
        return number - (1 << size) if number > half or (size == 64 and number == half) else number

    def double(self) -> float:
        return float(struct.unpack(">d", self.take(64).to_bytes(8, "big"))[0])

    def uvarint(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(8)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def varint(self) -> int:
        found = self.uvarint()
        return found >> 1 ^ -(found & 1)

    def varbit(self, *, signed: bool) -> int:
        ones = self.prefix(8)
        if ones == 0:
            return 0
        size = {1: 3, 2: 6, 3: 9, 4: 12, 5: 18, 6: 25, 7: 56, 8: 64}[ones]
        return self.signed(size) if signed else self.take(size)


@dataclass
class Value:
    """A float that is read as changes of its bits."""

    bits: int
    leading: int = -1
    trailing: int = 0

    def follow(self, source: Bits) -> float:
        if source.take(1):
            if source.take(1):
                self.leading, size = source.take(5), source.take(6) or 64
                self.trailing = 64 - self.leading - size
            size = 64 - self.leading - self.trailing
            self.bits ^= source.take(size) << self.trailing
        return self.number

    @property
    def number(self) -> float:
        return float(struct.unpack(">d", self.bits.to_bytes(8, "big"))[0])


def xor_samples(data: bytes) -> list[tuple[int, float]]:
    source = Bits(data)
    found: list[tuple[int, float]] = []
    time_ms = delta = 0
    value = Value(0)
    for number in range(source.take(16)):
        if number == 0:
            time_ms, value = source.varint(), Value(source.take(64))
        else:
            if number == 1:
                delta = source.uvarint()
            else:
                ones = source.prefix(4)
                delta += source.signed({1: 14, 2: 17, 3: 20, 4: 64}[ones]) if ones else 0
            time_ms += delta
            value.follow(source)
        found.append((time_ms, value.number))
    return found


@dataclass
class ReadHistogram:
    schema: int
    zero_threshold: float
    count: float
    zero_count: float
    sum: float
    positive: dict[int, float]
    negative: dict[int, float]
    bounds: tuple[float, ...]
    reset: str


@dataclass
class Layout:
    schema: int = 0
    zero_threshold: float = 0.0
    positive: list[int] = field(default_factory=list)
    negative: list[int] = field(default_factory=list)
    bounds: tuple[float, ...] = ()


def _layout(source: Bits) -> Layout:
    code = source.take(8)
    threshold = 0.0 if code == 0 else source.double() if code == 255 else 0.5 * 2.0 ** (code - 243)
    found = Layout(source.varbit(signed=True), threshold)
    for side in (found.positive, found.negative):
        place = 0
        for _ in range(source.varbit(signed=False)):
            length = source.varbit(signed=False)
            place += source.varbit(signed=True)
            side.extend(range(place, place + length))
            place += length
    if found.schema == -53:
        bounds = []
        for _ in range(source.varbit(signed=False)):
            whole = source.varbit(signed=False)
            bounds.append((whole - 1) / 1000 if whole else source.double())
        found.bounds = tuple(bounds)
    return found


def histogram_samples(data: bytes) -> list[tuple[int, ReadHistogram]]:
    source = Bits(data)
    total, flags = source.take(16), source.take(8)
    layout = _layout(source)
    time_ms = delta = 0
    values: list[Value] = []
    found: list[tuple[int, ReadHistogram]] = []
    size = 3 + len(layout.positive) + len(layout.negative)
    for number in range(total):
        if number == 0:
            time_ms = source.varbit(signed=True)
            values = [Value(source.take(64)) for _ in range(size)]
        else:
            delta += source.varbit(signed=True)
            time_ms += delta
            for value in values:
                value.follow(source)
        count, zeros, summed, *buckets = (value.number for value in values)
        middle = len(layout.positive)
        reset = {0x00: UNKNOWN, 0x40: NO_RESET, 0xC0: GAUGE}[flags & 0xC0]
        one = ReadHistogram(
            layout.schema, layout.zero_threshold, count, zeros, summed,
            dict(zip(layout.positive, buckets[:middle], strict=True)),
            dict(zip(layout.negative, buckets[middle:], strict=True)),
            layout.bounds, NO_RESET if number and reset != GAUGE else reset,
        )  # fmt: skip
        found.append((time_ms, one))
    return found
