"""`SampleReader` answers remote read: stored samples of a selector, encoded by series.

    samples   TimeSeries{labels, samples, histograms}, to be put into a ReadResponse
    chunks    length, checksum, ChunkedReadResponse{labels, chunks}: finished frames of the stream
    newest    the newest sample of each series, for federation

Stale markers are samples here: whoever reads evaluates expressions and has to see where a series ended.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lakerunner_query.histogram.model import Hint, Histogram
from lakerunner_query.promql.selectors import is_stale
from lakerunner_query.protocol.answers import (
    EncodedSeries,
    NewestSample,
    SamplesAnswer,
    SparseHistogram,
    Trait,
)
from lakerunner_query.protocol.units import SamplesUnit
from lakerunner_query.vectors.vector import Labels, Series, histogram_mask
from lakerunner_query.worker.metrics.chunk_encoding import Chunk, histogram_chunks, spans, xor_chunks
from lakerunner_query.worker.metrics.lake_source import LakeSource
from lakerunner_query.worker.metrics.native_histograms import with_reset_hints
from lakerunner_query.worker.metrics.promql_units import enough_memory
from lakerunner_query.worker.metrics.segment_opener import MetricOpener
from lakerunner_query.worker.metrics.selections import SelectorLimits
from lakerunner_query.worker.metrics.shards import Shard
from resources.arrays import Doubles, Int64s
from resources.duckdb import Cancellation
from resources.proto.prometheus import Histogram as HistogramMessage

XOR, FLOAT_HISTOGRAM = 1, 3
"""Encodings of chunks, by their numbers in the protocol."""
MAX_FRAME = 32 << 20
"""Bytes of chunks after which a series goes on in another frame; Prometheus refuses frames above 50 MB."""
FRAMES_AT_ONCE = 4 << 20
"""Bytes of frames whose checksums are computed together."""
BATCH_SAMPLES = 1 << 18


class SampleReader:
    """Answers units of remote read."""

    def __init__(self, opener: MetricOpener) -> None:
        self._opener = opener

    def run(self, unit: SamplesUnit, cancellation: Cancellation) -> SamplesAnswer:
        selector = unit.selector
        with self._opener.open_unit(cancellation) as reader, enough_memory():
            source = LakeSource(
                reader,
                unit.segments,
                self._opener.interner.numbers(),
                limits=SelectorLimits(unit.max_series, unit.max_samples),
                shard=Shard(unit.number, unit.count) if unit.count > 1 else None,
            )
            series = source.select(selector.matchers, selector.from_ms, selector.to_ms)
            if series.histograms is not None and Trait.UNHINTED in source.traits:
                every = np.ones(len(series.time_ms), np.bool_)
                hinted = with_reset_hints(series.histograms, series.offsets, series.time_ms, every)
                series = replace(series, histograms=hinted)
            report = reader.report()
            samples = len(series.time_ms)
            if unit.form == "newest":
                return SamplesAnswer(newest=tuple(newest_samples(series)), samples=samples, report=report)
            encode = sample_messages if unit.form == "samples" else frames
            found = []
            for one in encode(series, unit.query):
                cancellation.check()
                found.append(one)
            return SamplesAnswer(tuple(found), samples=samples, report=report)


def newest_samples(series: Series) -> Iterator[NewestSample]:
    """Yield the newest sample of each series that has not ended with it."""
    newest = series.offsets[1:] - 1
    ended = is_stale_at(series, newest)
    for labels, at, has_ended in zip(series.labels, newest.tolist(), ended.tolist(), strict=True):
        histogram = None if series.histograms is None else series.histograms[at]
        if not has_ended:
            value = struct.pack("<d", float(series.value[at]) if histogram is None else 0.0)
            yield NewestSample(
                labels, int(series.time_ms[at]), value, None if histogram is None else _sparse(histogram)
            )


def is_stale_at(series: Series, at: Int64s) -> npt.NDArray[np.bool_]:
    stale: npt.NDArray[np.bool_] = is_stale(series)[at]
    return stale


def _sparse(one: Histogram) -> SparseHistogram:
    positive, negative = (
        (tuple(spans(side)), tuple(side.count.tolist())) for side in (one.positive, one.negative)
    )
    return SparseHistogram(
        one.schema, one.count, one.sum, one.zero_threshold, one.zero_count, one.hint is Hint.GAUGE,
        positive, negative, one.bounds,
    )  # fmt: skip


def sample_messages(series: Series, _query: int) -> Iterator[EncodedSeries]:
    """Yield each series as the field `timeseries` of a result."""
    texts = LabelTexts()
    for labels, body in zip(series.labels, _sample_fields(series), strict=True):
        yield EncodedSeries(labels, (_field(1, texts.of(labels, 1) + body),))


def _sample_fields(series: Series) -> Iterator[bytes]:
    """Yield the fields of each series' samples, encoded in batches of whole series."""
    is_float = _float_mask(series)
    offsets = series.offsets
    begin = 0
    while begin < series.count:
        end = int(np.searchsorted(offsets, offsets[begin] + BATCH_SAMPLES, "right")) - 1
        end = min(max(end, begin + 1), series.count)
        low, high = int(offsets[begin]), int(offsets[end])
        chosen = is_float[low:high]
        body, ends = _samples(series.time_ms[low:high][chosen], series.value[low:high][chosen])
        counts = np.concatenate(([0], np.cumsum(chosen)))[offsets[begin : end + 1] - low]
        edges = np.concatenate(([0], ends))[counts].tolist()
        for number, (first, last) in enumerate(pairwise(edges), begin):
            yield body[first:last] + _histogram_fields(series, number)
        begin = end


