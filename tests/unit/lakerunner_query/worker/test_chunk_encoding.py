"""Chunks of remote read, decoded bit by bit by a reader that shares nothing with the writer."""

from __future__ import annotations

import math
import random
import struct
from itertools import pairwise

import numpy as np
import pytest

from lakerunner_query.histogram.model import CUSTOM, Buckets, Hint, Histogram, buckets_at
from lakerunner_query.vectors.vector import Series
from lakerunner_query.windows.functions import STALE_BITS
from lakerunner_query.worker.metrics.chunk_encoding import PER_CHUNK, histogram_chunks, xor_chunks
from lakerunner_query.worker.metrics.remote_read import crc32c, frames, sample_messages
from resources.proto.prometheus import ReadResponse
from tests.support.query import chunk_reader

STALE = float(np.uint64(STALE_BITS).view(np.float64))
NAN = struct.unpack(">d", bytes.fromhex("fff8000000001234"))[0]
VALUES = [0.0, -0.0, 1.5, 1.5, math.inf, -math.inf, NAN, STALE, 5e-324, 1.7976931348623157e308, 1.0, -1.0]
STEPS = [1, 1, 15_000, 15_000, 15_001, 8191, 16_383, 65_535, 131_072, 524_288, 1_048_577, 9_000_000_000]


def bits(number: float) -> int:
    return int(struct.unpack(">Q", struct.pack(">d", number))[0])


