"""What a worker answers to a `StreamsUnit`: what stream tables say, before several workers are united.

Rows and bytes are shares: a stream that reaches beyond the range counts for the part of its time that lies
inside, and a stream's bytes are its segment's by its part of the rows.
"""

from __future__ import annotations

import msgspec

from lakerunner_query.execute.work import UnitReport

Pairs = tuple[tuple[str, str], ...]


class Volume(msgspec.Struct, frozen=True):
    """Bytes of a group of streams in one bucket, which is told by its number since 1970."""

    labels: Pairs
    bucket: int
    size: float


class StreamsAnswer(msgspec.Struct, frozen=True):
    series: tuple[Pairs, ...] = ()
    values: dict[str, tuple[str, ...]] = {}
    """By label; of `names` without the values."""
    stream_ids: bytes = b""
    """Of `sizes`: 64-bit numbers, to count streams that several workers found."""
    chunks: int = 0
    """Runs of one stream in one segment."""
    rows: float = 0.0
    size: float = 0.0
    """In bytes."""
    volumes: tuple[Volume, ...] = ()
    truncated: bool = False
    report: UnitReport = UnitReport()


def encode_streams_answer(answer: StreamsAnswer) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode_streams_answer(body: bytes) -> StreamsAnswer:
    return msgspec.msgpack.decode(body, type=StreamsAnswer)