def _float_mask(series: Series) -> npt.NDArray[np.bool_]:
    if series.histograms is None:
        return np.ones(len(series.time_ms), np.bool_)
    return ~histogram_mask(series.histograms)


def _samples(time_ms: Int64s, value: Doubles) -> tuple[bytes, Int64s]:
    """Encode `samples` of a series: field 2 of {1: value, 2: time}; return where each ends."""
    rows = np.zeros((len(time_ms), 22), np.uint8)
    rest, length = time_ms.astype(np.uint64), np.zeros(len(time_ms), np.int64)
    for place in range(10):
        more = rest >= 128
        rows[:, 12 + place] = (rest & np.uint64(127)).astype(np.uint8) | (more.astype(np.uint8) << 7)
        length += (length == place) & ((rest > 0) | (place == 0))
        rest >>= np.uint64(7)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 11] = 0x12, 10 + length, 0x09, 0x10
    rows[:, 3:11] = np.ascontiguousarray(value, "<f8").view(np.uint8).reshape(-1, 8)
    used = np.arange(22) < (12 + length)[:, None]
    return rows[used].tobytes(), np.cumsum(12 + length)


def _histogram_fields(series: Series, number: int) -> bytes:
    if series.histograms is None:
        return b""
    begin, end = series.offsets[number], series.offsets[number + 1]
    return b"".join(
        _field(4, _histogram(one, at).SerializeToString())
        for one, at in zip(series.histograms[begin:end], series.time_ms[begin:end].tolist(), strict=True)
        if one is not None
    )


def _histogram(one: Histogram, time_ms: int) -> HistogramMessage:
    found = HistogramMessage(
        count_float=one.count,
        sum=one.sum,
        schema=one.schema,
        zero_threshold=one.zero_threshold,
        zero_count_float=one.zero_count,
        reset_hint=int(one.hint),
        timestamp=time_ms,
        custom_values=one.bounds,
        positive_counts=one.positive.count.tolist(),
        negative_counts=one.negative.count.tolist(),
    )
    for listed, side in ((found.positive_spans, one.positive), (found.negative_spans, one.negative)):
        for offset, length in spans(side):
            listed.add(offset=offset, length=length)
    return found


def frames(series: Series, query: int) -> Iterator[EncodedSeries]:
    """Yield each series as finished frames, nearly always one."""
    texts = LabelTexts()
    waiting: list[tuple[Labels, list[bytes]]] = []
    size = 0
    for labels, chunks in zip(series.labels, _chunks(series), strict=True):
        bodies = list(_bodies(texts.of(labels, 1), chunks, query))
        waiting.append((labels, bodies))
        size += sum(map(len, bodies))
        if size > FRAMES_AT_ONCE:
            yield from _framed(waiting)
            waiting, size = [], 0
    yield from _framed(waiting)


def _chunks(series: Series) -> Iterator[list[tuple[int, Chunk]]]:
    """Yield the chunks of each series with their encodings, in the order of time."""
    if series.histograms is None:
        for each in xor_chunks(series.time_ms, series.value, series.offsets):
            yield [(XOR, chunk) for chunk in each]
        return
    is_float = _float_mask(series)
    for begin, end in pairwise(series.offsets.tolist()):
        yield _mixed_chunks(series, is_float, begin, end)


def _mixed_chunks(
    series: Series, is_float: npt.NDArray[np.bool_], begin: int, end: int
) -> list[tuple[int, Chunk]]:
    """Cut one series where floats and histograms alternate."""
    if series.histograms is None:
        raise ValueError("a series without histograms has no mixed chunks")
    edges = np.flatnonzero(np.diff(is_float[begin:end].astype(np.int8))) + 1 + begin
    found: list[tuple[int, Chunk]] = []
    for low, high in pairwise([begin, *edges.tolist(), end]):
        times = series.time_ms[low:high]
        if is_float[low]:
            run = np.array([0, high - low], np.int64)
            found += [(XOR, one) for one in next(xor_chunks(times, series.value[low:high], run))]
        else:
            run_of_histograms = series.histograms[low:high].tolist()
            found += [(FLOAT_HISTOGRAM, one) for one in histogram_chunks(times, run_of_histograms)]
    return found


