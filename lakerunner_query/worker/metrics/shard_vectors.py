"""Vectors of shards as bytes and back, every bit kept, and the vectors of all shards as one.

    shard 0  {job="a"} 1  {job="c"} 3
    shard 1  {job="b"} 2                   ->   {job="a"} 1  {job="b"} 2  {job="c"} 3

Numbers are the bytes of their arrays: NaN has payloads, and counts of histograms have fractions.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from lakerunner_query.histogram.model import NO_BUCKETS, Buckets, Hint, Histogram
from lakerunner_query.vectors.rows import no_objects, nothing, stacked
from lakerunner_query.vectors.vector import Labels, Objects, Vector, some
from resources.arrays import Doubles


class _Histogram(msgspec.Struct, frozen=True, array_like=True):
    place: int
    """Cell of the vector, row by row."""
    schema: int
    hint: int
    totals: bytes
    """Count, sum, zero threshold, zero count."""
    positive: tuple[bytes, bytes]
    """Indexes and counts."""
    negative: tuple[bytes, bytes]
    bounds: bytes


class _Vector(msgspec.Struct, frozen=True):
    labels: list[tuple[tuple[str, str], ...]]
    steps: int
    values: bytes
    present: bytes
    drop_name: bytes | None = None
    histograms: list[_Histogram] | None = None


def encode_vector(vector: Vector) -> bytes:
    drop_name, histograms = vector.drop_name, vector.histograms
    return msgspec.msgpack.encode(
        _Vector(
            list(vector.labels),
            vector.present.shape[1],
            np.ascontiguousarray(vector.values, np.float64).tobytes(),
            np.ascontiguousarray(vector.present, np.bool_).tobytes(),
            None if drop_name is None else drop_name.tobytes(),
            None if histograms is None else _cells(histograms),
        )
    )


def decode_vector(body: bytes) -> Vector:
    found = msgspec.msgpack.decode(body, type=_Vector)
    shape = (len(found.labels), found.steps)
    return Vector(
        found.labels,
        _doubles(found.values).reshape(shape),
        np.frombuffer(found.present, np.bool_).reshape(shape).copy(),
        None if found.histograms is None else _grid(found.histograms, shape),
        None if found.drop_name is None else np.frombuffer(found.drop_name, np.bool_).copy(),
    )


def together(vectors: Sequence[Vector], steps: int) -> Vector:
    """Series of all shards in order of labels, as a selector gives them."""
    vectors = [vector for vector in vectors if vector.labels]
    if not vectors:
        return nothing(steps)
    if len(vectors) == 1:
        return vectors[0]
    found = stacked(vectors)
    labels: list[Labels] = found.labels
    return found.take(np.array(sorted(range(len(labels)), key=labels.__getitem__), np.int64))


def _cells(histograms: Objects) -> list[_Histogram]:
    flat = histograms.ravel()
    return [_stored(place, flat[place]) for place in np.flatnonzero(some(flat)).tolist()]


def _stored(place: int, one: Histogram) -> _Histogram:
    totals = np.array([one.count, one.sum, one.zero_threshold, one.zero_count], np.float64)
    return _Histogram(
        place, int(one.schema), int(one.hint), totals.tobytes(),
        _side(one.positive), _side(one.negative), np.array(one.bounds, np.float64).tobytes(),
    )  # fmt: skip


def _side(buckets: Buckets) -> tuple[bytes, bytes]:
    return buckets.index.astype(np.int64).tobytes(), buckets.count.astype(np.float64).tobytes()


def _grid(stored: list[_Histogram], shape: tuple[int, int]) -> Objects:
    found = no_objects((shape[0] * shape[1],))
    for one in stored:
        count, total, threshold, zeros = _doubles(one.totals).tolist()
        found[one.place] = Histogram(
            one.schema, count, total, threshold, zeros,
            _buckets(one.positive), _buckets(one.negative), tuple(_doubles(one.bounds).tolist()),
            Hint(one.hint),
        )  # fmt: skip
    return found.reshape(shape)


def _buckets(side: tuple[bytes, bytes]) -> Buckets:
    index, counts = side
    return Buckets(np.frombuffer(index, np.int64).copy(), _doubles(counts)) if index else NO_BUCKETS


def _doubles(raw: bytes) -> Doubles:
    return np.frombuffer(raw, np.float64).copy()
