"""Series as Prometheus' remote write (1.0) takes them: protobuf in one snappy block.

    TimeSeries { labels 1, samples 2 { value 1, timestamp 2 }, histograms 4 }

All times have as many varint bytes as those of the first sample, so the samples of a series are one array.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa

from benchmarks.promql.samples import Sampled
from lakerunner_query.histogram.model import Buckets, Histogram
from lakerunner_query.windows.functions import STALE_BITS
from resources.arrays import Doubles, Int64s

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}

STALE_HISTOGRAM = Histogram(sum=float(np.uint64(STALE_BITS).view(np.float64)))


def request(series: Iterable[Sampled]) -> bytes:
    """The body of one request; series without samples are left out."""
    body = b"".join(_field(1, each) for one in series if len(one.time_ms) for each in _messages(one))
    packed: bytes = pa.Codec("snappy").compress(body, asbytes=True)
    return packed


def _messages(one: Sampled) -> Iterator[bytes]:
    """One message for each run of floats or histograms: a receiver takes all floats of a message first."""
    labels = b"".join(_field(1, _field(1, k.encode()) + _field(2, v.encode())) for k, v in one.labels)
    if one.histograms is None:
        yield labels + samples(one.time_ms, one.value)
        return
    # a series of histograms ends with a histogram: a marker among the floats would be taken out of order
    stale = one.value.view(np.int64) == STALE_BITS
    kinds = [
        STALE_HISTOGRAM if histogram is None and ended else histogram
        for histogram, ended in zip(one.histograms, stale.tolist(), strict=True)
    ]
    for is_float, run in groupby(range(len(kinds)), lambda place: kinds[place] is None):
        chosen = list(run)
        if is_float:
            yield labels + samples(one.time_ms[chosen], one.value[chosen])
        else:
            times = one.time_ms[chosen].tolist()
            yield labels + b"".join(
                _field(4, _histogram(histogram, time))
                for place, time in zip(chosen, times, strict=True)
                if (histogram := kinds[place]) is not None
            )


def samples(time_ms: Int64s, value: Doubles) -> bytes:
    """The repeated field of all samples."""
    width = len(varint(int(time_ms[0])))
    rows = np.zeros((len(time_ms), 12 + width), np.uint8)
    rows[:, 0], rows[:, 1] = 2 << 3 | 2, 10 + width
    rows[:, 2] = 1 << 3 | 1
    rows[:, 3:11] = value.astype("<f8").view(np.uint8).reshape(-1, 8)
    rows[:, 11] = 2 << 3
    left = time_ms.astype(np.uint64)
    for place in range(width):
        more = np.uint64(0x80 if place < width - 1 else 0)
        rows[:, 12 + place] = (left & np.uint64(0x7F)) | more
        left >>= np.uint64(7)
    if left.any():
        raise ValueError(f"times {time_ms.min()} to {time_ms.max()} differ in length as varints")
    return rows.tobytes()


def _histogram(one: Histogram, time_ms: int) -> bytes:
    return b"".join(
        [
            _double(2, one.count),
            _double(3, one.sum),
            _number(4, _zigzag(one.schema)),
            _double(5, one.zero_threshold),
            _double(7, one.zero_count),
            _spans(8, one.negative),
            _doubles(10, one.negative.count),
            _spans(11, one.positive),
            _doubles(13, one.positive.count),
            _number(14, int(one.hint)),
            _number(15, time_ms),
            _doubles(16, np.array(one.bounds)) if one.bounds else b"",
        ]
    )


def _spans(number: int, side: Buckets) -> bytes:
    """Runs of neighbouring buckets, each with its distance from the end of the one before."""
    if not side.size:
        return b""
    begins = np.flatnonzero(np.diff(side.index, prepend=side.index[0] - 2) != 1)
    sizes = np.diff(begins, append=side.size)
    found, end = [], 0
    for begin, size in zip(side.index[begins].tolist(), sizes.tolist(), strict=True):
        found.append(_field(number, _number(1, _zigzag(begin - end)) + _number(2, size)))
        end = begin + size
    return b"".join(found)


def _doubles(number: int, values: Doubles) -> bytes:
    return _field(number, values.astype("<f8").tobytes()) if len(values) else b""


def _double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def _field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def varint(value: int) -> bytes:
    """
    >>> varint(300)
    b'\\xac\\x02'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