def _bodies(labels: bytes, chunks: Sequence[tuple[int, Chunk]], query: int) -> Iterator[bytes]:
    """Yield messages of one series, a new one after `MAX_FRAME`."""
    index = b"\x10" + _uvarint(query) if query else b""
    parts, size = [labels], 0
    for kind, chunk in chunks:
        head = b"\x08" + _uvarint(chunk.first_ms) + b"\x10" + _uvarint(chunk.last_ms) + bytes((0x18, kind))
        part = _field(2, head + _field(4, chunk.data))
        if size and size + len(part) > MAX_FRAME:
            yield _field(1, b"".join(parts)) + index
            parts, size = [labels], 0
        parts.append(part)
        size += len(part)
    yield _field(1, b"".join(parts)) + index


def _framed(waiting: Sequence[tuple[Labels, list[bytes]]]) -> Iterator[EncodedSeries]:
    sums = iter(crc32c([body for _, bodies in waiting for body in bodies]))
    for labels, bodies in waiting:
        yield EncodedSeries(
            labels, tuple(_uvarint(len(b)) + struct.pack(">I", next(sums)) + b for b in bodies)
        )


@dataclass(slots=True)
class LabelTexts:
    """Encoded labels, each pair once."""

    _pairs: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def of(self, labels: Labels, number: int) -> bytes:
        """Encode labels as the repeated field `number`."""
        return b"".join(self._pairs.get(pair) or self._encode(pair, number) for pair in labels)

    def _encode(self, pair: tuple[str, str], number: int) -> bytes:
        name, value = (part.encode("utf-8", "surrogateescape") for part in pair)
        found = self._pairs[pair] = _field(number, _field(1, name) + _field(2, value))
        return found


def _field(number: int, body: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _uvarint(len(body)) + body


def _uvarint(number: int) -> bytes:
    """Encode a number below 2^63, or a negative one as its complement.

    >>> _uvarint(300).hex(), _uvarint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    rest, found = number & (2**64 - 1), bytearray()
    while rest >= 128:
        found.append(rest & 127 | 128)
        rest >>= 7
    found.append(rest)
    return bytes(found)


_BLOCK = 256
"""Bytes of a block: checksums of all blocks are computed in step, then joined."""


def _table() -> npt.NDArray[np.uint32]:
    found = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        found = np.where(found & 1, found >> 1 ^ np.uint32(0x82F63B78), found >> 1)
    return found


_TABLE = _table()


def _behind_zeros(sums: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the checksums after a block of zeros."""
    for _ in range(_BLOCK):
        sums = _TABLE[sums & 0xFF] ^ (sums >> 8)
    return sums


_SHIFTED = _behind_zeros(
    (np.arange(256, dtype=np.uint32)[None, :] << (8 * np.arange(4, dtype=np.uint32)[:, None])).ravel()
).reshape(4, 256)
"""Effect of a block on each byte of the checksum before it."""


def crc32c(bodies: Sequence[bytes]) -> list[int]:
    """Return Castagnoli checksums of texts of at least four bytes, all computed in step.

    >>> f"{crc32c([b'123456789'])[0]:08x}"
    'e3069283'
    """
    if not bodies:
        return []
    blocks = np.array([-(-len(body) // _BLOCK) for body in bodies], np.int64)
    ends = np.cumsum(blocks)
    raw = np.zeros(int(ends[-1]) * _BLOCK, np.uint8)
    for body, end in zip(bodies, (ends * _BLOCK).tolist(), strict=True):
        raw[end - len(body) : end] = np.frombuffer(body, np.uint8)
        raw[end - len(body) : end - len(body) + 4] ^= 0xFF  # the initial value; zeros before change nothing
    columns = np.ascontiguousarray(raw.reshape(-1, _BLOCK).T)
    sums = np.zeros(len(columns[0]), np.uint32)
    for column in columns:
        sums = _TABLE[(sums ^ column) & 0xFF] ^ (sums >> 8)
    found = sums[ends - blocks]
    for place in range(1, int(blocks.max())):
        longer = np.flatnonzero(blocks > place)
        before = found[longer]
        moved = np.bitwise_xor.reduce([_SHIFTED[k][(before >> (8 * k)) & 0xFF] for k in range(4)])
        found[longer] = moved ^ sums[(ends - blocks)[longer] + place]
    return (found ^ np.uint32(0xFFFFFFFF)).tolist()  # type: ignore[no-any-return]