def read_back(times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> list[list[tuple[int, float]]]:
    found = []
    for chunks in xor_chunks(times, values, offsets):
        samples = [sample for chunk in chunks for sample in chunk_reader.xor_samples(chunk.data)]
        assert [chunk.first_ms for chunk in chunks] == [t for t, _ in samples[::PER_CHUNK]]
        assert chunks[-1].last_ms == samples[-1][0]
        found.append(samples)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_samples_come_back_bit_by_bit(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [1, 2, 3, PER_CHUNK, PER_CHUNK + 1, 2 * PER_CHUNK, chance.randrange(1, 400)]
    chance.shuffle(sizes)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    first = chance.choice([0, -5, 1, 1_700_000_000_000, -9_000_000_000_000])
    times = np.concatenate([first + np.cumsum(chance.choices(STEPS, k=size)) for size in sizes]).astype(
        np.int64
    )
    values = np.array([chance.choice([*VALUES, chance.random()]) for _ in range(len(times))])
    found = read_back(times, values, offsets)
    for samples, (begin, end) in zip(found, pairwise(offsets.tolist()), strict=True):
        assert [t for t, _ in samples] == times[begin:end].tolist()
        assert [bits(v) for _, v in samples] == list(map(bits, values[begin:end].tolist()))


def test_many_batches_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_query.worker.metrics.chunk_encoding.BATCH_CHUNKS", 2)
    times = np.arange(1000, dtype=np.int64) * 1000
    offsets = np.array([0, 10, 700, 1000], np.int64)
    found = read_back(times, times / 7, offsets)
    assert [sample for samples in found for sample in samples] == list(
        zip(times.tolist(), (times / 7).tolist(), strict=True)
    )


def native(count: float, hint: Hint = Hint.NO_RESET, **more: object) -> Histogram:
    base = {
        "schema": 3, "count": count, "sum": count * 1.25, "zero_threshold": 1e-128, "zero_count": 1.0,
        "positive": Buckets(np.array([-7, -6, 0, 40]), np.array([count, 1.0, 2.5, 0.0])),
        "negative": buckets_at(-3, [count / 3]), "hint": hint,
    }  # fmt: skip
    return Histogram(**(base | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "histograms",
    [
        [native(1.0, Hint.UNKNOWN), native(2.0), native(2.0), native(3.5)],
        [native(float(n)) for n in range(PER_CHUNK + 5)],
        [native(5.0), native(1.0, Hint.UNKNOWN), native(2.0)],
        [native(5.0, Hint.GAUGE), native(1.0, Hint.GAUGE), native(1.0)],
        [native(1.0, positive=buckets_at(0, [])), native(2.0), native(3.0, negative=buckets_at(2, [1.0]))],
        [native(1.0, schema=CUSTOM, bounds=(0.25, 1.0, 1e9), zero_threshold=0.0, zero_count=0.0,
                positive=buckets_at(0, [1.0, 2.0]), negative=buckets_at(0, []))],
        [native(1.0, zero_threshold=threshold) for threshold in (0.0, 0.001, 2.0**-128, 2.0**11, 2.0**-300)],
    ],
)  # fmt: skip
def test_histograms_come_back(histograms: list[Histogram]) -> None:
    times = np.cumsum([1_700_000_000_000, *[15_000, 14_999, 1, 40_000_000] * 40][: len(histograms)])
    chunks = histogram_chunks(times.astype(np.int64), histograms)
    found = [sample for chunk in chunks for sample in chunk_reader.histogram_samples(chunk.data)]
    assert [t for t, _ in found] == times.tolist()
    names = {
        Hint.UNKNOWN: chunk_reader.UNKNOWN,
        Hint.NO_RESET: chunk_reader.NO_RESET,
        Hint.GAUGE: chunk_reader.GAUGE,
    }
    for (_, read), one in zip(found, histograms, strict=True):
        assert (read.schema, read.zero_threshold, read.bounds) == (one.schema, one.zero_threshold, one.bounds)
        assert (read.count, read.sum, read.zero_count) == (one.count, one.sum, one.zero_count)
        for side, buckets in ((read.positive, one.positive), (read.negative, one.negative)):
            assert side == dict(zip(buckets.index.tolist(), buckets.count.tolist(), strict=True))
        assert read.reset == names[one.hint]


def mixed() -> Series:
    floats = [0.5, STALE, 0.0, 2.0]
    histograms = np.array([None, None, native(1.0, Hint.UNKNOWN), None], np.object_)
    return Series(
        [(("__name__", "a"), ("job", "é")), (("__name__", "b"),)], np.array([0, 3, 4]),
        np.array([-1000, 0, 1000, 2000]), np.array(floats), histograms,
    )  # fmt: skip


def test_a_series_of_floats_and_histograms_in_frames() -> None:
    body = b"".join(message for one in frames(mixed(), 3) for message in one.messages)
    first, second = chunk_reader.frames(body)
    assert (first.query_index, second.query_index) == (3, 3)
    (series,) = first.chunked_series
    assert [(label.name, label.value) for label in series.labels] == [("__name__", "a"), ("job", "é")]
    assert [chunk.type for chunk in series.chunks] == [chunk_reader.XOR, chunk_reader.FLOAT_HISTOGRAM]
    assert [(c.min_time_ms, c.max_time_ms) for c in series.chunks] == [(-1000, 0), (1000, 1000)]
    (a, stale), ((at, histogram),) = (
        chunk_reader.xor_samples(series.chunks[0].data),
        chunk_reader.histogram_samples(series.chunks[1].data),
    )
    assert (a, stale[0], bits(stale[1])) == ((-1000, 0.5), 0, STALE_BITS)
    assert (at, histogram.count) == (1000, 1.0)


def test_a_long_series_goes_on_in_another_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_query.worker.metrics.remote_read.MAX_FRAME", 3000)
    times = np.arange(1000, dtype=np.int64)
    series = Series([(("__name__", "a"),)], np.array([0, 1000]), times, np.sqrt(times))
    (one,) = frames(series, 0)
    found = list(chunk_reader.frames(b"".join(one.messages)))
    assert len(found) > 1
    chunks = [chunk for frame in found for chunk in frame.chunked_series[0].chunks]
    samples = [sample for chunk in chunks for sample in chunk_reader.xor_samples(chunk.data)]
    assert samples == list(zip(times.tolist(), np.sqrt(times).tolist(), strict=True))


def test_samples_as_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakerunner_query.worker.metrics.remote_read.BATCH_SAMPLES", 1)
    messages = [message for one in sample_messages(mixed(), 0) for message in one.messages]
    size = sum(map(len, messages))
    prefix = bytes([0x0A, size & 127 | 128, size >> 7]) if size > 127 else bytes([0x0A, size])
    (result,) = ReadResponse.FromString(prefix + b"".join(messages)).results
    first, second = result.timeseries
    assert [(sample.timestamp, bits(sample.value)) for sample in first.samples] == [
        (-1000, bits(0.5)), (0, STALE_BITS),
    ]  # fmt: skip
    (histogram,) = first.histograms
    assert (histogram.timestamp, histogram.count_float, histogram.reset_hint) == (1000, 1.0, 0)
    assert [(span.offset, span.length) for span in histogram.positive_spans] == [(-7, 2), (5, 1), (39, 1)]
    assert [(sample.timestamp, sample.value) for sample in second.samples] == [(2000, 2.0)]


def test_checksums_of_texts_of_any_length() -> None:
    chance = random.Random(1)
    texts = [chance.randbytes(size) for size in (4, 5, 255, 256, 257, 511, 512, 513, 5000)]
    assert crc32c(texts) == [chunk_reader.crc32c(text) for text in texts]
